"""The majority task as count vectors: which class is the most frequent in a sequence?

The model of Brody et al. (2023, §4.1) has no positions, so all it can know of a sequence is how
often each class occurs. An example is therefore a vector of counts, not a sequence, and its label
is the class with the largest count, which leads the second largest by at least `margin`.

Sorted, a count vector is a partition of the sequence's length. Eligible partitions (at most
`classes` parts, a lead of at least `margin`) correspond one to one to all partitions of
`length − margin` into at most `classes` parts: take the margin off the largest part. Partitions of
n into at most k parts correspond to those with parts of at most k, which can be drawn uniformly by
walking down a table of their numbers. That is how data are drawn here; the authors' code walks the
partitions depth first in a shuffled order and stops early (`AUTHORS`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Int, UInt8

from lnattn.errors import ShapeError
from lnattn.inputs import one_of, real_number, whole_number

#: Ways to draw partitions: uniformly, or as the authors' code does.
UNIFORM = "uniform"
AUTHORS = "authors"

#: Assignments of classes to parts that the authors' code makes of each partition.
_PER_PARTITION = 10


@dataclass(frozen=True, eq=False)
class MajorityData:
    """Distinct count vectors, those to train on and those to test on; no vector is in both.

    Each row has non-negative counts of `classes` classes that sum to the sequence's length.
    """

    train: UInt8[np.ndarray, "example classes"]
    test: UInt8[np.ndarray, "held_out classes"]


def majority_data(
    examples: int = 100_000,
    *,
    length: int = 50,
    classes: int = 20,
    margin: int = 6,
    test_share: float = 0.2,
    scheme: str = UNIFORM,
    seed: int = 0,
) -> MajorityData:
    """Draw `examples` distinct count vectors and split them; the same seed gives the same data.

    scheme `UNIFORM`: a uniformly random eligible partition, its parts given to classes at random.
    scheme `AUTHORS`: depth first in shuffled order, ten assignments each, until there are enough.
    Sequences of one class only are left out, as the authors do. test_share: between 0 and 1. Raises
    `ShapeError` for a scheme that is none, sizes out of range, or where fewer than twice as many
    eligible vectors exist as are asked for.
    """
    check_task(examples, length, classes, margin, scheme)
    real_number(test_share, "test_share", 0, 1, open_ends=True)
    if not 1 <= round(examples * test_share) < examples:
        raise ShapeError(
            f"{examples} examples cannot be split with test_share {test_share}: one part would be "
            "empty; ask for more examples."
        )
    rng = np.random.default_rng([seed, 0])
    draw = _draw_uniform if scheme == UNIFORM else _draw_like_the_authors
    vectors = np.empty((0, classes), dtype=np.uint8)
    while len(vectors) < examples:
        drawn = draw(examples - len(vectors), length, classes, margin, rng)
        vectors = _distinct(np.concatenate([vectors, drawn]))
    vectors = vectors[rng.permutation(len(vectors))[:examples]]
    held_out = round(examples * test_share)
    return MajorityData(train=vectors[held_out:], test=vectors[:held_out])


def check_task(examples: int, length: int, classes: int, margin: int, scheme: str) -> None:
    """Raise `ShapeError` unless so many examples can be drawn by this scheme."""
    one_of(scheme, (UNIFORM, AUTHORS), "scheme")
    whole_number(examples, "examples", least=2)
    whole_number(length, "length (counts are bytes)", most=255)
    whole_number(classes, "classes", least=2)
    whole_number(margin, "margin (a smaller lead leaves no single majority)")
    available = eligible(length, classes, margin)
    if available < 2 * examples:
        raise ShapeError(
            f"{available} count vectors of length {length} over {classes} classes have a lead of "
            f"{margin}; ask for at most {available // 2} examples."
        )


def eligible(length: int, classes: int, margin: int) -> int:
    """How many count vectors have at least two classes and a lead of at least `margin`."""
    number = 0
    for largest in range(1, length):
        others = length - largest
        largest_other = min(length - largest, largest - margin)
        if largest_other >= 1:
            number += classes * _bounded_compositions(others, classes - 1, largest_other)
    return number


def uniform_partitions(
    total: int, parts: int, draws: int, rng: np.random.Generator
) -> Int[np.ndarray, "draw part"]:
    """Draw uniformly among all partitions of `total` into at most `parts` parts.

    Rows are non-increasing and padded with zeros. The conjugate partition, with parts of at most
    `parts`, is drawn from its largest part down: as long as a part m is allowed, it is taken with
    the share of partitions that have it.
    """
    shares = _shares(total, parts)
    left = np.full(draws, total)
    multiplicity = np.zeros((draws, parts), dtype=np.int64)
    for m in range(parts, 0, -1):
        going = np.arange(draws)
        while len(going):
            going = going[rng.random(len(going)) < shares[m, left[going]]]
            left[going] -= m
            multiplicity[going, m - 1] += 1
    # Part i of a partition counts the conjugate's parts that are at least i.
    return multiplicity[:, ::-1].cumsum(axis=1)[:, ::-1]


def shuffled_partitions(
    total: int, parts: int, rng: np.random.Generator, least: int = 1
) -> Iterator[list[int]]:
    """Partitions of `total` in non-decreasing order, depth first, each choice in shuffled order.

    As in the authors' code, the last of `parts` parts takes what is left, be it smaller than its
    predecessor or not; such lists are no partitions, and no eligible ones.
    """
    if total == 0:
        yield []
    elif parts == 1:
        yield [total]
    else:
        for part in rng.permutation(np.arange(least, total + 1)).tolist():
            for rest in shuffled_partitions(total - part, parts - 1, rng, part):
                yield [part, *rest]


def _draw_uniform(
    number: int, length: int, classes: int, margin: int, rng: np.random.Generator
) -> UInt8[np.ndarray, "draw classes"]:
    sorted_counts = uniform_partitions(length - margin, classes, number, rng)
    sorted_counts[:, 0] += margin
    sorted_counts = sorted_counts[sorted_counts[:, 1] > 0]
    return rng.permuted(sorted_counts.astype(np.uint8), axis=1)


def _draw_like_the_authors(
    number: int, length: int, classes: int, margin: int, rng: np.random.Generator
) -> UInt8[np.ndarray, "draw classes"]:
    rows: list[list[int]] = []
    for partition in shuffled_partitions(length, min(length, classes), rng):
        if len(partition) > 1 and partition[-1] - partition[-2] >= margin:
            rows.append(partition + [0] * (classes - len(partition)))
            if len(rows) * _PER_PARTITION >= number:
                break
    repeated = np.repeat(np.array(rows, dtype=np.uint8), _PER_PARTITION, axis=0)
    return rng.permuted(repeated, axis=1)


def _distinct(rows: UInt8[np.ndarray, "row classes"]) -> UInt8[np.ndarray, "distinct classes"]:
    """The rows without repetitions, in order of first occurrence."""
    as_single_items = np.ascontiguousarray(rows).view(f"V{rows.shape[1]}").ravel()
    return rows[np.sort(np.unique(as_single_items, return_index=True)[1])]


@lru_cache(maxsize=16)
def _shares(total: int, largest: int) -> np.ndarray:
    """[m, n]: the share of partitions of n with parts up to m that have a part m."""
    numbers = [[1] + [0] * total]
    for m in range(1, largest + 1):
        row = list(numbers[-1])
        for n in range(m, total + 1):
            row[n] += row[n - m]
        numbers.append(row)
    shares = np.zeros((largest + 1, total + 1))
    for m in range(1, largest + 1):
        for n in range(m, total + 1):
            # Exact integers: their quotient is right to the last bit however large they are.
            shares[m, n] = numbers[m][n - m] / numbers[m][n]
    return shares


def _bounded_compositions(total: int, parts: int, most: int) -> int:
    """Vectors of `parts` integers in 0 … most that sum to `total`."""
    ways = [1] + [0] * total
    for _ in range(parts):
        ways = [sum(ways[max(0, n - most) : n + 1]) for n in range(total + 1)]
    return ways[total]
