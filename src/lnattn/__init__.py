"""LayerNorm and attention, read from the weights."""

from lnattn.attention.folding import FoldedAttention, fold
from lnattn.attention.terms import SixTerms, sigma_of_pairs, six_terms
from lnattn.models.checkpoints import load_attention_layers, load_first_layer
from lnattn.models.choice import Choice, default_model
from lnattn.models.layers import AttentionLayer, Embeddings, FirstLayer, LayerNorm

__all__ = [
    "AttentionLayer",
    "Choice",
    "Embeddings",
    "FirstLayer",
    "FoldedAttention",
    "LayerNorm",
    "SixTerms",
    "default_model",
    "fold",
    "load_attention_layers",
    "load_first_layer",
    "sigma_of_pairs",
    "six_terms",
]
