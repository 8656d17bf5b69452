"""Heads that put words together: what a model's weights say of its pieces, beside two nulls.

`heads_of` gathers all that the chapter asks of a model. `recall` walks down the keys of one query,
`list_against_heads` counts the queries that a plain list of frequent tokens wins, and
`wrong_queries` says how much of an area is there with another token's query, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from jaxtyping import Float, Real
from sklearn.metrics import roc_auc_score

from lnattn.affinity.auroc import Neighbours, frequency_vectors, head_auroc
from lnattn.affinity.subwords import Subwords, continuation_pieces, subword_ranks, token_classes
from lnattn.attention.folding import fold
from lnattn.attention.vectors import TokenVectors, token_vectors
from lnattn.errors import ShapeError
from lnattn.paths import data_folder
from lnattn.text.counts import Counts
from lnattn.weights import FirstLayer
from lnattn_book.claims.ours import piece_rule
from lnattn_book.page import Check, says
from lnattn_book.studies.affinity_study import affinity_study, counts_and_source
from lnattn_book.studies.detokenization import AffinityResult
from lnattn_book.studies.guaranteed import VOCABULARIES, Guaranteed, joining
from lnattn_book.studies.query_classes import CLASSES, ClassAuroc, class_auroc
from lnattn_book.studies.samples import token_names

#: Of the guarantees, those against texts of tokens that are seen in text.
WRITTEN = VOCABULARIES.index("written")


@dataclass(frozen=True, eq=False)
class HeadsOfAModel:
    """A first layer's heads, asked for pieces of words and for neighbours.

    vectors: one query and one key vector a token and head; counts: of a large text in its tokens;
    names: its tokens as text; study: AUROCs of all heads; found: ranks of main predecessors.
    """

    vectors: TokenVectors
    counts: Counts
    names: Sequence[str]
    study: AffinityResult
    found: Subwords

    @cached_property
    def before(self) -> Neighbours:
        """Which tokens stand before each token in the text, and how often."""
        return Neighbours.before(self.counts.bigrams)


def heads_of(first: FirstLayer) -> HeadsOfAModel:
    """All that the chapter asks of a model; what its parts raise where it lacks something."""
    vectors = token_vectors(fold(first.attention), first.embeddings)
    counts, source = counts_and_source(first)
    study, _ = affinity_study(vectors, first.embeddings, counts, source)
    classes = token_classes(first.tokenizer, first.embeddings.vocab_size)
    pieces = continuation_pieces(counts, classes, piece_rule(classes))
    subwords = subword_ranks(vectors, pieces)
    return HeadsOfAModel(vectors, counts, token_names(first), study, subwords)


def tokens_after_others(first: FirstLayer) -> set[str]:
    """The tokens, as the vocabulary spells them, that stand behind another one in the counts."""
    counts, _ = counts_and_source(first)
    predecessors = np.diff(counts.bigrams.tocsc().indptr)
    return set(first.tokenizer.convert_ids_to_tokens(np.flatnonzero(predecessors).tolist()))


def recall(
    scores: Real[np.ndarray, "key"], weight: Real[np.ndarray, "other_key"]
) -> Float[np.ndarray, "key"]:
    """Walking down the keys from the best: the share of all weight met after 1, 2, … of them.

    weight: how much it is worth to meet a key; 0 for keys that are not wanted. Equal scores keep
    the order of the keys. Raises `ShapeError` where lengths differ or no key is wanted.

    >>> recall(np.array([0.1, 0.9, 0.5]), np.array([1.0, 3.0, 0.0]))
    array([0.75, 0.75, 1.  ])
    """
    scores = np.asarray(scores, dtype=float)
    weight = np.asarray(weight, dtype=float)
    if scores.shape != weight.shape or scores.ndim != 1:
        raise ShapeError(
            f"scores {scores.shape} and weight {weight.shape} must be two lists of equal length."
        )
    if not (weight >= 0).all() or not weight.any():
        raise ShapeError("weight must be 0 or more, and more than 0 for some key.")
    met = weight[np.argsort(-scores, kind="stable")].cumsum()
    return met / met[-1]


def weight_of(heads: HeadsOfAModel, query: int) -> Real[np.ndarray, "key"]:
    """How often each key stands before a query token in the text."""
    positive, weight = heads.before.labels(query)
    return np.where(positive, weight, 0)


def list_area(heads: HeadsOfAModel, query: int) -> float:
    """AUROC of the list: keys ranked by how frequent they are, whatever the query."""
    positive, weight = heads.before.labels(query)
    return float(roc_auc_score(positive, heads.counts.unigrams, sample_weight=weight))


def list_against_heads(heads: HeadsOfAModel, named: Sequence[int]) -> pd.DataFrame:
    """Pieces whose main predecessor one of the named heads ranks first of all keys.

    A row a piece: query and key (ids), head (the first that does), area (AUROC of that head) and
    list (of the list).
    """
    ranked = heads.found
    is_first = ranked.ranks[list(named)] == 1  # [named piece]
    first = np.flatnonzero(is_first.any(axis=0))
    queries = ranked.pieces.queries[first]
    chosen = np.array(named)[is_first[:, first].argmax(axis=0)]
    return pd.DataFrame(
        {
            "query": queries,
            "key": ranked.pieces.keys[first],
            "head": chosen,
            "area": heads.study.auroc[chosen, queries],
            "list": [list_area(heads, query) for query in queries.tolist()],
        }
    )


def wrong_queries(study: AffinityResult) -> pd.DataFrame:
    """By head: mean AUROC, the same with another token's query, and what that leaves."""
    area = study.mean_auroc()
    skill = study.skill[:, 0]
    table = pd.DataFrame({"area": area, "wrong query": area - skill, "about the query": skill})
    return table.rename_axis("head")


def share_of_heads(subwords: Subwords, named: Sequence[int], top: int = 10) -> float:
    """Of the pieces that some head finds within a rank, the share that the named heads find."""
    found = subwords.ranks <= top
    return float(found[list(named)].any(axis=0).sum() / found.any(axis=0).sum())


def area_of_a_fixed_order(before: Neighbours, vocab: int) -> float:
    """Mean AUROC over all query tokens of a list that counted none of the text: the vocabulary's.

    A WordPiece vocabulary begins with what was frequent in the text that it was made of.
    """
    order = np.arange(vocab)[::-1].copy()  # the first token scores highest
    return float(head_auroc(frequency_vectors(order), before).mean()[0])


def by_class(first: FirstLayer, heads: HeadsOfAModel) -> ClassAuroc:
    """AUROCs of continuation pieces and of words as queries, by head and kind of keys."""
    classes = token_classes(first.tokenizer, first.embeddings.vocab_size)
    return class_auroc(heads.vectors, heads.counts, classes)


#: What is shown of the AUROCs by class of query: which keys take part, and which measure.
_BY_CLASS = {
    "all keys": ("all keys", "auroc"),
    "right keys": ("right keys", "auroc"),
    "about the query": ("right keys", "query-specific"),
}


def auroc_by_class(by_class: ClassAuroc) -> pd.DataFrame:
    """By head: mean AUROC of either class of queries, among all keys and among the right ones.

    'about the query' is what a wrong query leaves of the second. A column a pair, 'keys: class'.
    """
    means = by_class.table().pivot(
        index="head", columns=["keys", "measure", "queries"], values="mean"
    )
    columns = {
        f"{title}: {queries}": means[keys, measure, queries]
        for title, (keys, measure) in _BY_CLASS.items()
        for queries in CLASSES
    }
    return pd.DataFrame(columns)


#: A query and a head, and the share of the query's neighbours met in either order, [key].
Walks = Mapping[tuple[str, int], Mapping[str, Float[np.ndarray, "key"]]]


def checks(
    heads: HeadsOfAModel,
    area: float,
    by_count: float,
    walks: Walks,
    firsts: pd.DataFrame,
    order: float,
) -> Iterator[Check]:
    """What the page says of MiniLM.

    area, by_count: AUROC of ##script by head 4 and by the list; firsts: of `list_against_heads`;
    order: of `area_of_a_fixed_order`.
    """
    ten = heads.found.table(10).loc["best"]
    once = heads.found.table(1).loc["best"]
    areas = wrong_queries(heads.study)
    frequency, cosine = heads.study.common_baselines

    yield says("27 % of the pieces find their predecessor", ten["found"])
    yield says(
        "mostly head 4 or 5; chance gives 3.5 %",
        4,
        5,
        ten["chance"],
        share_of_heads(heads.found, (4, 5)) > 0.8,
    )
    yield says("Of all pieces 11 % find it as the very first", once["found"])
    yield says("With a dozen heads and 2,609 pieces", len(heads.found.pieces), len(areas) == 12)
    yield says(
        "Nearly three pieces in four are not found in this layer", 0.7 < 1 - ten["found"] < 0.75
    )
    yield says(
        "Its AUROC is 0.46 all the same, less than a coin's; the list has 0.94", area, by_count
    )
    of_script = firsts[[heads.names[query] == "##script" for query in firsts["query"]]]
    yield says(
        "Head 4 ranks java first of all keys for ##script",
        of_script["head"],
        [heads.names[key] == "java" for key in of_script["key"]],
    )
    leton = walks["##leton", 4]
    yield says(
        "meets 30 % of the neighbours with its first key",
        lambda: walks["##script", 4]["the head's order"][0],
    )
    yield says(
        "At ##leton the head wins",
        leton["the head's order"].mean() > 0.9 > 0.7 > leton["keys by frequency"].mean(),
        found=[met.mean() for met in leton.values()],
    )
    wins = firsts["list"] > firsts["area"]
    yield says("the list wins at 166 of 249", wins.sum(), len(firsts))
    yield says(
        "two in three of the pieces whose predecessor head 4 or 5 ranks first",
        4,
        5,
        0.63 < wins.mean() < 0.7,
        np.isin(firsts["head"], (4, 5)),
    )
    yield says(
        "Frequency beats every head: 0.93 in the mean, where the best head of MiniLM has 0.73",
        frequency,
        areas["area"].max(),
        frequency > areas["area"],
    )
    yield says("which counted none of this text, has 0.84", order, order > areas["area"])
    yield says("asked with the wrong query, head 2 still has 0.58", 2, areas.loc[2, "wrong query"])
    leading = [areas[column].idxmax() for column in ("area", "about the query")]
    yield says("head 2 leads before the subtraction and after it", 2, np.equal(leading, 2))
    yield says("In MiniLM it is 0.52, just above a coin", cosine)
    always = joining(Guaranteed.read(data_folder() / "results" / "minilm"), WRITTEN)
    yield says("72 % of the pieces asked", always.share)
    most = always.says == "joins most"
    yield says("half of head 2's attention or more", always.head, most)


def checks_of_second_looks(
    study: AffinityResult,
    by_class: ClassAuroc,
    known: pd.DataFrame,
    best_is_own: Float[np.ndarray, "head"],
    training: pd.DataFrame,
) -> Iterator[Check]:
    """What the appendix says of MiniLM, and of `book-gpt2` in training.

    known: pairs of Table 1 with their best rank and that by chance; best_is_own: of a hundred
    tokens, the share whose best key is their own; training: of `along_training`.
    """
    piece, word = by_class.heads[:, :, 0, :, 0]  # AUROC, [keys head]
    by_frequency = by_class.frequency[:, 0, 0]
    of_piece = by_class.query_specific_auroc("continuation")
    of_word = by_class.query_specific_auroc("word")
    ranks = known["best rank"].astype(float)
    times = known["chance"].astype(float).median() / ranks.median()
    z = study.same_token.mean(axis=1)
    scores = study.heat.reshape(len(z), -1)
    width = scores.max(axis=1) - scores.min(axis=1)
    peak = training.loc[training["above chance"].idxmax()]
    last = training.iloc[-1]

    yield says("Pieces score higher than words in every head of MiniLM", piece[0] > word[0])
    more_of_pieces = np.flatnonzero(of_piece[:, 1] > of_word[:, 2])  # intervals apart
    yield says("only heads 4 and 5 clearly know more of a piece than of a word", more_of_pieces)
    yield says(
        "Keys ranked by frequency alone beat every head in both classes",
        by_frequency[0] > piece[0],
        by_frequency[1] > word[0],
        found=by_frequency,
    )
    yield says(
        "of the twenty pairs only four are among the ten best",
        len(known) == 20,
        (ranks <= 10).sum() == 4,
        found=[(ranks <= 10).sum(), len(known)],
    )
    rank_of = known.set_index(["query", "key"])["best rank"]
    yield says(
        "*Michael* stands at the top for *Jackson*, *Michelle* for *Obama*",
        lambda: rank_of[[("_Jackson", "_Michael"), ("_Obama", "_Michelle")]].to_numpy() == 1,
    )
    between = (ranks >= 20) & (ranks <= 500)
    yield says(
        "most stand between the twentieth and the five hundredth place",
        between.mean() > 0.5,
        found=between.mean(),
    )
    yield says("about twenty times better than a random query", 15 < times < 30, found=times)
    yield says(
        "In head 8 of MiniLM the best key of 88 of the 100 tokens is their own",
        8,
        100 * best_is_own[8],
        study.heat.shape[1],
    )
    others = np.delete(best_is_own, 8)
    yield says("in any other head that of four at most", others < 0.045, found=others.max())
    yield says("head 4, which has no diagonal, has the wider one", 4, width[4] > width[8])
    yield says("head 8 stands out again", np.flatnonzero(z > 2))
    yield says("in four heads a token *avoids* itself", (z < -1).sum() == 4, found=z[z < -1])
    yield says(
        "After eight million tokens more than a quarter of the pieces are found",
        8e6 < peak["tokens"] < 9e6,
        peak["found"] > 0.25,
        peak["found"] > peak["chance high"],
        found=peak["found"],
    )
    yield says(
        "where chance gives one in twenty", 0.04 < peak["chance"] < 0.06, found=peak["chance"]
    )
    yield says(
        "at the end hardly more than chance",
        last["above chance"] < 0.03,
        found=last["above chance"],
    )
    yield says(
        "By then one head puts more than half of its attention on the previous token by position",
        last["previous"] > 0.5,
        found=last["previous"],
    )
    yield says("which no head did at the peak", peak["previous"] < 0.1, found=peak["previous"])
