"""A report on a model's first layer: one page that a person can show, and every number beside it.

A module a part, each with one function from `Evidence` to `Part`. In a notebook, `lnattn.report`
with `only=` shows some of them.
"""
