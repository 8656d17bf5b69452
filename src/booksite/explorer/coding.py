"""The rows of many tokens in as few bytes as what is made of them allows.

A row x is used through a few products with it alone. Its coordinates y = (x − mean) W V, with V the
principal axes of all (x − mean) W, hold just these: rounded to whole multiples of one step they
cost every product alike, and most of them are then small numbers, which `texts.script` writes in a
few bits. Back: x = mean + y B, with B the pseudo-inverse of W V.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from booksite.explorer.digits import digits
from lnattn.errors import ResultError

#: Base64 digits of a coordinate, each digit of all coordinates together: the first is mostly zero.
COORDINATE_DIGITS = 3


@dataclass(frozen=True, eq=False)
class Coding:
    """The coordinates in which rows are rounded, and the way back.

    mean: [d]; forth: [d r], W V; back: [r d]; spread: [r], the standard deviation of each
    coordinate over all rows.
    """

    mean: Float[np.ndarray, "d"]
    forth: Float[np.ndarray, "d r"]
    back: Float[np.ndarray, "r d"]
    spread: Float[np.ndarray, "r"]

    def step(self, bits: float) -> float:
        """The step by which a coordinate takes so many bits on average (if all were Gaussian)."""
        usual = np.exp(np.log(self.spread).mean()) * np.sqrt(2 * np.pi * np.e)
        return float(f"{usual / 2**bits:.2g}")

    def coded(self, rows: Float[np.ndarray, "row d"], step: float) -> dict[str, Any]:
        """Rows as whole multiples of `step`, the first coordinate of all rows first."""
        whole = np.rint((rows - self.mean) @ self.forth / step).astype(np.int64).T
        folded = np.where(whole < 0, -2 * whole - 1, 2 * whole)  # 0, −1, 1, −2 … as 0, 1, 2, 3 …
        if folded.max(initial=0) >= 64**COORDINATE_DIGITS:
            raise ResultError(f"rows reach too far for steps of {step}; choose larger ones.")
        places = [folded // 64**place % 64 for place in range(COORDINATE_DIGITS)[::-1]]
        return {"step": step, "rows": len(rows), "digits": "".join(digits(p, 1) for p in places)}


def coding_of(
    rows: Float[np.ndarray, "row d"],
    weights: Float[np.ndarray, "d column"],
    mean: Float[np.ndarray, "d"] | None = None,
) -> Coding:
    """The coordinates for rows that are used as (x − mean) W; the plain mean unless given."""
    mean = rows.mean(axis=0) if mean is None else mean
    products = (rows - mean) @ weights
    sizes, axes = np.linalg.eigh(products.T @ products / len(rows))
    # Of more columns than there are rows in W, the last are combinations of the others.
    rank = np.linalg.matrix_rank(products)
    forth = weights @ axes[:, ::-1][:, :rank]
    return Coding(mean, forth, np.linalg.pinv(forth), np.sqrt(sizes[::-1][:rank]))


def score_weights(
    rows: Float[np.ndarray, "row d"],
    W_Q: Float[np.ndarray, "head d d_head"],
    b_Q: Float[np.ndarray, "head d_head"],
    W_K: Float[np.ndarray, "key_head d d_head"],
    b_K: Float[np.ndarray, "key_head d_head"],
) -> Float[np.ndarray, "d column"]:
    """The weights of all queries and keys side by side, so that an error costs all scores alike.

    Each head's are multiplied by the usual length of what they meet: queries meet keys.
    """
    of_queries, of_keys = _lengths(rows, W_Q, b_Q), _lengths(rows, W_K, b_K)
    group = len(W_Q) // len(W_K)
    met = np.sqrt(np.square(of_queries).reshape(-1, group).mean(axis=1))
    by_query = W_Q * np.repeat(of_keys, group)[:, None, None]
    return np.hstack([*by_query, *(W_K * met[:, None, None])])


def _lengths(rows: np.ndarray, W: np.ndarray, b: np.ndarray) -> Float[np.ndarray, "head"]:
    """The root mean square of the lengths of a head's vectors."""
    squares = [np.square(rows @ w + one).sum(axis=1).mean() for w, one in zip(W, b, strict=True)]
    return np.sqrt(squares)
