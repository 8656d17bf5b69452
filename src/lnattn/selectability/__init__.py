"""Which keys can no query select, and does LayerNorm's scaling cure them? (chapter 11)

Brody et al. 2023, Theorem 1: a key wins for some query if and only if it is a corner of the convex
hull of all keys. Asked of random keys (Fig. 1c and 1d), of small language models with parts of
LayerNorm taken out (§4.2, Tables 1 and 2), of the words of sentences (App. D, Tables 3 and 4), and
of the first layers of real models.

`selectability` decides exactly, for every key, and returns proofs in a `Selectability`; the module
`verify` checks them; `bounded_search` is the authors' search; `random_grid` and `first_layer_keys`
make keys.
"""

from lnattn.selectability.decide import Selectability, selectability
from lnattn.selectability.first_layers import first_layer_keys
from lnattn.selectability.papers_search import bounded_search
from lnattn.selectability.random_keys import random_grid

__all__ = ["Selectability", "bounded_search", "first_layer_keys", "random_grid", "selectability"]
