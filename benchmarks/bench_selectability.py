"""Which keys are unselectable: our verdicts with proofs, against one linear program a key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from common import growth, peak_memory, ratio, time_side_by_side

from lnattn.selectability.decide import HULL_TOLERANCE, AffineHull, selectability
from lnattn.selectability.program import widest_query
from lnattn.selectability.verify import verify
from lnattn_book.studies.papers_search import BoundedSearch, bounded_search


def run(quick: bool = False) -> dict[str, Any]:
    """Time our study, HiGHS on a part of the keys, and the papers' procedure on all of them."""
    n, d, part = (128, 4, 8) if quick else (1024, 8, 64)
    sets = [normal_keys(n, d, seed) for seed in range(4 if quick else 16)]
    keys = sets[0]
    searched = compare(keys, part)

    ours_name = f"ours, all keys of {len(sets)} sets, with proofs"
    lp_name = f"HiGHS, one program a key, {part} of {n} keys"
    papers_name = "the papers' procedure: reflections, then HiGHS for the rest"
    methods: dict[str, Callable[[], Any]] = {
        ours_name: lambda: [selectability(key_set) for key_set in sets],
        lp_name: lambda: programs(keys, part),
    }
    timings = time_side_by_side(methods, repeats=1 if quick else 5)
    slow = {papers_name: lambda: bounded_search(keys)}
    timings |= time_side_by_side(slow, repeats=1 if quick else 2, warm_up=0)
    timings = {
        name: replace(timing, peak_mib=peak_memory({**methods, **slow}[name]))
        for name, timing in timings.items()
    }
    fast = timings[ours_name]
    every = ratio(timings[lp_name], fast, floor=500, work=len(sets) * n / part)
    every["of"] = f"HiGHS, {n} keys"
    papers = ratio(timings[papers_name], fast, floor=1000, work=len(sets))
    every["to"] = papers["to"] = f"ours, {n} keys"
    sizes = (64, 128) if quick else (1024, 2048, 4096, 8192, 16_384)
    widths = (2, 4) if quick else (4, 8, 16, 32, 64)
    few = 2 if quick else 4
    return {
        "title": "Unselectable keys",
        "what": (
            "Which of n standard normal keys in R^d can no query select? Ours decides all of them "
            "and returns a proof of each verdict. The slow method solves one linear program for "
            "each key. The papers' procedure first tries 100 reflections of a query and leaves the "
            "rest to linear programs in a box; HiGHS stands in for Gurobi, and the reflections of "
            "all keys go side by side, which the original does not do."
        ),
        "workload": {"n": n, "d": d, "unselectable": int((~selectability(keys).selectable).sum())},
        "rows": [timing.as_row() for timing in timings.values()],
        "ratios": [every, papers],
        "growth": [
            growth("n", "keys, of width 8", sizes, lambda n: sized(n, 8, few)),
            growth("d", f"width, with {n} keys", widths, lambda d: sized(n, d, few)),
        ],
        "notes": [
            f"Of the {n} keys the reflections decide {n - searched.programs}, so that the papers' "
            f"procedure solves {searched.programs} programs where one a key would be {n}: hence "
            "it is the nearer of the two. Ours spends its time on walks to a winning query or to "
            "a proof that there is none, each step a product with all keys.",
            f"HiGHS was timed on {part} of the {n} keys, and ours on {len(sets)} sets one after "
            "the other, as one takes some milliseconds; the ratios are of the times for one set.",
            f"Growth: half of the keys are mixtures of the others, so that there is something to "
            f"find at every width; HiGHS decides {few} keys there, and ours all of them.",
            f"Resident memory rises by {memory(sizes[-1], 8)} MiB for {sizes[-1]} keys of width 8, "
            f"and by {memory(n, widths[-1])} MiB for {n} keys of width {widths[-1]}.",
        ],
    }


def normal_keys(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Standard normal keys [n d]."""
    return np.random.default_rng([n, d, seed]).normal(size=(n, d))


def half_inside(n: int, d: int) -> np.ndarray:
    """Keys of which half are mixtures of five of the others."""
    rng = np.random.default_rng([n, d, 1])
    outer = rng.normal(size=(n - n // 2, d))
    members = rng.integers(len(outer), size=(n // 2, 5))
    weights = rng.dirichlet(np.ones(5), size=n // 2)
    return np.concatenate([outer, np.einsum("im,imd->id", weights, outer[members])])


def programs(keys: np.ndarray, part: int) -> list[bool]:
    """The verdicts on `part` keys, evenly spread, by one linear program each."""
    points = AffineHull.of(keys).points
    return [
        widest_query(points[i], np.delete(points, i, axis=0))[1] > HULL_TOLERANCE
        for i in chosen(len(keys), part)
    ]


def chosen(n: int, part: int) -> np.ndarray:
    """Indices of `part` of n keys, evenly spread."""
    return np.linspace(0, n - 1, part).astype(int)


def compare(keys: np.ndarray, part: int) -> BoundedSearch:
    """All methods must come to the same verdicts, and every proof must hold; the papers' search."""
    verdicts = selectability(keys)
    assert verify(keys, verdicts).ok
    np.testing.assert_array_equal(
        verdicts.selectable[chosen(len(keys), part)], programs(keys, part)
    )
    searched = bounded_search(keys)
    np.testing.assert_array_equal(verdicts.selectable, searched.selectable)
    return searched


def sized(n: int, d: int, few: int) -> dict[str, Callable[[], Any]]:
    """Ours on all keys of another size, and HiGHS on a few."""
    keys = half_inside(n, d)
    methods: dict[str, Callable[[], Any]] = {"ours, all keys": lambda: selectability(keys)}
    if n <= 4096:
        methods[f"HiGHS, {few} keys"] = lambda: programs(keys, few)
    return methods


def memory(n: int, d: int) -> str:
    """MiB by which our method raises resident memory at a size, as text."""
    keys = half_inside(n, d)
    peak = peak_memory(lambda: selectability(keys))
    return "an unknown number of" if peak is None else f"{peak:.0f}"
