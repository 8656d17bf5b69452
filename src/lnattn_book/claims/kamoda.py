"""The rules of Kamoda et al. 2025 and of the note before it: a module a claim."""

from lnattn_book.claims.f01 import f1
from lnattn_book.claims.k01 import k1
from lnattn_book.claims.k02 import k2
from lnattn_book.claims.k03 import k3
from lnattn_book.claims.k04 import k4
from lnattn_book.claims.k05 import k5
from lnattn_book.claims.k06 import k6
from lnattn_book.claims.k07 import k7
from lnattn_book.claims.k08 import k8
from lnattn_book.claims.k09 import k9
from lnattn_book.claims.k10 import MIXED, PURE, k10
from lnattn_book.claims.k11 import k11
from lnattn_book.claims.k12 import k12
from lnattn_book.claims.k13 import k13
from lnattn_book.claims.k14 import k14
from lnattn_book.claims.k15 import k15
from lnattn_book.claims.k16 import k16
from lnattn_book.claims.k17 import k17
from lnattn_book.claims.k18 import k18
from lnattn_book.claims.k19 import k19
from lnattn_book.claims.k20 import k20
from lnattn_book.claims.k21 import k21
from lnattn_book.claims.k22 import k22

__all__ = [
    "MIXED",
    "PURE",
    "TOKENS",
    "f1",
    "k1",
    "k2",
    "k3",
    "k4",
    "k5",
    "k6",
    "k7",
    "k8",
    "k9",
    "k10",
    "k11",
    "k12",
    "k13",
    "k14",
    "k15",
    "k16",
    "k17",
    "k18",
    "k19",
    "k20",
    "k21",
    "k22",
]

#: What is missing where only position embeddings and attention weights of a model are known.
TOKENS = "the token embeddings, which σ depends on"
