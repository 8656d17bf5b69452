"""What claims on unselectable keys are judged by: of Brody et al. 2023 (B), and the book's own (U).

As in `brody`, arguments are results. That no key is unselectable after LayerNorm is Theorem 1 and
can fail in no run, so B7 to B9 do not judge it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import binom, binomtest

from lnattn_book.claims.rules import Case, rule, stated
from lnattn_book.claims.verdicts import Between
from lnattn_book.language_models import mean_and_interval

if TYPE_CHECKING:
    from lnattn.selectability.layers import LayerVerdicts
    from lnattn.selectability.random_keys import RandomGrid
    from lnattn_book.words import MarkedSentence

b14, b16, u4, u5 = map(stated, ("B14", "B16", "U4", "U5"))


@rule
def b7(case: Case, grid: RandomGrid) -> dict[str, Any]:
    """grid: of keys without LayerNorm."""
    share = grid.fraction
    return {
        "rises": (np.diff(share, axis=0) >= -case.noise).mean(),
        "falls": (np.diff(share, axis=1) <= case.noise).mean(),
        "corner": Between(*mean_and_interval(grid.unselectable[-1, 0] / grid.counts[-1])),
        "far": share[-1, -1],
        "draws": grid.unselectable.shape[2],
    }


@rule
def b8(case: Case, exact: np.ndarray, searched: np.ndarray | None = None) -> dict[str, Any]:
    """exact: shares [seed layer]; searched: as the papers count, [layer]."""
    by_layer = Between.rows([mean_and_interval(layer) for layer in exact.T])
    reported = np.array(case.reported) / 100
    found: dict[str, Any] = {"share": by_layer}
    found |= {"part": Between(*(np.asarray(one) / reported for one in by_layer))}
    found |= {"seeds": len(exact), "apart": float(100 * np.abs(by_layer.value - reported).max())}
    search = "" if searched is None else ", ".join(f"{100 * x:.1f}" for x in searched)
    found |= {f"layer_{n}": 100 * value for n, value in enumerate(by_layer.value, start=1)}
    return found | {"by_search": search and f"; by the papers' search {search} %"}


#: B9 asks of keys before LayerNorm what B8 asks of those without scaling.
b9 = stated("B9", b8.measure)


@rule
def b10(
    case: Case, held_out: np.ndarray, training: np.ndarray, tokens: float, rates: int
) -> dict[str, Any]:
    """held_out, training: [pair 2], with scaling and without, in nats a token; tokens: seen, as a
    share of the paper's; rates: learning rates tried for each arm."""
    named = {"held_out": held_out, "training": training}
    lead = {
        name: Between(*mean_and_interval(losses[:, 1] - losses[:, 0]))
        for name, losses in named.items()
    }
    return {**lead, "tokens": tokens, "rates": rates, "pairs": len(held_out)}


@rule
def b11(case: Case, sentences: Sequence[MarkedSentence], base: float) -> dict[str, Any]:
    """base: share of all tokens that are unselectable in some layer.

    As many lost words as there are, or more, and none at all, by chance: a verdict needs that
    chance seldom gives it.
    """
    marked = [e for one in sentences for e, b in zip(one.exact, one.bold, strict=True) if b]
    lost, words = int(sum(marked)), len(marked)
    luck = float(binom.sf(lost - 1, words, base) if lost else binom.pmf(0, words, base))
    found: dict[str, Any] = {"can": float(bool(lost)) if luck < case.p else 0.5, "luck": luck}
    ends = binomtest(lost, words).proportion_ci()
    found["marked"] = Between(lost, words * ends.low, words * ends.high)
    return {**found, "lost": lost, "words": words, "base": base, "expected": base * words}


@rule
def b12(case: Case, counts: Sequence[int]) -> dict[str, Any]:
    """Numbers of parameters, of the models in the order in which the claim has them."""
    named = zip(counts, case.unit, case.reported, strict=True)
    off = np.array([round(count / unit) - reported for count, unit, reported in named])
    return {"off": off, "counts": ", ".join(f"{count:,}" for count in counts)}


@rule
def u1(case: Case, found: LayerVerdicts) -> dict[str, Any]:
    """Shares of unselectable keys in every head of every layer."""
    shares = found.by_head()
    keys = found.unselectable[0].size
    return {"lost": shares.ravel(), "most": shares.max(), "share": shares.mean(), "keys": keys}
