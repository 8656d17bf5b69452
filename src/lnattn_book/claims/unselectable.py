"""The rules of unselectable keys, of Brody et al. 2023 and the book's own: a module a claim."""

from lnattn_book.claims.b07 import b7
from lnattn_book.claims.b08 import b8
from lnattn_book.claims.b09 import b9
from lnattn_book.claims.b10 import b10
from lnattn_book.claims.b11 import b11
from lnattn_book.claims.b12 import b12
from lnattn_book.claims.b14 import b14
from lnattn_book.claims.b16 import b16
from lnattn_book.claims.u04 import u4

__all__ = ["b7", "b8", "b9", "b10", "b11", "b12", "b14", "b16", "u4"]
