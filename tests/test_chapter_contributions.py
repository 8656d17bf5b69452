"""What the chapter on contributions states, on made results."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pytest

from lnattn.contribution.study import Contributions
from lnattn_book.chapters import contributions as chapter


def test_two_ways_rank_the_terms_of_a_made_result() -> None:
    def made(values):
        return Mock(spec=Contributions, grand_mean=lambda: np.array([[9.0, v] for v in values]))

    table = chapter.two_ways(made([1, 2, 3, 4, 5, 6]), made([-1, 2, 3, 4, 6, 5]))
    assert table.loc["ee"].tolist() == [1, -1, 6, 6]
    assert table["rank left out"].tolist() == [6, 5, 4, 3, 2, 1]
    assert table["rank share"].tolist() == [6, 5, 4, 3, 1, 2]


def test_term_differences_are_those_of_the_documents() -> None:
    rng = np.random.default_rng(0)
    rows = np.full((30, 6), 10.0)
    sums = rows * np.array([0.5, 0.1, 0.2, 0.9, 0.6, 0.7]) + rng.normal(0, 1e-3, (30, 6))
    table = chapter.term_differences(
        Mock(spec=Contributions, document_sums=sums, document_rows=rows), 200
    )
    assert len(table) == 8  # four other terms, two mixed ones
    pp_ep = table[(table["term"] == "pp") & (table["less"] == "ep")].iloc[0]
    assert pp_ep["median"] == pytest.approx(0.8, abs=1e-3)  # ee ep pe pp e p: 0.9 − 0.1
    assert pp_ep["from"] < pp_ep["median"] < pp_ep["to"]
