"""The four verdicts on a claim, and those on claims that are made about every head."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lnattn.errors import ResultError

HOLDS = "holds"
HOLDS_IN_PART = "holds in part"
FAILS = "fails"
NOT_COMPUTABLE = "not computable with this model"

#: The four verdicts and the mark that stands before each in a table.
VERDICTS: Mapping[str, str] = {
    HOLDS: "✓",
    HOLDS_IN_PART: "◐",
    FAILS: "✗",
    NOT_COMPUTABLE: "–",
}


def of_heads(flags: Iterable[Any]) -> tuple[str, str]:
    """The verdict and a phrase such as '11 of 12 heads', from one flag for each head.

    All heads: the claim holds; some: in part; none: it fails.
    """
    each = [bool(flag) for flag in flags]
    if not each:
        raise ResultError("a verdict needs at least one head.")
    count = sum(each)
    verdict = HOLDS if count == len(each) else HOLDS_IN_PART if count else FAILS
    return verdict, f"{count} of {len(each)} heads"


def heads_where(flags: Iterable[Any]) -> str:
    """The heads whose flag is set, for a sentence: '0, 2 and 3'; 'none' where there is none."""
    chosen = [str(head) for head, flag in enumerate(flags) if flag]
    if len(chosen) < 2:
        return chosen[0] if chosen else "none"
    return f"{', '.join(chosen[:-1])} and {chosen[-1]}"
