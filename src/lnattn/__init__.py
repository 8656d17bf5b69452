"""LayerNorm and attention, read from the weights.

The names below are imported when they are first used: `import lnattn` costs nothing, and the parts
that need no PyTorch (counting n-grams, the command line's help) do not load it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lnattn import plain as plain
    from lnattn.attention.folding import FoldedAttention as FoldedAttention
    from lnattn.attention.folding import fold as fold
    from lnattn.attention.residual import decompose as decompose
    from lnattn.attention.terms import SixTerms as SixTerms
    from lnattn.attention.terms import sigma_of_pairs as sigma_of_pairs
    from lnattn.attention.terms import six_terms as six_terms
    from lnattn.attention.vectors import token_vectors as token_vectors
    from lnattn.contribution.study import contributions as contributions
    from lnattn.errors import LnattnError as LnattnError
    from lnattn.guarantees import guarantee as guarantee
    from lnattn.models.alone import context_free as context_free
    from lnattn.models.checkpoints import load_attention_layers as load_attention_layers
    from lnattn.models.checkpoints import load_first_layer as load_first_layer
    from lnattn.models.choice import Choice as Choice
    from lnattn.models.choice import default_model as default_model
    from lnattn.models.modules import first_layer as first_layer
    from lnattn.models.verification import verify as verify
    from lnattn.models.whole_gpt2 import load_transformer as load_transformer
    from lnattn.position.bias import position_bias as position_bias
    from lnattn.reporting.report import report as report
    from lnattn.rotary.fold import fold_relative as fold_relative
    from lnattn.rotary.terms import DistanceTerms as DistanceTerms
    from lnattn.rotary.terms import distance_terms as distance_terms
    from lnattn.weights import AttentionLayer as AttentionLayer
    from lnattn.weights import Embeddings as Embeddings
    from lnattn.weights import FirstLayer as FirstLayer
    from lnattn.weights import LayerNorm as LayerNorm

_HOMES = {
    "lnattn.rotary.terms": ("DistanceTerms", "distance_terms"),
    "lnattn.attention.folding": ("FoldedAttention", "fold"),
    "lnattn.attention.residual": ("decompose",),
    "lnattn.attention.terms": ("SixTerms", "sigma_of_pairs", "six_terms"),
    "lnattn.attention.vectors": ("token_vectors",),
    "lnattn.models.alone": ("context_free",),
    "lnattn.models.checkpoints": ("load_attention_layers", "load_first_layer"),
    "lnattn.models.choice": ("Choice", "default_model"),
    "lnattn.models.modules": ("first_layer",),
    "lnattn.models.verification": ("verify",),
    "lnattn.models.whole_gpt2": ("load_transformer",),
    "lnattn.contribution.study": ("contributions",),
    "lnattn.errors": ("LnattnError",),
    "lnattn.guarantees": ("guarantee",),
    "lnattn.position.bias": ("position_bias",),
    "lnattn.reporting.report": ("report",),
    "lnattn.rotary.fold": ("fold_relative",),
    "lnattn.weights": ("AttentionLayer", "Embeddings", "FirstLayer", "LayerNorm"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
#: All the mathematics, to be read and to compare with.
_MODULES = ("plain",)
__all__ = sorted([*_HOME_OF, *_MODULES])


if not TYPE_CHECKING:  # who checks types is told of the names above, and of no others

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"lnattn.{name}")
        if name not in _HOME_OF:
            raise AttributeError(f"module 'lnattn' has no attribute {name!r}")
        value = getattr(import_module(_HOME_OF[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
