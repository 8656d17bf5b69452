"""Checkpoints of many families, as the weights that the formulas need."""
