"""What the chapter on rotary models states: turning, distance alone, phases, skill, twins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.attention.folding import fold
from lnattn.attention.terms import six_terms
from lnattn.errors import ResultError
from lnattn.rotary.fold import FoldedRelative, MeanVectors, fold_relative
from lnattn.rotary.position import attention_of_curve
from lnattn.rotary.terms import DISTANCE_TERMS, distance_terms
from lnattn.rotary.weights import RelativeAttention, TokenEmbeddings
from lnattn.weights import FirstLayer
from lnattn_book.page import Check, says
from lnattn_book.studies.distance_terms import RotaryStudy
from lnattn_book.studies.language_models import mean_and_interval
from lnattn_book.studies.twins import Twins

#: A frequency that turns by less than this from one token to the next hardly tells them apart.
SLOW = 0.1
#: The keys that count as near.
NEAR = 10


# ---- Turning -------------------------------------------------------------------------------------


def angles(folded: FoldedRelative) -> Float[Tensor, "half"]:
    """By how much each pair of coordinates turns from one position to the next, in radians."""
    if folded.rotation is None:
        raise ResultError("this layer turns nothing; give one with rotary positions.")
    cos, sin = folded.rotation.tables(torch.arange(2), torch.float64)
    half = cos.shape[1] // 2
    return torch.atan2(sin[1], cos[1])[:half]


def turned(
    vector: Float[Tensor, "d_head"], position: int, theta: Float[Tensor, "half"]
) -> Float[Tensor, "d_head"]:
    """A query or key as it stands at a position: coordinate i turns with coordinate i + d′/2."""
    x, y = vector.chunk(2)
    cos = torch.cos(position * theta)
    sin = torch.sin(position * theta)
    return torch.cat([x * cos - y * sin, x * sin + y * cos])


def without_rotation(model: FirstLayer, ids: Sequence[int]) -> float:
    """How far the four terms are from the six where nothing turns (R = I), at most.

    A model with learned positions is read as one by distance whose 'tokens' are sums of token and
    position: then T^ee is T^ee + T^ep + T^pe + T^pp, T^e is T^e + T^p, and the other two do not
    differ between the keys of a query.
    """
    double = model.to(torch.float64)
    layer = double.attention
    six = six_terms(fold(layer), double.embeddings, ids)
    still = fold_relative(
        RelativeAttention(
            ln=layer.ln,
            W_Q=layer.W_Q,
            W_K=layer.W_K,
            b_Q=layer.b_Q,
            b_K=layer.b_K,
            scale=layer.scale,
            causal=layer.causal,
        )
    )
    four = distance_terms(
        still,
        TokenEmbeddings(six.tokens + six.positions),
        list(range(len(ids))),
        constants=MeanVectors(still.b_Q, still.b_K),
    )
    apart = [
        four.ee - six.ee - six.ep - six.pe - six.pp,
        four.e - six.e - six.p,
        *(four[name] - four[name][..., :1] for name in ("ed", "d")),
    ]
    return max(float(difference.abs().max()) for difference in apart)


# ---- Distance alone ------------------------------------------------------------------------------


def attention_alone(study: RotaryStudy) -> Float[np.ndarray, "head distance"]:
    """Attention of every head if distance alone decided, over the distances of the study."""
    return attention_of_curve(study.by_distance.curve, study.by_distance.sinks)


def near_by_distance(study: RotaryStudy) -> pd.DataFrame:
    """Where each head looks by distance alone: shares of its attention, a column a head."""
    alone = attention_alone(study)
    shares = {
        "to the token before": alone[:, 1],
        "to the nearest ten": alone[:, :NEAR].sum(axis=1),
    }
    return pd.DataFrame(shares).rename_axis("head").T


def looking_back(frequencies: Mapping[str, np.ndarray]) -> list[int]:
    """Heads whose distance alone is highest one token back."""
    return np.flatnonzero(frequencies["peak"] == 1).tolist()


def phases(models: Mapping[str, Mapping[str, np.ndarray]]) -> pd.DataFrame:
    """Of heads that are highest one token back: how much of their amplitude is where at Δ = 1.

    slow: the share of the amplitude in frequencies below `SLOW`; fast ones reach: the sum of the
    other cosines at distance 1 through the sum of their amplitudes; all reach: the same of all.
    """
    rows = []
    for name, frequencies in models.items():
        theta = frequencies["theta"]
        is_slow = theta < SLOW
        for head in looking_back(frequencies):
            amplitude = frequencies["amplitude"][head] / frequencies["amplitude"][head].sum()
            at_one = amplitude * np.cos(theta + frequencies["phase"][head])
            rows.append(
                {
                    "model": name,
                    "head": head,
                    "slow": amplitude[is_slow].sum(),
                    "fast ones reach": at_one[~is_slow].sum() / amplitude[~is_slow].sum(),
                    "all reach": at_one.sum(),
                }
            )
    return pd.DataFrame(rows).set_index(["model", "head"])


# ---- Words ---------------------------------------------------------------------------------------


def in_words(values: Float[np.ndarray, "seed"], level: float = 0.95) -> str:
    """A mean over seeds and its interval by Student's t."""
    mean, low, high = mean_and_interval(np.asarray(values, dtype=float), level)
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"


# ---- Twins ---------------------------------------------------------------------------------------


class TwinValues(NamedTuple):
    """What is asked of one kind of twins, a value a seed."""

    best: Float[np.ndarray, "seed"]
    mean: Float[np.ndarray, "seed"]
    loss: Float[np.ndarray, "seed"]


#: The same in words.
ASKED = (
    "skill of the best head (AUROC)",
    "mean skill over heads (AUROC)",
    "held-out loss (nats a token)",
)


def twin_values(twins: Twins, kind: str) -> TwinValues:
    """Skill of the best head, in the mean over heads, and loss of the twins of a kind."""
    over_heads = twins.of(kind, "skill")[:, 0, 0].mean(axis=1)
    return TwinValues(twins.skill(kind), over_heads, twins.of(kind, "held out"))


def tokens_seen(twins: Twins) -> int:
    """How many tokens each of the twins was trained on. Raises `ResultError` where they differ."""
    plans = [run["plan"] for run in twins.record["runs"].values()]
    seen = {plan["steps"] * plan["batch"] * plan["context"] for plan in plans}
    if len(seen) != 1:
        raise ResultError(f"these twins saw {seen} tokens; give a set trained alike.")
    return seen.pop()


def rotary_less_learned(twins: Twins) -> TwinValues:
    """The rotary model of each pair less its twin."""
    pairs = zip(twin_values(twins, "rotary"), twin_values(twins, "causal"), strict=True)
    return TwinValues(*(rotary - learned for rotary, learned in pairs))


def twin_differences(trained: Mapping[str, Twins], levels: Sequence[float]) -> pd.DataFrame:
    """Rotary less learned, in the mean over pairs with its interval: a column a set of twins."""
    return pd.DataFrame(
        {
            f"{tokens} (interval: {level * 100:.3g} %)": [
                in_words(values, level) for values in rotary_less_learned(twins)
            ]
            for (tokens, twins), level in zip(trained.items(), levels, strict=True)
        },
        index=ASKED,
    )


# ---- What the page says --------------------------------------------------------------------------


def checks(
    scores: Sequence[Float[Tensor, ""]],
    apart: Mapping[str, Float[Tensor, ""] | float],
    studies: Mapping[str, RotaryStudy],
    phases: pd.DataFrame,
    trained: Mapping[str, Twins],
    levels: Sequence[float],
) -> Iterator[Check]:
    """What the page says of its numbers.

    scores: of a pair, and of the same a hundred positions further on; apart: by how much what must
    be the same differs; phases: as from the function of that name; trained, levels: as for
    `twin_differences`.
    """
    smollm2 = studies["SmolLM2"]
    llama = studies["book-llama"]
    by_hand, from_whole, from_six = map(float, apart.values())
    moved = abs(float(scores[0] - scores[1]))
    yield says("Four terms, exactly, each a curve", from_whole < 1e-5, found=from_whole)
    yield says("the pair has the same score", moved < 1e-9, found=moved)
    yield says("One term by hand, distance alone", by_hand < 1e-5, found=by_hand)
    yield says("the four must be the six", from_six < 1e-9, found=from_six)
    yield from _checks_of_distance(smollm2, llama)
    yield from _checks_of_phases(phases)
    yield from _checks_of_words(smollm2, llama)
    yield from _checks_of_twins(list(trained.values()), levels)


def _checks_of_distance(smollm2: RotaryStudy, llama: RotaryStudy) -> Iterator[Check]:
    share = smollm2.by_distance.share
    alone = share[DISTANCE_TERMS.index("d")]
    heads = alone > 0.2
    leads = share.argmax(axis=0) == DISTANCE_TERMS.index("e")
    before, nearest = near_by_distance(smollm2).to_numpy()
    even = NEAR / smollm2.by_distance.curve.shape[1]
    yield says("the key's own term counts most in every head", leads)
    yield says(
        "in four of nine, distance alone makes over a quarter",
        len(alone) == 9,
        heads.sum() == 4,
        alone[heads] > 0.25,
        found=alone[heads],
    )
    yield says("their shares of the variance add up", abs(share.sum(axis=0) - 1) < 1e-6)
    yield says("Its first layer has nine heads", len(alone) == 9, found=len(alone))
    yield says("the largest part in all nine heads", leads, len(alone) == 9)
    ends = [alone[heads].min(), alone[heads].max()]
    yield says("In four heads distance alone makes 27 to 40 %", ends, heads.sum() == 4)
    yield says("in the others at most 11 %", alone[~heads].max())
    yield says("gives the nearest ten 4 %", even, NEAR == 10)
    yield says("Head 3 would give them half", 3, 0.47 < nearest[3] < 0.53, found=nearest[3])
    yield says("the token just before 15 %", before[3], before.argmax() == 3)
    favoured = smollm2.by_distance.near_share(NEAR) > 2 * even
    of_llama = llama.by_distance.near_share(NEAR) > 2 * even
    yield says(
        "Near keys are favoured in some heads of SmolLM2 and in all of book-llama",
        0 < favoured.sum() < len(favoured),
        of_llama,
        found=[favoured.sum(), of_llama.sum()],
    )
    yield says("In SmolLM2 the key's own term leads in every head", leads)
    yield says(
        "the sharpest head gives half to the nearest ten",
        nearest.argmax() == 3,
        0.47 < nearest[3] < 0.53,
        found=nearest[3],
    )


def _checks_of_phases(phases: pd.DataFrame) -> Iterator[Check]:
    slow, fast, together = phases[["slow", "fast ones reach", "all reach"]].to_numpy().T
    yield says("They need not", together < 0.6, found=together)
    yield says(
        "In all six heads…most of the amplitude belongs to pairs that turn too slowly",
        len(phases) == 6,
        slow > 0.7,
        found=slow,
    )
    yield says("The few fast ones make the peak, and they do meet", fast > 0.7, found=fast)


def _checks_of_words(smollm2: RotaryStudy, llama: RotaryStudy) -> Iterator[Check]:
    names = smollm2.pair_ranks.min(axis=1)
    pairs = llama.pair_ranks.min(axis=1)
    wrong = llama.chance_ranks.min(axis=1)
    best = smollm2.grid.interval()[:, 0].max()
    best_of_llama = llama.grid.interval()[:, 0].max()
    yield says("its best head has a skill of 0.016", best)
    yield says(
        "of twenty names none is within the best hundred",
        len(names) == 20,
        names > 100,
        found=names.min(),
    )
    yield says("the best head has more", best_of_llama > best, found=best_of_llama)
    better = (wrong < pairs).sum()
    yield says(
        "the wrong first word ranks better in ten of fifteen",
        better == 10,
        len(pairs) == 15,
        found=better,
    )
    least = min(names.min(), pairs.min())
    yield says(
        "In neither is a name's first word among the hundred best keys", least > 100, found=least
    )
    yield says("book-llama has more skill", best_of_llama > best, found=[best_of_llama, best])


def _checks_of_twins(trained: Sequence[Twins], levels: Sequence[float]) -> Iterator[Check]:
    early, later = map(rotary_less_learned, trained)
    tokens = [tokens_seen(twins) for twins in trained]
    pairs = np.array([len(early.best), len(later.best)])
    losses = np.array([early.loss.mean(), later.loss.mean()])
    _, sooner, _ = mean_and_interval(early.best, levels[0])
    _, low, high = mean_and_interval(later.best, levels[1])
    yield says("pairs saw 4.2 million tokens, five more 8.4 million", tokens, pairs == 5)
    yield says("by a quarter of a nat a token", abs(losses + 0.25) < 0.03, found=losses)
    yield says(
        "its best head has more skill, too, in all five pairs",
        early.best > 0,
        found=early.best,
    )
    yield says(
        "After twice as many tokens it has less in four of five, with an interval that holds 0",
        0,
        tokens[1] == 2 * tokens[0],
        (later.best < 0).sum() == 4,
        low < 0 < high,
    )
    for words in ("a first layer finds words sooner", "With rotary positions, sooner"):
        yield says(words, sooner > 0, found=sooner)
    for words in ("these pairs do not decide", "after twice as many tokens is undecided"):
        yield says(words, low < 0 < high, found=[low, high])
