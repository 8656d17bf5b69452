"""Attention of one layer: LayerNorm folded in, scores in terms, circuits of heads."""
