"""The rules of the book's own claims on what is used (chapter 06): from results to verdicts.

No paper states these. They were written, with their parameters in `book/claims.yml`, before any
model was run without a part of its scores.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
from jaxtyping import Float
from scipy.stats import rankdata, spearmanr

from lnattn.ablation.study import CLASSES, Ablations, interval
from lnattn_book.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_COMPUTABLE,
    NOT_SEEN,
    UNDECIDED,
    Case,
    Record,
    rule,
)

#: Up to so many heads every order of them is counted; beyond, a sample of orders.
_ALL_ORDERS = 8


def in_words(found: tuple[float, float, float]) -> str:
    """A value with its interval: '+0.123 [+0.100, +0.150]'."""
    return "{:+.3f} [{:+.3f}, {:+.3f}]".format(*found)


@rule(
    "Loss of the token after a second piece, less that after matched tokens (tenths by frequency "
    "and by the model's own loss), without T^ee. Holds if it rises by {nats} nats or more without "
    "T^ee of all heads, and its 95 % interval over documents lies above 0 there and without T^ee "
    "of the one head that knows most of its query (specific AUROC); in part if the first interval "
    "lies above 0; fails if it lies below; else not seen. Not computable for fewer than {tokens} "
    "such tokens."
)
def s7(case: Case, found: Ablations, specific: Float[np.ndarray, "head"]) -> Record:
    """S7, T^ee is used where words are put together. specific: AUROC less a wrong query's."""
    return _used(case, found, specific, "second pieces")


@rule(
    "As S7, for the second words of names: two capitalised words, each one token, after letters "
    "without a capital. Holds if the loss after them, less that after matched tokens, rises by "
    "{nats} nats or more without T^ee of all heads, with 95 % intervals above 0 there and without "
    "T^ee of the one head; in part if the first interval lies above 0; fails if it lies below; "
    "else not seen. Not computable for fewer than {tokens} such tokens."
)
def s8(case: Case, found: Ablations, specific: Float[np.ndarray, "head"]) -> Record:
    """S8, T^ee is used where names are put together. specific: AUROC less a wrong query's."""
    return _used(case, found, specific, "second words of names")


def _used(case: Case, found: Ablations, specific: np.ndarray, of: str) -> Record:
    number = int(found.tokens[0, list(CLASSES).index(of), 1])
    if number < case.tokens:
        return Record(NOT_COMPUTABLE, f"{number} {of} with a match")
    head = int(specific.argmax())
    whole, alone = (interval(found.excess("ee", of=of, head=one)) for one in (-1, head))
    pairs = interval(found.excess("pairs", of=of))
    if whole[1] > 0:
        sure = whole[0] >= case.nats and alone[1] > 0
        verdict = HOLDS if sure else HOLDS_IN_PART
    else:
        verdict = FAILS if whole[2] < 0 else NOT_SEEN
    return Record(
        verdict,
        f"nats without T^ee: {in_words(whole)}; of head {head} alone: {in_words(alone)}; of "
        f"counted pairs only: {in_words(pairs)}; {number:,} tokens",
        {"whole": whole[0], "alone": alone[0], "pairs": pairs[0], "tokens": number},
        short=f"{whole[0]:+.3f}",
    )


@rule(
    "Spearman over heads of what the weights foretell with the loss after second pieces beyond "
    "matched tokens without T^ee of that head alone. Holds if for the specific AUROC its 95 % "
    "interval over documents lies above 0 and fewer than {p:.0%} of all orders of the heads have "
    "as high a value; in part if so for the plain AUROC or for how far attention moves; fails if "
    "for the specific AUROC the interval lies below 0; else undecided."
)
def s9(
    case: Case,
    by_head: Float[np.ndarray, "draw head"],
    auroc: Float[np.ndarray, "head"],
    specific: Float[np.ndarray, "head"],
    divergence: Float[np.ndarray, "head"],
) -> Record:
    """S9, what weights foretell is what is used. by_head: of `Ablations`; the others by head."""
    named = {"specific AUROC": specific, "AUROC": auroc, "divergence": divergence}
    rho = {name: interval(_rho(one, by_head)) for name, one in named.items()}
    p = {name: _share_as_high(one, by_head[0]) for name, one in named.items()}
    sure = [rho[name][1] > 0 and p[name] < case.p for name in named]
    low = rho["specific AUROC"][2] < 0
    verdict = HOLDS if sure[0] else HOLDS_IN_PART if any(sure) else FAILS if low else UNDECIDED
    words = "; ".join(f"{name}: ρ = {in_words(rho[name])}, p = {p[name]:.3f}" for name in named)
    note = "a model with more heads would decide" if verdict == UNDECIDED else ""
    return Record(verdict, words, {name: rho[name][0] for name in named}, note)


@rule(
    "Loss after second pieces beyond matched tokens, without place (T^p and T^pp; rotary: what "
    "distance alone adds) less the same without T^ee, both of all heads. Holds if the 95 % "
    "interval over documents lies above 0; fails if below; else undecided."
)
def s10(case: Case, found: Ablations) -> Record:
    """S10, place joins words more than content does."""
    place, content = found.excess("place"), found.excess("ee")
    difference = interval(place - content)
    verdict = HOLDS if difference[1] > 0 else FAILS if difference[2] < 0 else UNDECIDED
    return Record(
        verdict,
        f"nats: {in_words(interval(place))} without place, {in_words(interval(content))} without "
        f"T^ee; difference {in_words(difference)}",
        {"place": place[0], "content": content[0], "difference": difference[0]},
        "more documents would decide" if verdict == UNDECIDED else "",
    )


def _rho(foretold: Float[np.ndarray, "head"], used: Float[np.ndarray, "draw head"]) -> np.ndarray:
    """Spearman of one prediction with the loss of every draw."""
    return np.array([spearmanr(foretold, one).statistic for one in used])


def _share_as_high(one: Float[np.ndarray, "head"], other: Float[np.ndarray, "head"]) -> float:
    """Share of the orders of heads in which two rankings agree as well, or better."""
    first, second = rankdata(one), rankdata(other)
    if len(one) <= _ALL_ORDERS:
        orders = np.array(list(permutations(second)))
    else:
        rng = np.random.default_rng(0)
        orders = np.array([second, *(rng.permutation(second) for _ in range(20_000))])
    agreement = orders @ first
    return float((agreement >= second @ first - 1e-9).mean())
