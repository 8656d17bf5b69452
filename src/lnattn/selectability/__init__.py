"""Which keys can no query select, and does LayerNorm's scaling cure them? (chapter 9)

Brody et al. 2023, Theorem 1: a key wins for some query if and only if it is a corner of the convex
hull of all keys. `selectability` decides exactly, for every key, and returns proofs in a
`Selectability`; the module `verify` checks them; `bounded_search` is the authors' search;
`random_grid` and `first_layer_keys` make keys.
"""
