"""What the chapter on rotary models states: turning, distance alone, phases, skill, twins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from lnattn_book.page.style import DISTANCE_NAMES
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


def without_rotation(model: FirstLayer, ids: Sequence[int]) -> dict[str, float]:
    """How far the four terms are from the six where nothing turns (R = I), at most.

    A learned-position layer is read as one by distance whose 'tokens' are sums of token and
    position: pairs: T^ee + T^ep + T^pe + T^pp; keys: T^e + T^p; constant: what `ed` and `d` differ
    by between the keys of a query.
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
    spread = [four[name] - four[name][..., :1] for name in ("ed", "d")]
    return {
        "pairs": float((four.ee - six.ee - six.ep - six.pe - six.pp).abs().max()),
        "keys": float((four.e - six.e - six.p).abs().max()),
        "constant": max(float(difference.abs().max()) for difference in spread),
    }


# ---- Distance alone ------------------------------------------------------------------------------


def attention_alone(study: RotaryStudy) -> Float[np.ndarray, "head distance"]:
    """Attention of every head if distance alone decided, over the distances of the study."""
    return attention_of_curve(study.by_distance.curve, study.by_distance.sinks)


def by_head(study: RotaryStudy) -> pd.DataFrame:
    """Of every head: each term's share of the variance, and where it looks by distance alone."""
    named = zip(DISTANCE_TERMS, study.by_distance.share, strict=True)
    shares = {DISTANCE_NAMES[name]: share for name, share in named}
    alone = attention_alone(study)
    shares["on the token before"] = alone[:, 1]
    shares["on the nearest ten"] = alone[:, :NEAR].sum(axis=1)
    return pd.DataFrame(shares).rename_axis("head")


def leading_terms(study: RotaryStudy) -> list[str]:
    """The term with the largest share of the variance in each head."""
    return [DISTANCE_TERMS[place] for place in study.by_distance.share.argmax(axis=0)]


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


def shares_by_constants(
    folded: FoldedRelative,
    embeddings: TokenEmbeddings,
    texts: Sequence[Sequence[int]],
    constants: Mapping[str, MeanVectors],
    fewest: int = 16,
) -> pd.DataFrame:
    """The four terms' variance between the keys of a query, over that of the score, in texts.

    A row for each choice of q₀ and k₀, the mean over heads; queries with fewer keys are left out.
    Where terms are correlated, a row does not add up to 1.
    """
    rows = {}
    for name, means in constants.items():
        of_term = torch.zeros(len(DISTANCE_TERMS), folded.n_heads, dtype=torch.float64)
        of_score = torch.zeros(folded.n_heads, dtype=torch.float64)
        for ids in texts:
            parts = distance_terms(folded, embeddings, ids, constants=means)
            terms = torch.stack([parts[term] for term in DISTANCE_TERMS]).double()
            for query in range(fewest - 1, len(ids)):
                seen = terms[:, :, query, : query + 1]
                of_term += seen.var(dim=-1, correction=0)
                of_score += seen.sum(dim=0).var(dim=-1, correction=0)
        rows[name] = (of_term / of_score).mean(dim=1).tolist()
    columns = [DISTANCE_NAMES[term] for term in DISTANCE_TERMS]
    table = pd.DataFrame(rows, index=columns).T.rename_axis("split off")
    return table.assign(sum=table.sum(axis=1))


# ---- Words ---------------------------------------------------------------------------------------


def skills(studies: Mapping[str, RotaryStudy]) -> pd.DataFrame:
    """The skill of each model's best head, heads above zero, and what becomes of known names.

    Skill: AUROC against bigrams, less that of a wrong query; a head is above zero if its 95 %
    interval over query tokens is.
    """
    rows = {}
    for name, study in studies.items():
        mean, low, high = study.grid.interval().T
        best = int(mean.argmax())
        best_ranks = study.pair_ranks.min(axis=1)
        wrong = study.chance_ranks.min(axis=1)
        rows[name] = {
            "best head": best,
            "its skill (AUROC)": f"{mean[best]:.3f} [{low[best]:.3f}, {high[best]:.3f}]",
            "heads above zero": f"{int((low > 0).sum())} of {study.n_heads}",
            "names": len(best_ranks),
            "best rank of a name": int(best_ranks.min()),
            "names whose wrong word ranks better": int((wrong < best_ranks).sum()),
        }
    return pd.DataFrame(rows).T.rename_axis("model")


def in_words(values: Float[np.ndarray, "seed"], level: float = 0.95) -> str:
    """A mean over seeds and its interval by Student's t."""
    mean, low, high = mean_and_interval(np.asarray(values, dtype=float), level)
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"


#: Kinds of twins, as the page calls them.
KINDS = {"learned positions": "causal", "rotary positions": "rotary"}


def twin_values(twins: Twins, kind: str) -> dict[str, Float[np.ndarray, "seed"]]:
    """What is asked of both kinds of twins, a value a seed."""
    share = twins.of(kind, "share")
    return {
        "skill of the best head (AUROC)": twins.skill(kind),
        "mean skill over heads (AUROC)": twins.of(kind, "skill")[:, 0, 0].mean(axis=1),
        "variance of scores from both tokens": share[:, 0].mean(axis=1),
        "variance of scores from the place alone": share[:, 3].mean(axis=1),
        "attention on the key before, by place": twins.of(kind, "before").max(axis=1),
        "held-out loss (nats a token)": twins.of(kind, "held out"),
    }


def twin_table(twins: Twins, level: float = 0.95) -> pd.DataFrame:
    """Means over pairs of twins with their intervals, and of the difference within a pair."""
    values = {words: twin_values(twins, kind) for words, kind in KINDS.items()}
    learned, rotary = values.values()
    table = {
        words: {what: in_words(per_seed, level) for what, per_seed in of_kind.items()}
        for words, of_kind in values.items()
    }
    table["rotary − learned"] = {
        what: in_words(rotary[what] - learned[what], level) for what in learned
    }
    return pd.DataFrame(table)
