"""The rules of this book, which no paper states; `unselectable` has more: a module a claim."""

from lnattn_book.claims.d01 import d1
from lnattn_book.claims.d03 import d3
from lnattn_book.claims.d05 import d5
from lnattn_book.claims.d09 import d9
from lnattn_book.claims.n01 import n1
from lnattn_book.claims.n07 import n7
from lnattn_book.claims.n08 import n8
from lnattn_book.claims.n11 import n11
from lnattn_book.claims.pieces import piece_rule
from lnattn_book.claims.s01 import s1
from lnattn_book.claims.s07 import s7
from lnattn_book.claims.s11 import s11
from lnattn_book.claims.s13 import s13
from lnattn_book.claims.s14 import s14

__all__ = [
    "d1",
    "d3",
    "d5",
    "d9",
    "n1",
    "n7",
    "n8",
    "n11",
    "piece_rule",
    "s1",
    "s7",
    "s11",
    "s13",
    "s14",
]
