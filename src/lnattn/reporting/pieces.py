"""Sub-words: does a head know which token a piece of a word continues?"""

from __future__ import annotations

import numpy as np

from lnattn.affinity.subwords import (
    PIECE_RULES,
    Subwords,
    continuation_pieces,
    subword_ranks,
    token_classes,
)
from lnattn.errors import CorpusError
from lnattn.reporting.drawing import intervals, joined
from lnattn.reporting.evidence import Evidence
from lnattn.reporting.joining import vectors_of
from lnattn.reporting.part import Figure, Part, Table
from lnattn.reporting.shipped import tokenizer_of

#: Fewer pieces say nothing; of more, so many are drawn.
FEWEST, MOST = 30, 1000
#: A piece is found if its predecessor is among so many best keys.
TOP = 10


def subwords_of(evidence: Evidence) -> tuple[Subwords, int]:
    """The ranks of main predecessors in every head, and how many pieces fit the rule.

    Raises `CorpusError` where too few pieces fit the rule.
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
    fitting = len(pieces)
    if fitting > MOST:
        chosen = np.random.default_rng(evidence.seed).choice(fitting, MOST, replace=False)
        pieces = pieces.at(np.sort(chosen))
    return subword_ranks(vectors_of(evidence, pieces.queries), pieces, seed=evidence.seed), fitting


def subwords(evidence: Evidence) -> Part:
    """The share of pieces whose predecessor each head finds, beside chance, and the best ones."""
    ranked, fitting = subwords_of(evidence)
    _, words = evidence.counted()
    table = ranked.table(TOP)
    names = evidence.token_names
    best = table.loc["best"]
    rows = [
        (f"head {head}" if head != "best" else "best head", row["found"], row["low"], row["high"])
        for head, row in table.iterrows()
    ]
    figure = intervals(
        rows,
        "Share of pieces found by each head, beside chance",
        reference=0.0,
        marks=[("chance high", "var(--lr-vermilion)")],
        values={"chance high": table["chance high"].to_numpy()},
        spec=".0%",
    )
    boxes = [
        (
            names[ranked.pieces.keys[place]],
            names[ranked.pieces.queries[place]],
            f"head {ranked.best_head[place]}, rank {ranked.best_rank[place]}",
        )
        for place in ranked.examples(12)
    ]
    how = f"{len(ranked.pieces):,}" if fitting == len(ranked.pieces) else f"{MOST:,} of {fitting:,}"
    above = best["found"] > best["chance high"]
    sentence = (
        f"Of {how} pieces that continue a word, {best['found']:.1%} find what they continue among "
        f"the ten best keys of some head; pieces that change places do in {best['chance']:.1%}, "
        f"and in 97.5 % of draws in no more than {best['chance high']:.1%}."
    )
    verdict = (
        "So some head joins pieces of words."
        if above
        else "That is within chance: no head is seen to join pieces of words."
    )
    formats = dict.fromkeys(table, ".1%")
    return Part(
        name="subwords",
        title="Do heads join pieces of words?",
        sentences=[sentence, verdict],
        figures=[
            Figure(
                figure,
                "Dots: the share of pieces whose main predecessor is among a head's ten best keys, "
                "with 95 % intervals. Circles: the upper end of the 95 % band of pieces that "
                f"change places. Pieces and predecessors by their counts in {words}.",
            ),
            Figure(joined(boxes), "The pieces that are joined best, key and query. ␣ is a space."),
        ],
        tables=[Table(f"Found within rank {TOP}", table, formats)],
        numbers={
            "pieces": len(ranked.pieces),
            "pieces_that_fit": fitting,
            "above_chance": bool(above),
            "by_head": table,
        },
    )
