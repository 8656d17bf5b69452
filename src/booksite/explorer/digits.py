"""Numbers as base64 digits: a script holds text, and JSON's own numbers are longer."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from lnattn.errors import ResultError

#: Digits of a weight, and of all numbers that are not many: 18 bits.
WEIGHT_DIGITS = 3
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def digits(values: Int[np.ndarray, "..."], width: int) -> str:
    """Whole numbers from 0 to 64^width − 1 in base64 digits, the highest first, without gaps."""
    if values.size and not 0 <= values.min() <= values.max() < 64**width:
        raise ResultError(f"a number does not fit into {width} base64 digits.")
    places = 64 ** np.arange(width)[::-1]
    alphabet = np.frombuffer(_ALPHABET, dtype=np.uint8)
    return alphabet[values.astype(np.int64).reshape(-1, 1) // places % 64].tobytes().decode("ascii")


def numbers(text: str, width: int) -> list[int]:
    """What `digits` wrote."""
    values = np.array([_ALPHABET.index(letter) for letter in text.encode("ascii")], dtype=np.int64)
    return (values.reshape(-1, width) @ 64 ** np.arange(width)[::-1]).tolist()


def packed_rows(rows: Float[np.ndarray, "row column"], width: int) -> dict[str, Any]:
    """Real numbers in `width` digits each; the largest of a row, in size, uses them in full."""
    middle = 64**width // 2
    largest = np.abs(rows).max(axis=1, keepdims=True)
    # What the browser multiplies with is the scale as written: round it before it is used.
    scales = np.array([[float(f"{x:.5g}")] for x in (1.0001 * largest / (middle - 2)).ravel()])
    whole = np.rint(np.divide(rows, scales, out=np.zeros_like(rows), where=scales > 0))
    return {
        "width": width,
        "scales": scales.ravel().tolist(),
        "digits": digits(whole.astype(np.int64) + middle, width),
    }
