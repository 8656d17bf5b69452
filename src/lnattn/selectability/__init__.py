"""Which keys can no query select, and does LayerNorm's scaling cure them?

Brody et al. 2023, Theorem 1: a key wins for some query if and only if it is a corner of the convex
hull of all keys. `selectability` decides exactly, for every key, and returns proofs in a
`Selectability`; the module `verify` checks them; `first_layer_keys` makes keys.
"""
