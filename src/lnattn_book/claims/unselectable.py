"""What the book's own claims on unselectable keys (chapter 11) are judged by."""

from __future__ import annotations

from typing import Any

from lnattn.selectability.layers import LayerVerdicts
from lnattn_book.claims.rules import Case, rule, stated


@rule
def u1(case: Case, found: LayerVerdicts) -> dict[str, Any]:
    """Shares of unselectable keys in every head of every layer."""
    shares = found.by_head()
    keys = found.unselectable[0].size
    return {"lost": shares.ravel(), "most": shares.max(), "share": shares.mean(), "keys": keys}


u4, u5 = stated("U4"), stated("U5")
