"""The rules of the notes on transformer mathematics: a module a claim."""

from lnattn_book.claims.m03 import m3
from lnattn_book.claims.m04 import m4
from lnattn_book.claims.m06 import m6
from lnattn_book.claims.m07 import m7
from lnattn_book.claims.m08 import m8
from lnattn_book.claims.m12 import m12
from lnattn_book.claims.m13 import m13
from lnattn_book.claims.m14 import m14

__all__ = ["m3", "m4", "m6", "m7", "m8", "m12", "m13", "m14"]
