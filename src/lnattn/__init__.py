"""LayerNorm and attention, read from the weights.

The names below are imported when they are first used: `import lnattn` costs nothing, and the parts
that need no PyTorch (counting n-grams, the command line's help) do not load it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lnattn.attention.distance import DistanceTerms, distance_terms
    from lnattn.attention.folding import FoldedAttention, fold
    from lnattn.attention.terms import SixTerms, sigma_of_pairs, six_terms
    from lnattn.models.checkpoints import load_attention_layers, load_first_layer
    from lnattn.models.choice import Choice, default_model
    from lnattn.weights import AttentionLayer, Embeddings, FirstLayer, LayerNorm

__all__ = [
    "AttentionLayer",
    "Choice",
    "DistanceTerms",
    "Embeddings",
    "FirstLayer",
    "FoldedAttention",
    "LayerNorm",
    "SixTerms",
    "default_model",
    "distance_terms",
    "fold",
    "load_attention_layers",
    "load_first_layer",
    "sigma_of_pairs",
    "six_terms",
]

_HOMES = {
    "lnattn.attention.distance": ("DistanceTerms", "distance_terms"),
    "lnattn.attention.folding": ("FoldedAttention", "fold"),
    "lnattn.attention.terms": ("SixTerms", "sigma_of_pairs", "six_terms"),
    "lnattn.models.checkpoints": ("load_attention_layers", "load_first_layer"),
    "lnattn.models.choice": ("Choice", "default_model"),
    "lnattn.weights": ("AttentionLayer", "Embeddings", "FirstLayer", "LayerNorm"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'lnattn' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
