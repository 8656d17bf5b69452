"""LayerNorm and attention, read from the weights."""

from lnattn.attention.folding import FoldedAttention, fold
from lnattn.attention.terms import SixTerms, sigma_of_pairs, six_terms
from lnattn.models.layers import AttentionLayer, Embeddings, FirstLayer, LayerNorm

__all__ = [
    "AttentionLayer",
    "Embeddings",
    "FirstLayer",
    "FoldedAttention",
    "LayerNorm",
    "SixTerms",
    "fold",
    "sigma_of_pairs",
    "six_terms",
]
