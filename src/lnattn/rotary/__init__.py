"""First layers whose positions stand between query and key: rotary, ALiBi, T5.

`weights` holds what a checkpoint gives, `fold` folds its norm, `terms` splits a score into four
terms; `affinity` and `position` measure them.
"""
