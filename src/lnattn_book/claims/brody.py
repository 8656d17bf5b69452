"""The rules of Brody et al. 2023; those on keys are in `unselectable`: a module a claim."""

from lnattn_book.claims.arms import end_lead
from lnattn_book.claims.b01 import b1
from lnattn_book.claims.b02 import b2
from lnattn_book.claims.b03 import b3
from lnattn_book.claims.b04 import b4
from lnattn_book.claims.b05 import b5
from lnattn_book.claims.b06 import b6
from lnattn_book.claims.b13 import b13
from lnattn_book.claims.b15 import b15

__all__ = ["b1", "b2", "b3", "b4", "b5", "b6", "b13", "b15", "end_lead"]
