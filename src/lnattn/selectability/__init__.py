"""Which keys can no query select, and does LayerNorm's scaling cure them? (chapter 11)

Brody et al. 2023, Theorem 1: a key wins for some query if and only if it is a corner of the convex
hull of all keys. `selectability` decides exactly, for every key, and returns proofs in a
`Selectability`; the module `verify` checks them; `bounded_search` is the authors' search;
`random_grid` and `first_layer_keys` make keys.
"""

from lnattn.selectability.decide import Selectability, selectability
from lnattn.selectability.first_layers import first_layer_keys
from lnattn.selectability.papers_search import bounded_search
from lnattn.selectability.random_keys import random_grid

__all__ = ["Selectability", "bounded_search", "first_layer_keys", "random_grid", "selectability"]
