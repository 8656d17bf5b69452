"""Which pieces of words S1 asks about."""

from __future__ import annotations

from lnattn.affinity.subwords import PieceRule, TokenClasses
from lnattn_book.claims.listed import claim


def piece_rule(classes: TokenClasses) -> PieceRule:
    """Which pieces are asked about in a vocabulary of this kind, as claim S1 says."""
    given = claim("S1").rule
    least, share = given["wordpiece" if classes.wordpiece else "byte_level"]
    return PieceRule(int(least), float(share))
