"""Every rule of Kamoda et al. 2025 on made-up results that hold, hold in part, fail, and so on."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lnattn.attention.terms import TERMS
from lnattn.stats import Correlation
from lnattn_book.claims import kamoda, kamoda_position, kamoda_variance
from lnattn_book.claims.verdicts import FAILS, HOLDS, HOLDS_IN_PART, NOT_SEEN, UNDECIDED

OWN, OTHER = "gpt2", "somebody/tiny"


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)


def verdict(found) -> str:
    """The verdict, after a look at what every one must have."""
    assert found.words
    assert found.rule
    assert found.verdict != UNDECIDED or found.note
    return found.verdict


def test_k1_k2():
    assert verdict(kamoda.k1(1e-15, 1e-6, model=OTHER)) == HOLDS
    assert verdict(kamoda.k1(1e-9, 1e-6, model=OTHER)) == FAILS
    assert verdict(kamoda.k1(1e-15, 1e-3, model=OTHER)) == FAILS
    assert verdict(kamoda.k2(1e-15, 0.5, model=OTHER)) == HOLDS
    assert verdict(kamoda.k2(1e-3, 0.5, model=OTHER)) == FAILS
    # A test that cannot see a bias at all says nothing about one.
    assert verdict(kamoda.k2(1e-15, 1e-15, model=OTHER)) == FAILS


def pairs(best: list[float], chance: float = 1000, here: list[float] | None = None, **more):
    """A look-up of Table 1; rows with NaN could not be looked up."""
    n = len(best)
    table = pd.DataFrame(
        {
            "query": [f"q{i}" for i in range(n)],
            "key": [f"k{i}" for i in range(n)],
            "query id": range(n),
            "key id": range(n),
            "rank": [1 + i for i in range(n)],
            "rank here": here or best,
            "best rank": best,
            "best head": [0 if np.isnan(b) else 2 for b in best],
            "chance": [chance] * n,
        }
        | more
    )
    numbers = ["rank", "rank here", "best rank", "best head", "chance"]
    return table.astype(dict.fromkeys(numbers, "Int64"))


def test_k3_on_other_models_goes_by_the_best_rank_and_chance():
    def asked(best, chance=1000.0):
        return verdict(kamoda.k3(pairs(best, chance), model=OTHER))

    assert asked([1, 2, 3, 9, 10]) == HOLDS
    assert asked([1, 2, 3, 9, 11]) == HOLDS_IN_PART
    assert asked([400, 500, 500, 600, 600]) == HOLDS_IN_PART
    assert asked([400, 500, 501, 600, 600]) == NOT_SEEN
    assert asked([1, 2, 3, 4]) == UNDECIDED
    assert asked([1, 2, 3, 4, float("nan")]) == UNDECIDED


def test_k3_counts_a_pair_once():
    twice = pairs([1, 1, 1, 1, 900], **{"query id": [0, 0, 0, 0, 1], "key id": [2, 2, 2, 2, 3]})
    assert verdict(kamoda.k3(twice, model=OTHER)) == UNDECIDED


def test_k3_on_gpt2_asks_for_the_printed_ranks():
    assert verdict(kamoda.k3(pairs([1, 1, 1], here=[1, 2, 3]), model=OWN)) == HOLDS
    assert verdict(kamoda.k3(pairs([1, 1, 1], here=[1, 2, 4]), model=OWN)) == HOLDS_IN_PART
    assert verdict(kamoda.k3(pairs([1, 1, 1], here=[2, 3, 4]), model=OWN)) == FAILS


def test_k4():
    assert verdict(kamoda.k4(array(5, 0.5, -1), model=OTHER)) == HOLDS
    assert verdict(kamoda.k4(array(5, 1.5, -1), model=OTHER)) == HOLDS_IN_PART
    assert verdict(kamoda.k4(array(5, 3, 1.5), model=OTHER)) == FAILS
    assert verdict(kamoda.k4(array(1.9, 0, 0), model=OTHER)) == NOT_SEEN
    assert kamoda.k4(array(1.9, 0, -1), model=OTHER).values == {"highest": 1.9, "lowest": -1}
    assert verdict(kamoda.k4(array(1.9, 0, 0), model=OWN)) == FAILS


def test_k5_goes_by_the_skill_over_the_wrong_query():
    def asked(auroc, wrong, *heads, model=OTHER):
        return verdict(kamoda.k5(array(*auroc), array(*wrong), heads, model=model))

    assert asked([0.9, 0.6], [0.7, 0.59], 0) == HOLDS
    # Largest AUROC by popular keys alone; the pairs' head is found by its skill only.
    assert asked([0.9, 0.8], [0.89, 0.7], 1) == HOLDS_IN_PART
    assert asked([0.9, 0.8], [0.7, 0.79], 1) == FAILS
    assert asked([0.9, 0.8], [0.86, 0.8], 0) == NOT_SEEN
    assert asked([0.9, 0.8], [0.86, 0.8], 0, model=OWN) == FAILS
    assert asked([0.9, 0.6], [0.7, 0.59]) == UNDECIDED


def test_k5_is_undecided_on_a_tie_that_matters():
    def asked(*heads):
        return kamoda.k5(array(0.9, 0.8, 0.5), array(0.7, 0.79, 0.5), heads, model=OTHER)

    assert verdict(asked(0, 1)) == UNDECIDED
    assert verdict(asked(1, 2)) == FAILS
    assert "tie" in asked(1, 2).note


def test_k6():
    assert verdict(kamoda_position.k6(array(0.95, 0.99), model=OWN)) == HOLDS
    falls = kamoda_position.k6(array(0.95, -0.99), model=OWN)
    assert verdict(falls) == HOLDS_IN_PART
    assert "below −0.9 in 1" in falls.words
    assert falls.values == {"lowest": -0.99, "highest": 0.95}
    perhaps = kamoda_position.k6(np.array([[0.95, -0.99], [0.95, -0.5]]), model=OWN)
    assert "below" not in perhaps.words
    assert verdict(kamoda_position.k6(array(0.1, 0.2), model=OWN)) == FAILS
    assert verdict(kamoda_position.k6(array(0.1, 0.2), model=OTHER)) == NOT_SEEN
    unsure = kamoda_position.k6(np.array([[0.95, 0.99], [0.95, 0.5]]), model=OWN)
    assert verdict(unsure) == UNDECIDED
    assert "token embeddings" in unsure.note


def test_k7_wants_both_in_one_head():
    def asked(*heads, model=OTHER):
        columns = zip(*heads, strict=True)
        names = ("distance to highest T^pp", "T^pp cycles", "T^pp wave share")
        table = pd.DataFrame({n: array(*c) for n, c in zip(names, columns, strict=True)})
        return kamoda_position.k7(table, model=model)

    both, bend, far, faint = (3, 2.5, 0.9), (3, 1.6, 0.9), (300, 2.5, 0.9), (3, 2.5, 0.1)
    assert verdict(asked(both, both)) == HOLDS
    assert verdict(asked(both, far)) == HOLDS_IN_PART
    assert verdict(asked(bend, far, faint)) == NOT_SEEN
    assert verdict(asked(bend, far, faint, model=OWN)) == FAILS
    assert "3 with 1, 3 with 1.5, 2 with 2 and 0 with 3" in asked(both, bend, far, faint).note


def test_k8_wants_nearness_without_an_echo():
    assert verdict(kamoda_position.k8(array(0.9, 0.6), array(0, 0.2), model=OWN)) == HOLDS
    echo = kamoda_position.k8(array(0.9, 0.6), array(0, 0.8), model=OWN)
    assert verdict(echo) == HOLDS_IN_PART
    assert "the wave shows in 1" in echo.words
    assert echo.values == {"largest share": 0.9, "smallest share": 0.6, "echo": 0.8}
    assert echo.note == "no key is a wavelength away in 1 of 2 heads"
    assert not kamoda_position.k8(array(0.9, 0.6), array(0.1, 0.2), model=OWN).note
    assert verdict(kamoda_position.k8(array(0.1, 0.2), array(0, 0), model=OWN)) == FAILS
    assert verdict(kamoda_position.k8(array(0.1, 0.2), array(0, 0), model=OTHER)) == NOT_SEEN
    cases = np.array([[0.9, 0.1], [0.1, 0.1]])
    once = kamoda_position.k8(cases, np.array([[0, 0.8], [0, 0.1]]), model="gpt2 (frozen)")
    assert "the wave shows in 1" in once.words
    assert verdict(kamoda_position.k8(cases, np.zeros((2, 2)), model="gpt2 (frozen)")) == UNDECIDED


def measured(skill, itself, predicted) -> pd.DataFrame:
    return pd.DataFrame(
        {"skill": skill, "itself, measured": itself, "itself, by position": predicted}
    )


def test_k9_wants_one_head_of_each_kind():
    both = measured([0.9, 0.1], [0.1, 0.8], [0.1, 0.1])
    found = kamoda_position.k9(both, model=OTHER)
    assert (verdict(found), found.short) == (HOLDS, "0.90")
    assert "from 0.10 to 0.90" in found.words
    assert verdict(kamoda_position.k9(measured([0.9], [0.1], [0.1]), model=OTHER)) == HOLDS_IN_PART
    # A head that position alone sends to itself is no evidence.
    alone = measured([0.2, 0.2], [0.8, 0.8], [0.7, 0.7])
    assert verdict(kamoda_position.k9(alone, model=OTHER)) == NOT_SEEN


@pytest.mark.parametrize(
    ("follower", "selfish", "expected"),
    [(7, 1, HOLDS), (7, 2, HOLDS_IN_PART), (6, 1, HOLDS_IN_PART), (6, 2, FAILS)],
)
def test_k9_on_gpt2_names_the_heads(follower, selfish, expected):
    heads = np.arange(12)
    table = measured((heads == follower) * 0.9, (heads == selfish) * 0.9, heads * 0.0)
    assert verdict(kamoda_position.k9(table, model=OWN)) == expected


def contributions(spread: float = 0.01, documents: int = 40, **means: float):
    """Sums and rows of documents with these means and a spread between documents."""
    generator = np.random.default_rng(0)
    base = array(*(means.get(term, 1.0) for term in TERMS))
    rows = generator.integers(50, 200, size=(documents, 1)) * np.ones((1, len(TERMS)))
    noise = spread * generator.standard_normal((documents, len(TERMS)))
    return (base + noise) * rows, rows


def test_k10_compares_with_intervals():
    def asked(**means):
        return kamoda.k10(*contributions(**means), model=OTHER)

    assert verdict(asked(ep=0.1, pe=0.1)) == HOLDS
    part = asked(ep=0.1, pe=1.5, e=0.5)
    assert verdict(part) == HOLDS_IN_PART
    assert "pe exceeds ee, e, p and pp" in part.note
    assert verdict(asked(ep=1.5, pe=1.5)) == FAILS
    unsure = asked(ep=0.1, pe=1.0, spread=0.5)
    assert verdict(unsure) == UNDECIDED
    assert "more documents would decide" in unsure.note
    assert verdict(kamoda.k10(*contributions(documents=1), model=OTHER)) == UNDECIDED
    found = asked(ep=0.1, pe=0.2, ee=5, spread=0.0)
    assert (found.words[:5], found.short) == ("ee > ", "5.00")  # 1 over 0.2


def test_k10_is_not_decided_by_a_term_that_is_only_perhaps_beaten():
    """pe exceeds one term for certain; whether ep lies below all four decides part from fails."""
    found = kamoda.k10(*contributions(ep=1.0, pe=2.0, ee=3, spread=0.5), model=OTHER)
    assert verdict(found) == UNDECIDED


def correlation(rho: float, half: float = 0.02) -> Correlation:
    return Correlation(rho, rho - half, rho + half, 1000)


def test_k11_counts_heads_whose_whole_interval_is_beyond():
    def asked(*rho, tokens=5_000_000, model=OTHER):
        return verdict(
            kamoda_variance.k11([correlation(float(r)) for r in rho], tokens, model=model)
        )

    assert asked(0.6, -0.7, 0.8, 0) == HOLDS
    assert asked(0.6, -0.7, 0.51, 0) == HOLDS_IN_PART
    assert asked(0.3, 0.51, 0) == NOT_SEEN
    assert asked(0.3, 0.51, 0, model=OWN) == FAILS
    assert asked(0.6, -0.7, 0.8, tokens=42_000) == UNDECIDED
    both = kamoda_variance.k11([correlation(0.3), correlation(-0.7)], 5_000_000, model=OTHER)
    assert "strongest -0.700" in both.words.replace("−", "-")
    wide = kamoda_variance.k11([correlation(0.0, 0.9)] * 3, 5_000_000, model=OTHER)
    assert verdict(wide) == NOT_SEEN


def test_k12_fails_where_rare_tokens_do_not_vary_more():
    def asked(rho, ratio, tokens=5_000_000):
        return verdict(kamoda_variance.k12(correlation(rho), ratio, tokens, model=OTHER))

    assert asked(-0.5, 46.0) == HOLDS
    assert asked(-0.5, 7.0) == HOLDS_IN_PART
    assert asked(0.6, 46.0) == FAILS
    # Far from 0 by its interval alone, as the correlation of many tokens is even by chance.
    assert asked(-0.05, 46.0) == asked(-0.05, 7.0) == FAILS
    wide = kamoda_variance.k12(correlation(-0.2, 0.15), 46.0, 5_000_000, model=OTHER)
    assert verdict(wide) == FAILS
    assert asked(-0.5, 46.0, tokens=42_000) == UNDECIDED


def test_k16():
    z, noise = np.arange(12.0), np.random.default_rng(0).permutation(12.0 * np.arange(12))

    def asked(*heads):
        return verdict(kamoda.k16(*heads, model=OTHER))

    assert asked(z, -z + 0.01 * noise) == HOLDS
    assert asked(z, z + 0.01 * noise) == FAILS
    assert asked(z, noise) == UNDECIDED
    assert asked(z[:3], -z[:3]) == UNDECIDED


def test_k13():
    assert verdict(kamoda_variance.k13(50.0, -40.0, 0.05, model=OWN)) == HOLDS
    assert verdict(kamoda_variance.k13(50.0, 0.0, 0.7, model=OWN)) == HOLDS_IN_PART
    assert verdict(kamoda_variance.k13(5.0, 0.0, 0.7, model=OWN)) == FAILS
    assert verdict(kamoda_variance.k13(5.0, 0.0, 0.7, model=OTHER)) == NOT_SEEN


def test_k14():
    assert verdict(kamoda_variance.k14(array(0.01, 0.09), model=OWN)) == HOLDS
    assert verdict(kamoda_variance.k14(array(0.01, 0.5), model=OWN)) == HOLDS_IN_PART
    assert verdict(kamoda_variance.k14(array(0.4, 0.5), model=OWN)) == FAILS
    assert "40.0% to 50.0%" in kamoda_variance.k14(array(0.4, 0.5), model=OWN).words
    assert kamoda_variance.k14(array(0.4, 0.5), model=OWN).values == {"largest": 0.5}
    assert verdict(kamoda_variance.k14(array(0.4, 0.5), model=OTHER)) == NOT_SEEN


def test_k15_wants_a_negative_score_that_is_amplified():
    switch = kamoda_variance.k15(array(-3, -2), array(2, 1.2), model=OWN)
    assert verdict(switch) == HOLDS
    assert "by 1.20 to 2.00" in switch.words
    assert switch.values == {"largest": 2, "smallest": 1.2}
    assert verdict(kamoda_variance.k15(array(-3, -2), array(2, 1.05), model=OWN)) == HOLDS_IN_PART
    # Amplified, but by a positive score: not this mechanism.
    assert verdict(kamoda_variance.k15(array(3, -2), array(2, 1.0), model=OWN)) == FAILS
    assert verdict(kamoda_variance.k15(array(3, -2), array(2, 1.0), model=OTHER)) == NOT_SEEN
