"""What the chapter on contributions states: how far attention moves without a term."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from lnattn.attention.terms import TERMS
from lnattn.contribution.study import Contributions
from lnattn.stats import resampled_ratios
from lnattn_book.claims.kamoda import MIXED, PURE
from lnattn_book.claims.listed import claim
from lnattn_book.page.checks import Check, says


def term_differences(contributions: Contributions, draws: int | None = None) -> pd.DataFrame:
    """Each other term's mean contribution less each mixed one's: a row a comparison of claim K10.

    Columns: term, less, and from, median, to: 95 % over documents drawn with replacement, nats.
    draws: by default as many as the claim's rule.
    """
    draws = claim("K10").rule["draws"] if draws is None else draws
    drawn = resampled_ratios(contributions.document_sums, contributions.document_rows, draws)
    means = pd.DataFrame(drawn, columns=TERMS)
    rows = []
    for mixed in MIXED:
        for term in PURE:
            low, median, high = np.quantile(means[term] - means[mixed], (0.025, 0.5, 0.975))
            rows.append({"term": term, "less": mixed, "from": low, "median": median, "to": high})
    return pd.DataFrame(rows)


def two_ways(left_out: Contributions, shares: Contributions) -> pd.DataFrame:
    """Mean over heads of each term's contribution: left out, and as its additive share; with ranks.

    left_out: by `lnattn.contribution.study.TEXT`; shares: by `ADDITIVE`, which add up. A row a term
    in the order of `TERMS`; columns 'left out', 'share' (nats) and 'rank left out', 'rank share'.
    """
    table = pd.DataFrame(
        {
            name: divergences.grand_mean()[:, -1]
            for name, divergences in (("left out", left_out), ("share", shares))
        },
        index=pd.Index(TERMS, name="term"),
    )
    for name in ("left out", "share"):
        table[f"rank {name}"] = table[name].rank(ascending=False).astype(int)
    return table


def checks(small: Contributions, minilm: Contributions, both: pd.DataFrame) -> Iterator[Check]:
    """What the page says of its numbers.

    small: of book-gpt2; minilm: of MiniLM; both: `two_ways` of book-gpt2.
    """
    by_head = pd.DataFrame(small.grand_mean()[:, :-1], index=TERMS)
    mean = pd.Series(small.grand_mean()[:, -1], index=TERMS)
    of_minilm = pd.Series(minilm.grand_mean()[:, -1], index=TERMS)
    yield says("over sixty articles and all queries", small.documents == 60)
    yield says(
        "moves by 0.35 nats without position → position, in the mean of heads, and by 0.03",
        mean["pp"],
        mean["ee"],
    )
    yield says(
        "In both models position → position comes first",
        [small.ranking()[0] == "pp", minilm.ranking()[0] == "pp"],
    )
    yield says("In MiniLM token → token is second", minilm.ranking()[1] == "ee")
    yield says("in book-gpt2 it is next to last", small.ranking()[-2] == "ee")
    yield says(
        "Without position → position head 5 moves by 1.7 nats",
        by_head.loc["pp"].argmax(),
        by_head.loc["pp"].max(),
    )
    pairs = by_head.loc["ee"]
    yield says(
        "Head 6 is the only one in which token → token counts",
        pairs.argmax(),
        pairs.max() > 3 * pairs.nlargest(2).iloc[-1],
        found=pairs.to_numpy(),
    )
    mixed = by_head.loc["pe", 6]
    yield says("counts nearly as much", 0.8 < mixed / pairs[6] < 1, found=[mixed, pairs[6]])
    yield says(
        "position → token comes before any → position",
        of_minilm["pe"] > of_minilm["p"],
        found=[of_minilm["pe"], of_minilm["p"]],
    )
    same = both["rank left out"] == both["rank share"]
    leading = both["rank left out"] <= 4
    yield says("On the first four terms they do", same[leading].to_numpy())
    yield says("change places at the end", ~same[["ee", "ep"]].to_numpy())
    yield says(
        "The share of any → position is larger than what it costs to leave it out",
        both.loc["p", "share"] > both.loc["p", "left out"],
        found=both.loc["p", ["share", "left out"]].to_numpy(),
    )
