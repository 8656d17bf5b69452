"""What heads guarantee: the least attention from a piece to its main predecessor, in every text."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from lnattn.affinity.subwords import (
    PIECE_RULES,
    Pieces,
    continuation_pieces,
    token_classes,
)
from lnattn.errors import CorpusError
from lnattn.guarantees import EveryText
from lnattn.reporting.drawing import intervals, joined
from lnattn.reporting.evidence import Evidence
from lnattn.reporting.part import Figure, Part, Table
from lnattn.reporting.shipped import tokenizer_of

#: Tokens of a text; pieces that are asked; fewer say nothing.
LENGTH, MOST, FEWEST = 32, 60, 20


class Promised(NamedTuple):
    """Least and greatest attention of pieces to their main predecessors, one place before."""

    pieces: Pieces
    least: Float[np.ndarray, "head piece"]
    greatest: Float[np.ndarray, "head piece"]


def promised(evidence: Evidence) -> Promised:
    """Ask every head about some pieces; the query stands last, or in the middle of an encoder's.

    Raises `CorpusError` where too few pieces fit the rule of `PIECE_RULES`.
    """
    model = evidence.model
    counts, _ = evidence.counted()
    classes = token_classes(tokenizer_of(model), model.embeddings.vocab_size)
    rule = PIECE_RULES["wordpiece" if classes.wordpiece else "byte-level"]
    pieces = continuation_pieces(counts, classes, rule)
    if len(pieces) < FEWEST:
        raise CorpusError(
            f"only {len(pieces)} pieces that continue a word occur {rule.min_count} times with one "
            f"main predecessor, fewer than {FEWEST}; count more text."
        )
    if len(pieces) > MOST:
        drawn = np.random.default_rng(evidence.seed).choice(len(pieces), MOST, replace=False)
        pieces = pieces.at(np.sort(drawn))
    length = min(LENGTH, evidence.context or LENGTH)
    place = length - 1 if model.attention.causal else length // 2
    queries, keys = map(torch.from_numpy, (pieces.queries, pieces.keys))
    least = []
    greatest = []
    for head in range(model.attention.n_heads):
        texts = EveryText(model, head=head, length=length, place=place)
        low, high = texts.attention_to_each(queries, place - 1, keys)
        least.append(low.numpy())
        greatest.append(high.numpy())
    return Promised(pieces, np.stack(least), np.stack(greatest))


def every_text(evidence: Evidence) -> Part:
    """The interval of each head over all texts, and the piece that is promised most."""
    ends = promised(evidence)
    half = (ends.least >= 0.5).mean(axis=1)
    head, piece = np.unravel_index(ends.least.argmax(), ends.least.shape)
    names = evidence.token_names
    table = pd.DataFrame(
        {
            "least (median)": np.median(ends.least, axis=1),
            "greatest (median)": np.median(ends.greatest, axis=1),
            "half in every text": half,
        }
    ).rename_axis("head")
    length = min(LENGTH, evidence.context or LENGTH)
    key = names[ends.pieces.keys[piece]]
    query = names[ends.pieces.queries[piece]]
    sentences = [
        f"Of {len(ends.pieces)} pieces that continue a word, {half.max():.0%} give their main "
        f"predecessor half or more of the attention of head {half.argmax()} in every text of "
        f"{length} tokens, whatever the others are.",
        f"The most is promised by ‘{query}’ behind ‘{key}’: {ends.least[head, piece]:.0%} at "
        f"least, in head {head}.",
    ]
    rows = [
        (f"head {number}", row.iloc[0], row.iloc[0], row.iloc[1])
        for number, row in table.iterrows()
    ]
    figure = intervals(
        rows, "Least and greatest attention to the token before", reference=0.5, spec=".0%"
    )
    _, words = evidence.counted()
    return Part(
        name="guarantees",
        title="What its heads guarantee",
        sentences=sentences,
        figures=[
            Figure(
                figure,
                "From the least to the greatest attention that a piece can give its main "
                "predecessor, one place before, over all texts; medians over the pieces. "
                f"Predecessors by their counts in {words}.",
            ),
            Figure(joined([(key, query, f"{ends.least[head, piece]:.0%}")]), "Promised most."),
        ],
        tables=[Table("Over all texts", table, dict.fromkeys(table, ".1%"))],
        numbers={
            "length": length,
            "queries": ends.pieces.queries,
            "keys": ends.pieces.keys,
            "least": ends.least,
            "greatest": ends.greatest,
        },
    )
