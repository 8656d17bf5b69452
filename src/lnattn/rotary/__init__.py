"""First layers whose positions stand between query and key: rotary, ALiBi, T5 (chapter 12).

`weights` holds what a checkpoint gives, `fold` folds its norm, `terms` splits a score into four
terms, `affinity`, `position` and `kl` measure them, and `study` runs all of it on one model.
"""
