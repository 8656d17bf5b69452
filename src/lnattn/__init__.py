"""LayerNorm and attention, read from the weights."""
