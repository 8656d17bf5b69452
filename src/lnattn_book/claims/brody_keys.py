"""The rules of Brody et al. 2023 on unselectable keys, and on the models in which they are sought.

As in `brody`, arguments are results. That no key is unselectable after LayerNorm is
Theorem 1 and can fail in no run, so B7 to B9 do not judge it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from lnattn_book.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    UNDECIDED,
    Case,
    Change,
    Record,
    rule,
)
from lnattn_book.language_models import mean_and_interval

if TYPE_CHECKING:
    from lnattn.selectability.random_keys import RandomGrid
    from lnattn_book.words import MarkedSentence


@rule(
    "By the mean share of unselectable keys, neighbouring cells of the grid compared: holds if the "
    "share rises with n and falls with d in {cells:.0%} of the pairs, up to {noise:.0%} of noise, "
    "and exceeds {many:.0%} at the largest n and smallest d; in part if some of the three; else "
    "fails. That it is 0 after LayerNorm is Theorem 1 and is not judged."
)
def b7(case: Case, grid: RandomGrid) -> Record:
    """B7, random keys. grid: of keys without LayerNorm."""
    share = grid.fraction
    rises = (np.diff(share, axis=0) >= -case.noise).mean()
    falls = (np.diff(share, axis=1) <= case.noise).mean()
    corner, far = share[-1, 0], share[-1, -1]
    parts = (rises >= case.cells, falls >= case.cells, corner > case.many)
    return Record(
        HOLDS if all(parts) else HOLDS_IN_PART if any(parts) else FAILS,
        f"mean share {corner:.0%} at n = {grid.counts[-1]}, d = {grid.widths[0]} and {far:.1%} at "
        f"d = {grid.widths[-1]}; rises with n in {rises:.0%}, falls with d in {falls:.0%} of pairs",
        {"corner": corner, "far": far},
        "text and code of the paper name different quantities",
    )


@rule(
    "By the exact share of unselectable keys of a model without scaling, averaged over seeds, "
    "beside the reported {reported} %: holds if every layer has at least {half:.0%} of what is "
    "reported; in part if every layer has at least {some:.0%} of its keys unselectable; else "
    "fails. That it is 0 with scaling is Theorem 1 and is not judged."
)
def b8(
    case: Case, exact: Float[np.ndarray, "seed layer"], searched: Float[np.ndarray, "layer"]
) -> Record:
    """B8, without scaling. searched: shares as the papers' search counts them, as in Table 1."""
    note = f"by the papers' search {_percent(searched)} %"
    return _by_layers(case, exact, "without scaling", note)


@rule(
    "By the exact share of unselectable keys before the LayerNorm of a model that has one, "
    "averaged over seeds, beside the reported {reported} %: holds if every layer has at least "
    "{half:.0%} of what is reported; in part if every layer has at least {some:.0%} of its keys "
    "unselectable; else fails. That it is 0 after is Theorem 1 and is not judged."
)
def b9(case: Case, exact: Float[np.ndarray, "seed layer"]) -> Record:
    """B9, before LayerNorm. exact: shares by seed and layer."""
    return _by_layers(case, exact, "before LayerNorm", "")


def _by_layers(case: Case, exact: Float[np.ndarray, "seed layer"], what: str, note: str) -> Record:
    mean, reported = exact.mean(axis=0), np.array(case.reported) / 100
    if (mean >= case.half * reported).all():
        verdict = HOLDS
    else:
        verdict = HOLDS_IN_PART if (mean >= case.some).all() else FAILS
    farthest = 100 * np.abs(mean - reported).max()
    spread = 100 * np.ptp(exact, axis=0).max()
    far = f"up to {farthest:.1f} points from the paper's; seeds differ by up to {spread:.1f}"
    return Record(
        verdict,
        f"{_percent(mean)} % {what}, mean of {len(exact)} seeds",
        {f"layer {i}": 100 * value for i, value in enumerate(mean, start=1)},
        "; ".join(filter(None, (far, note))),
    )


def _percent(shares: Sequence[float] | np.ndarray) -> str:
    return ", ".join(f"{100 * share:.1f}" for share in shares)


def _b10_before(case: Case, held_out: np.ndarray, training: np.ndarray, *asked: Any) -> str:
    """The verdict by the signs of the differences and of their means, whatever their intervals."""
    if _b10_wants(case, held_out, *asked):
        return UNDECIDED
    lower = [(losses[:, 0] < losses[:, 1]).all() for losses in (held_out, training)]
    means = [(losses[:, 1] - losses[:, 0]).mean() for losses in (held_out, training)]
    return HOLDS if all(lower) else HOLDS_IN_PART if any(lower) or min(means) > 0 else FAILS


def _b10_wants(case: Case, held_out: np.ndarray, tokens: float, rates: int) -> bool:
    return tokens < case.tokens or rates < case.rates or len(held_out) < case.pairs


@rule(
    "By the loss at the end of training without scaling less with it, pairs of runs with one seed, "
    "mean with a 95 % interval by Student's t. Holds if both intervals, held out and in training, "
    "lie above 0; in part if one does; fails if both lie below; undecided otherwise, below "
    "{tokens:.0%} of the paper's tokens, with fewer than {rates} learning rates tried for each "
    "arm, or with fewer than {pairs} pairs.",
    "",
    Change(
        "23 Nov 2026",
        "the sign of a mean of three pairs had decided, which is a coin's toss where there is no "
        "difference; now the interval does",
        _b10_before,
    ),
)
def b10(
    case: Case,
    held_out: Float[np.ndarray, "pair 2"],
    training: Float[np.ndarray, "pair 2"],
    tokens: float,
    rates: int,
) -> Record:
    """B10, the loss is lower with scaling. Losses with scaling and without, in nats a token;
    tokens: seen, as a share of the paper's; rates: learning rates tried for each arm."""
    ends = "; ".join(f"{with_:.3f} against {without:.3f}" for with_, without in held_out)
    lead = {
        name: mean_and_interval(losses[:, 1] - losses[:, 0])
        for name, losses in (("held out", held_out), ("training", training))
    }
    above = [low > 0 for _, low, _ in lead.values()]
    note = "; ".join(
        f"{name} lower with scaling by {mean:.3f} nats [{low:.3f}, {high:.3f}]"
        for name, (mean, low, high) in lead.items()
    )
    if _b10_wants(case, held_out, tokens, rates):
        verdict, pairs = UNDECIDED, len(held_out)
        note = (
            f"{pairs} pair{'s' * (pairs > 1)} of runs on {tokens:.1%} of the paper's tokens with "
            f"{rates} rate{'s' * (rates > 1)} an arm; {case.pairs} pairs, {case.tokens:.0%} and "
            f"{case.rates} rates would decide"
        )
    elif any(above):
        verdict = HOLDS if all(above) else HOLDS_IN_PART
    elif all(high < 0 for _, _, high in lead.values()):
        verdict = FAILS
    else:
        verdict, note = UNDECIDED, f"{note}; more pairs would decide"
    values = {name: mean for name, (mean, *_) in lead.items()}
    return Record(verdict, f"held out, with against without: {ends}", values, note)


@rule(
    "The claim is that such words exist. Holds if a word that the paper marks as deciding is "
    "unselectable, proved, in some layer; in part if only other words of the same sentences are; "
    "else fails. Whether they are unselectable more often than other words is not claimed."
)
def b11(case: Case, sentences: Sequence[MarkedSentence], base: float) -> Record:
    """B11, sentiment words. base: share of all tokens that are unselectable in some layer."""
    marked = [e for one in sentences for e, b in zip(one.exact, one.bold, strict=True) if b]
    lost, others = sum(marked), sum(sum(one.exact) for one in sentences) - sum(marked)
    chance = 1 - (1 - base) ** len(marked)
    verdict = HOLDS if lost else HOLDS_IN_PART if others else FAILS
    return Record(
        verdict,
        f"{lost} of the paper's {len(marked)} marked words; {base:.1%} of all tokens",
        {"marked": lost, "base": base},
        f"chance alone gives one or more with probability {chance:.0%}: nothing says that deciding "
        "words are more exposed than others",
    )


@rule("Holds if the counts are {reported}, in units of {unit} parameters; in part if some are.")
def b12(case: Case, counts: Sequence[int]) -> Record:
    """B12, numbers of parameters, of the models in the order in which the claim has them."""
    same = [
        round(count / unit) == reported
        for count, unit, reported in zip(counts, case.unit, case.reported, strict=True)
    ]
    return Record(
        HOLDS if all(same) else HOLDS_IN_PART if any(same) else FAILS,
        f"{', '.join(f'{count:,}' for count in counts)} parameters",
        {str(reported): count for reported, count in zip(case.reported, counts, strict=True)},
    )
