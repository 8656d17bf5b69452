"""What the book's own claims on rotary models (chapter 13) are judged by. No paper states these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lnattn_book.claims.listed import claim
from lnattn_book.claims.rules import Case, rule
from lnattn_book.claims.verdicts import Between

#: What book-gpt2 and book-llama differ in besides their positions.
TWINS_DIFFER = ("RMSNorm for LayerNorm", "keys shared by four heads", "SwiGLU for GELU")


def near_keys() -> int:
    """How many of the nearest keys D3 is about."""
    return int(claim("D3").rule["near"])


@rule
def d1(case: Case, skill: np.ndarray) -> dict[str, Any]:
    """skill: [head 3], mean, low, high."""
    return {"skill": Between.rows(skill).family()}


@rule
def d3(case: Case, share: np.ndarray, null: np.ndarray) -> dict[str, Any]:
    """share, null: [head], of attention by distance alone on the nearest keys."""
    even = case.near / case.context
    return {"times_even": share / even, "null": null / even, "usual": np.median(null) / even}


@rule
def d5(case: Case, difference: np.ndarray, unlike: Sequence[str]) -> dict[str, Any]:
    """difference: mean, low, high; unlike: what the two differ in besides positions, in words."""
    return {"more": Between(*difference), "differ": len(unlike), "unlike": ", ".join(unlike)}
