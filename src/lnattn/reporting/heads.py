"""Heads at a glance: which terms make a head's attention, and where it looks on text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from lnattn.attention.terms import PairTerms, six_terms
from lnattn.contribution.additive import additive_kl, visible_keys
from lnattn.errors import CorpusError
from lnattn.position.curves import NEAR
from lnattn.progress import progress_bar
from lnattn.reporting.drawing import heat_table
from lnattn.reporting.evidence import Evidence
from lnattn.reporting.part import Figure, Part
from lnattn.reporting.words import (
    DISTANCE_COLOURS,
    DISTANCE_NAMES,
    KINDS,
    TERM_COLOURS,
    TERM_NAMES,
)
from lnattn.rotary.terms import distance_terms
from lnattn.rotary.weights import RelativeFirstLayer

#: A head looks near if more than this of its attention lies on the nearest ten keys.
HALF = 0.5
#: Nats below which a head's attention is even: 0.00 as they are printed.
EVEN = 0.005
#: What a head of even attention is called: what little it prefers is of no kind.
NONE = "prefers no key"
#: What one head of a kind does, and several.
DOES = {
    NONE: ("attends evenly and prefers no key", "attend evenly and prefer no key"),
    "compares tokens": (
        "compares tokens (token → token has the largest share)",
        "compare tokens (token → token has the largest share)",
    ),
    "reads constants": (
        "reads constants of the key, the same for every query",
        "read constants of the key, the same for every query",
    ),
    "looks by place": ("looks by place", "look by place"),
}


@dataclass(frozen=True, eq=False)
class HeadsOnText:
    """What heads do on text, averaged over the queries of all windows. Made by `heads_on_text`.

    share: each term's share in the divergence of attention from even attention (additive KL), which
    add up to 1; divergence: that, in nats. On the nearest ten keys and the first key: mean
    attention; even_near: what even attention would put on the nearest ten.
    """

    terms: tuple[str, ...]
    share: Float[np.ndarray, "term head"]
    divergence: Float[np.ndarray, "head"]
    near: Float[np.ndarray, "head"]
    first: Float[np.ndarray, "head"]
    even_near: float

    @property
    def kinds(self) -> list[str]:
        """What each head mostly does, by the terms with the largest share together."""
        groups = {
            kind: sum(self.share[self.terms.index(term)] for term in self.terms if term in terms)
            for kind, terms in KINDS.items()
        }
        names = list(groups)
        largest = [names[place] for place in np.stack([*groups.values()]).argmax(axis=0)]
        return [
            NONE if nats < EVEN else kind
            for nats, kind in zip(self.divergence, largest, strict=True)
        ]

    def table(self) -> pd.DataFrame:
        """One row a head."""
        rows: dict[str, object] = dict(zip(self.terms, self.share, strict=True))
        rows |= {
            "nats": self.divergence,
            "nearest ten": self.near,
            "first key": self.first,
            "mostly": self.kinds,
        }
        return pd.DataFrame(rows).rename_axis("head")


def heads_on_text(evidence: Evidence) -> HeadsOnText:
    """Additive shares of all terms, and where attention lies, over the evidence's windows.

    Raises `CorpusError` where no text has a query with two keys.
    """
    sums: dict[str, np.ndarray] = {}
    queries = 0
    even = 0.0
    names: tuple[str, ...] = ()
    for ids in progress_bar(evidence.windows, "terms on text", unit=" texts"):
        terms = terms_of(evidence, torch.tensor(ids))
        names = tuple(terms.names)
        added = additive_kl(terms)
        attention = terms.attention().double()
        start = 1 if terms.folded.causal else 0
        seen = visible_keys(len(ids), terms.folded.causal, terms.folded.window).numpy()
        of_text = {
            "shares": added.shares[..., start:].sum(-1).numpy(),
            "divergence": added.divergence[:, start:].sum(-1).numpy(),
            **_where(attention[:, start:], start),
        }
        for name, value in of_text.items():
            sums[name] = sums.get(name, 0.0) + value
        queries += len(ids) - start
        near = _nearest(len(ids), terms.folded.causal)
        even += float(((near & seen).sum(axis=1) / seen.sum(axis=1))[start:].sum())
    if not queries:
        raise CorpusError("no text has a query with two keys, so no head has a choice.")
    divergence = sums["divergence"]
    share = np.divide(
        sums["shares"], divergence, out=np.zeros_like(sums["shares"]), where=divergence > 0
    )
    return HeadsOnText(
        terms=names,
        share=share,
        divergence=divergence / queries,
        near=sums["near"] / queries,
        first=sums["first"] / queries,
        even_near=even / queries,
    )


def terms_of(evidence: Evidence, ids: Tensor) -> PairTerms:
    """The six terms of a text, or the four by distance about the mean query and key."""
    model = evidence.model
    if isinstance(model, RelativeFirstLayer):
        return distance_terms(
            evidence.folded_relative, model.embeddings, ids, constants=evidence.means
        )
    return six_terms(evidence.folded, model.embeddings, ids)


def _nearest(n: int, causal: bool) -> np.ndarray:
    """Which keys are among a query's nearest ten: bool [query key]."""
    distance = np.arange(n)[:, None] - np.arange(n)
    near = np.abs(distance) < NEAR
    return near & (distance >= 0) if causal else near


def _where(attention: Float[Tensor, "head query key"], start: int) -> dict[str, np.ndarray]:
    """Attention on the nearest ten keys and the first key, summed over queries."""
    n = attention.shape[-1]
    near = torch.from_numpy(_nearest(n, causal=False))[start:]
    return {
        "near": (attention * near).sum((1, 2)).numpy(),
        "first": attention[..., 0].sum(-1).numpy(),
    }


def heads(evidence: Evidence) -> Part:
    """Each head by the terms that make its attention, and where it looks."""
    on_text = heads_on_text(evidence)
    _, texts = evidence.texts
    labels = DISTANCE_NAMES if evidence.is_relative else TERM_NAMES
    colours = DISTANCE_COLOURS if evidence.is_relative else TERM_COLOURS
    columns = {
        labels[term]: (colours[term], on_text.share[row]) for row, term in enumerate(on_text.terms)
    }
    grey = "var(--lr-grey)"
    columns |= {
        "on the nearest ten": (grey, on_text.near),
        "on the first key": (grey, on_text.first),
    }
    last = {
        "nats": [f"{value:.2f}" for value in on_text.divergence],
        "mostly": on_text.kinds,
    }
    drawing = heat_table(
        "What makes each head's attention, and where it lies",
        [str(head) for head in range(len(on_text.divergence))],
        columns,
        last,
    )
    windows = evidence.windows
    longest = max(map(len, windows))
    caption = (
        "Left: the share of each term in KL(attention ‖ even attention); a row adds up to 100 %, "
        "and a negative share pulls attention back to even. Then mean attention on two places; "
        f"even attention would put {on_text.even_near:.0%} on the nearest ten keys. Nats: the "
        f"divergence itself. Over {len(windows)} texts of up to {longest} tokens: {texts}."
    )
    return Part(
        name="heads",
        title="Heads at a glance",
        sentences=_sentences(on_text),
        figures=[Figure(drawing, caption)],
        numbers={
            "terms": list(on_text.terms),
            "share": on_text.share,
            "divergence": on_text.divergence,
            "near": on_text.near,
            "first": on_text.first,
            "even_near": on_text.even_near,
            "kinds": on_text.kinds,
        },
    )


def _sentences(on_text: HeadsOnText) -> list[str]:
    by_kind: Mapping[str, list[int]] = {
        kind: [head for head, does in enumerate(on_text.kinds) if does == kind] for kind in DOES
    }
    told = [
        f"{listed(heads)} {DOES[kind][len(heads) > 1]}" for kind, heads in by_kind.items() if heads
    ]
    near = np.flatnonzero(on_text.near > HALF).tolist()
    sentences = [f"Of {len(on_text.kinds)} heads, {'; '.join(told)}."]
    if set(on_text.kinds) == {NONE}:
        sentences = [
            f"No head prefers any key: the attention of all {len(on_text.kinds)} is even, to less "
            f"than {EVEN} nats."
        ]
    if near:
        sentences.append(
            f"More than half of the attention of {listed(near)} is on the nearest ten keys."
        )
    else:
        sentences.append("No head has more than half of its attention on the nearest ten keys.")
    return sentences


def listed(heads: list[int]) -> str:
    """Heads by number: 'head 3', 'heads 1 and 4', 'heads 0, 2 and 7'."""
    if len(heads) == 1:
        return f"head {heads[0]}"
    return f"heads {', '.join(map(str, heads[:-1]))} and {heads[-1]}"
