"""The rules of the slides on circuits and the residual stream: a module a claim."""

from lnattn_book.claims.r01 import r1
from lnattn_book.claims.r02 import r2
from lnattn_book.claims.r03 import r3
from lnattn_book.claims.r04 import r4
from lnattn_book.claims.r06 import r6
from lnattn_book.claims.r07 import r7

__all__ = ["r1", "r2", "r3", "r4", "r6", "r7"]
