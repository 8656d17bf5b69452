"""The numbers that stand in a sentence, each with the digits in which it is printed.

>>> [number.text for number in numbers_in("GPT-2 loses 0.96 nats in 4 heads, 17 to 28 % of 1,945")]
['0.96', '4', '17', '28 %', '1,945']

A number that hangs on letters is part of a name (GPT-2, D5, 3D); so is one in asterisks (the
vector **1**). Where one of two numbers beside each other is a percentage or counts millions, so is
the one before it: 17 to 28 %.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal
from operator import ge, gt, le, lt

import numpy as np

_NUMBER = re.compile(
    r"""
    (?<![\w.,*])(?<![A-Za-z][-‑])       # part of no name and of no longer number
    (?P<one_in>(?:1|one)\ in\ )?
    (?P<sign>[-−+]?)
    (?P<digits>(?>\d{1,3}(?:,\d{3})+|\d+)?(?>\.\d+|(?<=\d))(?>e[-−+]?\d+)?)
    (?![\w*])
    (?P<scale>\ (?:thousand|million|billion)\b)?
    (?P<percent>\ ?%|\ per\ cent\b)?
    """,
    re.VERBOSE,
)
_BETWEEN = re.compile(r"(?:,| ?–|,? and| to| or) ?")
_BOUNDS = {
    "<": re.compile(r"(?<!\bno )(?<!\bnot )\b(?:(?:less|fewer|smaller) than|below|within) $"),
    "≤": re.compile(r"\b(?:at most|up to|(?:no|not) (?:more|greater|larger) than) $"),
    ">": re.compile(r"(?<!\bno )(?<!\bnot )\b(?:(?:more|greater|larger) than|above) $"),
    "≥": re.compile(r"\b(?:at least|(?:no|not) (?:less|fewer) than) $"),
}
#: Bounds that stand behind their number, and perhaps its unit.
_BOUNDS_BEHIND = {
    "≤": re.compile(r"(?: \w+)? (?:at most|or less|or fewer)\b(?! [\d.])"),
    "≥": re.compile(r"(?: \w+)? (?:at least|or more)\b(?! [\d.])"),
}
_COMPARED = {"<": lt, "≤": le, ">": gt, "≥": ge}
_SCALES = {"": 1, "thousand": 10**3, "million": 10**6, "billion": 10**9}
#: Numbers that are spelled, and ask for a condition: they are not compared.
_SPELLED = re.compile(
    r"\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|hundred|thousand|half"
    r"|third|quarter|fifth|tenth|twice|\w+fold)s?\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Number:
    """A number as a sentence prints it.

    text: as it stands; start, end: where, in the sentence. says: its value; unit: of its last
    digit. bound: '<' or '>' behind 'less than' and 'more than', '≤' or '≥' beside 'at most' and 'at
    least', else ''. is_percent: 84 % says
    0.84. one_in: '1 in 1,945' is a share.
    """

    text: str
    start: int
    end: int
    digits: Decimal
    scale: int = 1
    bound: str = ""
    is_percent: bool = False
    one_in: bool = False

    @property
    def factor(self) -> Decimal:
        """What one of the printed numbers is worth."""
        return Decimal(self.scale) / (100 if self.is_percent else 1)

    @property
    def decimals(self) -> int:
        """Digits behind the point; in 2e-6 there are six."""
        return max(0, -int(self.digits.as_tuple().exponent))

    def printed(self, value: float) -> float:
        """A value in the unit of the printed number: 26.6 for .266 beside 27 %."""
        if self.one_in:
            return float(np.divide(1.0, value))
        return float(value) / float(self.factor)

    def fits(self, value: float) -> bool:
        """Whether this is what a value is when it is rounded to the printed digits."""
        computed = self.printed(value)
        said = float(self.digits)
        half = 0.5 * 10.0**-self.decimals
        slack = 1e-12 * max(half, abs(said))  # of a value that lies between two printed numbers
        if self.bound in ("≤", "≥"):
            reached = abs(computed - said) <= slack
            return reached or _COMPARED[self.bound](computed, said)
        if self.bound:
            return _COMPARED[self.bound](computed, said)
        return abs(computed - said) <= half + slack

    def like(self, value: float) -> str:
        """A value as the sentence would print it, with a digit more."""
        computed = self.printed(value)
        is_small = "e" in self.text.lower() or 0 < abs(computed) < 10.0 ** (-self.decimals - 1)
        if is_small:
            shown = f"{computed:.1e}"
        elif self.decimals == 0 and computed.is_integer():
            shown = f"{computed:,.0f}"
        else:
            shown = f"{computed:,.{self.decimals + 1}f}"
        before = "1 in " if self.one_in else ""
        name = {scale: name for name, scale in _SCALES.items()}[self.scale]
        behind = f" {name}".rstrip() + (" %" if self.is_percent else "")
        return before + shown.replace("-", "−") + behind


def numbers_in(words: str) -> list[Number]:
    """The numbers of a sentence, in order."""
    words = words.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")
    numbers = [_number(match) for match in _NUMBER.finditer(words)]
    for index in reversed(range(len(numbers) - 1)):
        here = numbers[index]
        behind = numbers[index + 1]
        if not _BETWEEN.fullmatch(words[here.end : behind.start]):
            continue
        numbers[index] = replace(
            here,
            is_percent=here.is_percent or behind.is_percent,
            scale=behind.scale if here.scale == 1 else here.scale,
        )
    return numbers


def is_spelled_in(words: str) -> bool:
    """Whether a number above one is written in letters."""
    return bool(_SPELLED.search(words))


def _number(match: re.Match[str]) -> Number:
    sign = "-" if match["sign"] in ("-", "−") else ""
    before = match.string[: match.start()].lower()
    behind = match.string[match.end() :].lower()
    bounds = [sign for sign, pattern in _BOUNDS.items() if pattern.search(before)]
    bounds += [sign for sign, pattern in _BOUNDS_BEHIND.items() if pattern.match(behind)]
    return Number(
        text=match[0],
        start=match.start(),
        end=match.end(),
        digits=Decimal(sign + match["digits"].replace(",", "").replace("−", "-")),
        scale=_SCALES[(match["scale"] or "").strip()],
        bound=bounds[0] if bounds else "",
        is_percent=match["percent"] is not None,
        one_in=match["one_in"] is not None,
    )
