"""D9: with rotary positions a head looks back when the query continues a word."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from lnattn.stats import resampled_counts
from lnattn_book.claims.conditions import Condition, Truths, above, any_of, below
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import NullModel
from lnattn_book.claims.rules import Detail, Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, array, constants
from lnattn_book.claims.verdicts import HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED
from lnattn_book.studies.switch import ConstantsStudy, SwitchStudy, chance_of

#: Bootstrap samples of texts behind an interval.
DRAWS = 2000


def measure(context: RuleContext, texts: SwitchStudy, weights: ConstantsStudy) -> dict[str, Any]:
    """What pieces pay to the token before beyond words, and what T^ed makes of it, by head."""
    share = context["share"]
    ed = texts.shares[texts.of("ed")]
    turned = [
        {
            "more": pieces_less_words(attention, weights.queries),
            "beyond": pieces_less_words(of_ed - share * attention, weights.queries),
            "chance": chance_of(nats, weights.turned_nats),
        }
        for attention, of_ed, nats in zip(
            weights.turned_attention, weights.turned_ed, weights.turned_nats, strict=False
        )
    ]
    return {
        "more": pieces_less_words(texts.attention, texts.queries),
        "by_ed": pieces_less_words(ed, texts.queries),
        "beyond": pieces_less_words(ed - share * texts.attention, texts.queries),
        "nats": weights.nats,
        "matched": weights.matched,
        "chance": weights.chance,
        "turned": Detail(turned),
    }


def pieces_less_words(
    sums: Float[np.ndarray, "kind text head"], queries: Int[np.ndarray, "kind text"]
) -> Interval:
    """Mean over pieces less mean over words, with intervals over texts that hold for all heads."""
    # Both kinds see the same texts drawn anew: their difference is paired.
    drawn = texts_drawn(queries.shape[1])
    resampled = (drawn @ sums) / (drawn @ queries[..., None])  # [kind draw head]
    low, high = np.quantile(resampled[0] - resampled[1], (0.025, 0.975), axis=0)
    means = sums.sum(axis=1) / queries.sum(axis=1)[:, None]
    return Interval(means[0] - means[1], low, high).bonferroni()


@lru_cache
def texts_drawn(texts: int) -> Float[np.ndarray, "draw text"]:
    """How often each text counts in 2,000 bootstrap samples, the same for all that is compared."""
    return resampled_counts(texts, DRAWS).astype(np.float64)


def decide(measures: Measures, context: RuleContext) -> dict[str, Condition | Truths]:
    asks = above(measures["more"], context["more"])
    by_chance = context["level"] / np.size(measures["chance"])
    return {
        "a head looks back from pieces more than from words": any_of(asks),
        "T^ed makes most of it there": any_of(asks & above(measures["beyond"], 0)),
        "the weights alone tell": any_of(asks & below(measures["chance"], by_chance)),
    }


def turned(measures: Measures, generator: np.random.Generator) -> dict[str, Any]:
    """The measures of one of the models whose k₀ was turned."""
    draws = measures["turned"].value
    return draws[int(generator.integers(len(draws)))]


#: Head, frequencies and strengths stay; where the frequencies meet is left to chance.
NULL = NullModel(
    "the same model, k₀ turned by a random angle in every plane of the rotation", turned
)


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, studies(0.5, 0.4, 4.0)),
        Trial("another term does it", HOLDS_IN_PART, studies(0.5, 0.1, 4.0)),
        Trial("constants that are turned do it as well", HOLDS_IN_PART, studies(0.5, 0.4, 0.5)),
        Trial("both kinds look back alike", NOT_SEEN, studies(0.02, 0.02, 4.0)),
        Trial("noise", UNDECIDED, studies(0.12, 0.1, 4.0, noise=0.2)),
    ]


def studies(
    more: float, by_ed: float, nats: float, noise: float = 0.01
) -> tuple[SwitchStudy, ConstantsStudy]:
    """Of two heads, of which the first pays so much more from pieces, in forty texts."""
    generator = np.random.default_rng(0)
    queries = np.full((2, 40), 30)

    def sums(first: float) -> np.ndarray:
        means = np.zeros((2, 40, 2))
        means[0, :, 0] = first
        return 30 * (0.2 + means + noise * generator.standard_normal(means.shape))

    attention = sums(more)
    shares = sums(by_ed)[None]
    texts = SwitchStudy(queries, attention, shares, shares, attention[None], {"terms": ["ed"]})
    weights = constants(
        2,
        queries=queries,
        nats=array(nats, 0.1),
        turned_nats=generator.standard_normal((999, 2)),
        turned_attention=np.stack([sums(0.0) for _ in range(5)]),
        turned_ed=np.stack([sums(0.0) for _ in range(5)]),
    )
    return texts, weights


d9 = register_rule(
    "D9",
    measure,
    decide,
    effect=Effect("more", unit="of the attention (largest head)", null=0, pick="largest"),
    not_seen=True,
    null_model=NULL,
    trials=trials,
)
