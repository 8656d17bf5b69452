"""The rules of this book, which no paper states; `unselectable` has more: a module a claim."""

from lnattn_book.claims.d01 import d1
from lnattn_book.claims.d03 import d3
from lnattn_book.claims.d05 import d5
from lnattn_book.claims.d09 import d9
from lnattn_book.claims.d10 import d10
from lnattn_book.claims.d11 import d11
from lnattn_book.claims.d12 import d12
from lnattn_book.claims.n01 import n1
from lnattn_book.claims.n03 import n3
from lnattn_book.claims.n04 import n4
from lnattn_book.claims.n05 import n5
from lnattn_book.claims.n06 import n6
from lnattn_book.claims.n07 import n7
from lnattn_book.claims.n08 import n8
from lnattn_book.claims.n10 import n10
from lnattn_book.claims.n11 import n11
from lnattn_book.claims.pieces import piece_rule
from lnattn_book.claims.s01 import s1
from lnattn_book.claims.s07 import s7
from lnattn_book.claims.s08 import s8
from lnattn_book.claims.s11 import s11
from lnattn_book.claims.s13 import s13
from lnattn_book.claims.s14 import s14

__all__ = [
    "d1",
    "d3",
    "d5",
    "d9",
    "d10",
    "d11",
    "d12",
    "n1",
    "n3",
    "n4",
    "n5",
    "n6",
    "n7",
    "n8",
    "n10",
    "n11",
    "piece_rule",
    "s1",
    "s7",
    "s8",
    "s11",
    "s13",
    "s14",
]
