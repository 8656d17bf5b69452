"""What the chapter on the switch states: who looks back, by which term, in which model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch

from lnattn.rotary.weights import AnyFirstLayer
from lnattn_book.chapters.rotary import in_words
from lnattn_book.claims.over_seeds import apart, chosen, rounded
from lnattn_book.page.style import DISTANCE_NAMES, TERM_NAMES, model_name
from lnattn_book.studies.looking_back import looking_back
from lnattn_book.studies.switch import (
    KINDS,
    ConstantsStudy,
    SwitchStudy,
    asked,
    classes_of,
    split_of,
    texts_of,
)

#: What pages call the kinds of queries.
KIND_WORDS = {"piece": "from pieces", "word": "from whole words"}
#: What pages call the kinds of twins.
TWIN_WORDS = {"causal": "learned positions", "rotary": "rotary positions"}


def by_term(study: SwitchStudy, head: int) -> pd.DataFrame:
    """One head: attention to the token before from either kind, and each term's part of it.

    The rows 'even attention' and those of the terms add up to the last; columns: the kinds, and
    pieces less words.
    """
    terms = list(study.record["terms"])
    attention = study.mean(study.attention)[:, head]
    shares = study.mean(study.shares)[:, :, head]
    words = {**TERM_NAMES, **DISTANCE_NAMES}
    rows = {"even attention": attention - shares.sum(axis=0)}
    rows |= {words[term]: share for term, share in zip(terms, shares, strict=True)}
    rows["the head"] = attention
    table = pd.DataFrame(rows, index=[KIND_WORDS[kind] for kind in KINDS]).T
    table["pieces less words"] = table.iloc[:, 0] - table.iloc[:, 1]
    return table


def most_apart(studies: Mapping[str, SwitchStudy]) -> pd.DataFrame:
    """Of each model the head whose kinds are farthest apart, and the term that makes most of it."""
    rows = {}
    for name, study in studies.items():
        attention = study.mean(study.attention)
        difference = attention[0] - attention[1]
        head = int(np.abs(difference).argmax())
        shares = study.mean(study.shares)
        apart = shares[:, 0, head] - shares[:, 1, head]
        term = int((apart * np.sign(difference[head])).argmax())
        rows[model_name(name)] = {
            "head": head,
            "from pieces": attention[0, head],
            "from whole words": attention[1, head],
            "difference": difference[head],
            "most by": {**TERM_NAMES, **DISTANCE_NAMES}[study.record["terms"][term]],
            "its part": apart[term],
        }
    return pd.DataFrame(rows).T.rename_axis("model")


def looking_back_most(study: SwitchStudy) -> pd.Series:
    """The head that looks back most over both kinds of queries, and from either."""
    attention = study.attention.sum(axis=(0, 1)) / study.queries.sum()
    head = int(attention.argmax())
    of_kind = study.mean(study.attention)[:, head]
    return pd.Series(
        {
            "head": head,
            "from pieces": of_kind[0],
            "from whole words": of_kind[1],
            "difference": of_kind[0] - of_kind[1],
        }
    )


def over_twins(texts: Mapping[str, Sequence[SwitchStudy]]) -> pd.DataFrame:
    """Of the head chosen in each seed, pieces less words and each term's part of it.

    A column a kind of twins (`lnattn_book.claims.over_seeds`): means over seeds, 95 % intervals by
    Student's t; '' for terms that a kind does not have. Rows 'from pieces' and 'from whole words'
    are attention to the token before.
    """
    words = {**TERM_NAMES, **DISTANCE_NAMES}
    table = {}
    for kind, studies in texts.items():
        seeds = []
        for study in studies:
            head = chosen(study.attention, study.queries)
            means = study.attention[:, 1, head] / study.queries[:, 1]
            row = dict(zip(KIND_WORDS.values(), means, strict=True))
            row["pieces less words"] = apart(study.attention, study.queries, 1)[head]
            for term, share in zip(study.record["terms"], study.shares, strict=True):
                row[words[term]] = apart(share, study.queries, 1)[head]
            seeds.append(row)
        of_kind = {what: [seed[what] for seed in seeds] for what in seeds[0]}
        table[TWIN_WORDS[kind]] = {
            what: in_words(np.array(values)) for what, values in of_kind.items()
        }
    return pd.DataFrame(table).fillna("")


def means_of(studies: Sequence[SwitchStudy]) -> tuple[float, ...]:
    """In the head chosen, from pieces, from words and their difference: means to two places."""
    by_kind = np.mean(
        [
            (study.attention[:, 1] / study.queries[:, 1, None])[
                :, chosen(study.attention, study.queries)
            ]
            for study in studies
        ],
        axis=0,
    )
    return rounded((*by_kind, by_kind[0] - by_kind[1]))


def apart_by_seed(texts: Mapping[str, Sequence[SwitchStudy]]) -> pd.DataFrame:
    """Pieces less words in the head chosen: a row a seed, a column a kind of twins."""
    rows = {
        TWIN_WORDS[kind]: [
            apart(study.attention, study.queries, 1)[chosen(study.attention, study.queries)]
            for study in studies
        ]
        for kind, studies in texts.items()
    }
    return pd.DataFrame(rows).rename_axis("seed")


def beside_chance(texts: SwitchStudy, weights: ConstantsStudy, head: int) -> pd.Series:
    """Pieces less words in one head, on text and in nats by T^ed, beside what nulls give it."""
    exchanged = texts.mean(texts.exchanged)[..., head]  # [null kind]
    turned = weights.turned_attention[..., head].sum(axis=2) / weights.queries.sum(axis=1)
    attention = texts.mean(texts.attention)[:, head]
    turned_nats = np.abs(weights.turned_nats[:, head])
    return pd.Series(
        {
            "on text": attention[0] - attention[1],
            "kinds exchanged, at most": np.abs(exchanged[:, 0] - exchanged[:, 1]).max(),
            "k₀ turned, at most": np.abs(turned[:, 0] - turned[:, 1]).max(),
            "by weights (nats)": weights.nats[head],
            "alike in frequency and norm": weights.matched[head],
            "k₀ turned, 95 % reach": np.quantile(turned_nats, 0.95),
            "k₀ turned, the largest": turned_nats.max(),
            "share of them that reach it": weights.chance[head],
        }
    )


def on_texts(model: AnyFirstLayer, texts: int = 10) -> pd.DataFrame:
    """Attention to the token before by kind of query, a row a head, over some shipped texts.

    The last column is the term that makes most of the difference, by Shapley values.
    """
    split = split_of(model)
    classes = classes_of(model)
    sums = []
    queries = []
    names: tuple[str, ...] = ()
    for token_ids in texts_of(model)[:texts]:
        kinds = asked(classes, token_ids)
        terms = split(token_ids)
        names = terms.names
        back = looking_back(terms)
        both = torch.cat([back.attention[None], back.shares])  # [attention and terms, head, query]
        chosen = torch.from_numpy(kinds[:, 1:]).double()
        sums.append(torch.einsum("thq,kq->tkh", both, chosen))
        queries.append(kinds.sum(axis=1))
    means = torch.stack(sums).sum(0).numpy() / np.sum(queries, axis=0)[:, None]
    apart = means[:, 0] - means[:, 1]  # [attention and terms, head]
    leading = (apart[1:] * np.sign(apart[0])).argmax(axis=0)
    words = {**TERM_NAMES, **DISTANCE_NAMES}
    return pd.DataFrame(
        {
            "from pieces": means[0, 0],
            "from whole words": means[0, 1],
            "most of the difference by": [words[names[term]] for term in leading],
        }
    ).rename_axis("head")
