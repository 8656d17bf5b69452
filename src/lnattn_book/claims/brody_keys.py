"""The rules of Brody et al. 2023 on unselectable keys, and on the models in which they are sought.

As in `brody`, arguments are results. That no key is unselectable after LayerNorm is
Theorem 1 and can fail in no run, so B7 to B9 do not judge it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lnattn_book.claims.verdicts import Case, Record, replacing, rule, size
from lnattn_book.claims.words import FAILS, HOLDS, HOLDS_IN_PART, UNDECIDED, graded
from lnattn_book.language_models import mean_and_interval

if TYPE_CHECKING:
    from lnattn.selectability.random_keys import RandomGrid
    from lnattn_book.words import MarkedSentence


@rule
def b7(case: Case, grid: RandomGrid) -> Record:
    """B7, random keys. grid: of keys without LayerNorm."""
    share = grid.fraction
    rises = (np.diff(share, axis=0) >= -case.noise).mean()
    falls = (np.diff(share, axis=1) <= case.noise).mean()
    corner, far = share[-1, 0], share[-1, -1]
    return Record(
        graded((rises >= case.cells, falls >= case.cells, corner > case.many)),
        f"mean share {corner:.0%} at n = {grid.counts[-1]}, d = {grid.widths[0]} and {far:.1%} at "
        f"d = {grid.widths[-1]}; rises with n in {rises:.0%}, falls with d in {falls:.0%} of pairs",
        {"corner": corner, "far": far},
        "text and code of the paper name different quantities",
        **size(corner, "of the keys", far, grid.fraction.size),
    )


@rule
def b8(case: Case, exact: np.ndarray, searched: np.ndarray) -> Record:
    """B8, without scaling. exact: shares [seed layer]; searched: as the papers count, [layer]."""
    note = f"by the papers' search {_percent(searched)} %"
    return _by_layers(case, exact, "without scaling", note)


@rule
def b9(case: Case, exact: np.ndarray) -> Record:
    """B9, before LayerNorm. exact: shares [seed layer]."""
    return _by_layers(case, exact, "before LayerNorm", "")


def _by_layers(case: Case, exact: np.ndarray, what: str, note: str) -> Record:
    mean, reported = exact.mean(axis=0), np.array(case.reported) / 100
    some = HOLDS_IN_PART if (mean >= case.some).all() else FAILS
    farthest, spread = 100 * np.abs(mean - reported).max(), 100 * np.ptp(exact, axis=0).max()
    far = f"up to {farthest:.1f} points from the paper's; seeds differ by up to {spread:.1f}"
    return Record(
        graded(mean >= case.half * reported, none=some, some=some),
        f"{_percent(mean)} % {what}, mean of {len(exact)} seeds",
        {f"layer {i}": 100 * value for i, value in enumerate(mean, start=1)},
        "; ".join(filter(None, (far, note))),
        **size(
            100 * np.array(mean_and_interval(exact.mean(axis=1))), "% of the keys", 0, len(exact)
        ),
    )


def _percent(shares: Iterable[float]) -> str:
    return ", ".join(f"{100 * share:.1f}" for share in shares)


def _b10_before(case: Case, held_out: np.ndarray, training: np.ndarray, *asked: Any) -> str:
    """The verdict by the signs of the differences and of their means, whatever their intervals."""
    if _b10_wants(case, held_out, *asked):
        return UNDECIDED
    lower = [(losses[:, 0] < losses[:, 1]).all() for losses in (held_out, training)]
    means = [(losses[:, 1] - losses[:, 0]).mean() for losses in (held_out, training)]
    return graded(lower, none=HOLDS_IN_PART if min(means) > 0 else FAILS)


def _b10_wants(case: Case, held_out: np.ndarray, tokens: float, rates: int) -> bool:
    return tokens < case.tokens or rates < case.rates or len(held_out) < case.pairs


@replacing(_b10_before)
def b10(
    case: Case, held_out: np.ndarray, training: np.ndarray, tokens: float, rates: int
) -> Record:
    """B10, the loss is lower with scaling.

    held_out, training: [pair 2], with scaling and without, in nats a token; tokens: seen, as a
    share of the paper's; rates: learning rates tried for each arm.
    """
    ends = "; ".join(f"{with_:.3f} against {without:.3f}" for with_, without in held_out)
    lead = {
        name: mean_and_interval(losses[:, 1] - losses[:, 0])
        for name, losses in (("held out", held_out), ("training", training))
    }
    note = "; ".join(
        f"{name} lower with scaling by {mean:.3f} nats [{low:.3f}, {high:.3f}]"
        for name, (mean, low, high) in lead.items()
    )
    below, pairs = all(high < 0 for _, _, high in lead.values()), len(held_out)
    verdict = graded((low > 0 for _, low, _ in lead.values()), none=FAILS if below else UNDECIDED)
    if _b10_wants(case, held_out, tokens, rates):
        verdict = UNDECIDED
        note = (
            f"{pairs} pair{'s' * (pairs > 1)} of runs on {tokens:.1%} of the paper's tokens with "
            f"{rates} rate{'s' * (rates > 1)} an arm; {case.pairs} pairs, {case.tokens:.0%} and "
            f"{case.rates} rates would decide"
        )
    elif verdict == UNDECIDED:
        note += "; more pairs would decide"
    return Record(
        verdict,
        f"held out, with against without: {ends}",
        {name: mean for name, (mean, *_) in lead.items()},
        note,
        **size(lead["held out"], "nats a token", 0, pairs),
    )


@rule
def b11(case: Case, sentences: Sequence[MarkedSentence], base: float) -> Record:
    """B11, sentiment words. base: share of all tokens that are unselectable in some layer."""
    marked = [e for one in sentences for e, b in zip(one.exact, one.bold, strict=True) if b]
    lost, others = sum(marked), sum(sum(one.exact) for one in sentences) - sum(marked)
    chance = 1 - (1 - base) ** len(marked)
    return Record(
        HOLDS if lost else HOLDS_IN_PART if others else FAILS,
        f"{lost} of the paper's {len(marked)} marked words; {base:.1%} of all tokens",
        {"marked": lost, "base": base},
        f"chance alone gives one or more with probability {chance:.0%}: nothing says that deciding "
        "words are more exposed than others",
        **size(lost / max(len(marked), 1), "of the marked words", base, len(marked)),
    )


@rule
def b12(case: Case, counts: Sequence[int]) -> Record:
    """B12, numbers of parameters, of the models in the order in which the claim has them."""
    named = list(zip(counts, case.unit, case.reported, strict=True))
    return Record(
        graded(round(count / unit) == reported for count, unit, reported in named),
        f"{', '.join(f'{count:,}' for count in counts)} parameters",
        {str(reported): count for count, _, reported in named},
    )
