"""What all families of checkpoints share: reading, checking and reshaping named tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Any, ClassVar

from torch import Tensor

from lnattn.errors import CheckpointError, one_line
from lnattn.models.adapters import PLAIN, beside, check_module, refuse_adapters
from lnattn.models.refusals import reason_against_part
from lnattn.models.settings import Settings, checked_number
from lnattn.models.sources import WeightSource
from lnattn.weights import AttentionLayer, LayerNorm, is_finite

#: What wrappers put before every name of a model: torch.compile, DataParallel, PEFT, trl; and
#: models of images or sound before those of the language model inside them.
WRAPPERS = (
    *("_orig_mod.", "module.", "base_model.model.", "pretrained_model."),
    *("language_model.", "model.language_model.", "model.text_model."),
)


class Family:
    """A configuration and a source of weights, read as one family of models names them.

    Raises `CheckpointError` where the configuration is of a variant that the folding does not fit.
    """

    #: As in `find_prefix`.
    prefixes: ClassVar[tuple[str, ...]] = ("",)
    anchor: ClassVar[str]
    #: The token embeddings, and how the names of what else the first layer needs begin.
    tokens: str
    first_layer: tuple[str, ...]
    #: The module that gives out what block 0 adds to the residual; '' where values are not read.
    output: str = ""
    #: Which part of a model with an encoder and a decoder it is that is read.
    part: ClassVar[str] = "encoder"
    #: Other names of the token embeddings, without any prefix: always, and where they are tied.
    aliases: tuple[str, ...] = ()
    twins: tuple[str, ...] = ("lm_head.weight",)
    #: Where the configuration says (d_model, heads, layers); alternatives in order. Of two names
    #: for one size transformers takes the general one, whatever stands first.
    sizes: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("hidden_size",),
        ("num_attention_heads",),
        ("num_hidden_layers",),
    )

    prefix: str
    wrapper: str
    d_model: int
    n_heads: int
    n_layers: int

    def __init__(self, config: Mapping[str, Any], weights: WeightSource) -> None:
        self.config = config
        self.weights = weights
        self.settings = Settings(config, weights.label)
        self.check_variant()
        self.find_sizes()

    def find_prefix(self, prefixes: tuple[str, ...], *anchors: str) -> str:
        """What the names of this checkpoint begin with: some are saved with a head, some without.

        anchors: tensors of which every checkpoint of the family has one. Sets `wrapper`, the part
        that torch.compile, DataParallel or PEFT put before all names.
        """
        label = self.weights.label
        names = list(self.weights.names())
        refuse_adapters(label, names)
        strangers = []
        for prefix, anchor in product(prefixes, anchors):
            for name in names:
                if not name.endswith(prefix + anchor):
                    continue
                before = name.removesuffix(prefix + anchor)
                if _is_wrapper(before):
                    self.wrapper = before
                    return before + prefix
                strangers.append(before)
        kind = self.config.get("model_type")
        if outer := next((before for before in strangers if before.endswith(".")), None):
            raise CheckpointError(
                f"{label} holds the tensors of a {kind}, but under names that begin with "
                f"{one_line(outer, 80)!r}; save the inner model by itself."
            )
        raise CheckpointError(
            f"{label} holds no tensor {anchors[0]!r}, so it is no {kind} checkpoint as its "
            "config.json says; give a folder whose weights and configuration belong together."
        )

    def find_sizes(self) -> None:
        """Set the prefix and the sizes."""
        self.prefix = self.find_prefix(self.prefixes, self.anchor)
        width, heads, layers = self.sizes
        self.d_model = self.setting(*width)
        self.n_heads = self.setting(*heads)
        self.n_layers = self.setting(*layers)
        if self.d_model % self.n_heads:
            raise CheckpointError(
                f"{self.weights.label}: config.json asks for {self.n_heads} heads of a width of "
                f"{self.d_model}, which does not divide evenly; mend it."
            )
        self.d_head = self.d_model // self.n_heads

    # ---- what a subclass provides ----------------------------------------------------------
    def check_variant(self) -> None:
        """Raise `CheckpointError` for a variant of the family that is not supported."""

    def embeddings(self) -> Any:
        """What the first layer reads: `Embeddings`, or `TokenEmbeddings`."""
        raise NotImplementedError

    def attention(self, layer: int) -> Any:
        """An `AttentionLayer` or `RelativeAttention`, with the norm that feeds it."""
        raise NotImplementedError

    def notes(self) -> dict[str, Any]:
        """What provenance says of a family beyond its weights."""
        return {}

    def first_layer_tensors(self) -> set[str]:
        """The full names of the tensors that the embeddings and block 0 are read from."""
        beginnings = tuple(self.prefix + part for part in self.first_layer)
        names = {name for name in self.weights.names() if name.startswith(beginnings)}
        table = self.token_table(self.tokens)
        return names if table is None else {*names, table}

    # ---- help for subclasses ---------------------------------------------------------------
    def refuse(self, why: str) -> None:
        """Raise the error for a variant that is not supported."""
        raise CheckpointError(f"{self.weights.label} cannot be used: {why}")

    def setting(self, *names: str) -> int:
        """A positive whole number from the configuration, under the first name that is there."""
        return self.settings.whole(*names)

    def number(self, name: str, default: float) -> float:
        """A finite number ≥ 0 from the configuration, such as the ε of a norm."""
        return self.settings.number(name, default)

    def flag(self, name: str, default: bool) -> bool:
        """True or false from the configuration."""
        return self.settings.flag(name, default)

    def token_table(self, name: str) -> str | None:
        """The full name under which the token embeddings are stored; None where nowhere.

        Tied weights are one tensor with two names, of which a file may keep the other: safetensors'
        `save_model` keeps the first in the alphabet, which is the head's.
        """
        same = [self.prefix + name, *(self.wrapper + alias for alias in self.aliases)]
        owner = same[0].rpartition(".")[0]
        if beside(self.weights.names(), owner):
            self.check_there(same[0])
        if self.is_tied():
            same += [self.wrapper + twin for twin in self.twins]
        return next((full for full in same if full in self.weights), None)

    def token_rows(self, rows: int) -> Tensor:
        """The token embeddings [rows d_model], under whichever of their names they are stored."""
        name = self.token_table(self.tokens) or self.prefix + self.tokens
        return self.read_full(name, rows, self.d_model)

    def is_tied(self) -> bool:
        """Whether the unembedding is the token embeddings' own table."""
        return self.flag("tie_word_embeddings", True)

    def has(self, name: str) -> bool:
        """Whether the checkpoint holds a tensor of this name, the prefix left out."""
        return self.prefix + name in self.weights

    def read(self, name: str, *shape: int, widen: bool = True) -> Tensor:
        """One tensor by its name without prefix, checked; in float32 or wider, or as stored."""
        return self.read_full(self.prefix + name, *shape, widen=widen)

    def read_full(self, full: str, *shape: int, widen: bool = True) -> Tensor:
        """As `read`, of a tensor by its whole name."""
        wrong = ""
        self.check_there(full)
        tensor = self.weights.read(full)
        if not tensor.is_floating_point() or tensor.element_size() < 2:
            wrong = f"is stored as {tensor.dtype}, quantised; use the unquantised weights"
        elif tuple(tensor.shape) != shape:
            wrong = (
                f"has shape {list(tensor.shape)} where config.json asks for {list(shape)}; weights "
                "and configuration do not belong together"
            )
        elif not is_finite(tensor):
            mend = "check its training" if self.in_memory else "fetch it again"
            wrong = f"holds NaN or infinite values; the checkpoint is damaged, {mend}"
        if wrong:
            raise CheckpointError(f"{self.weights.label}: {full!r} {wrong}.")
        self._check_plain(full)
        is_projection = tensor.ndim == 2 and any(map(str.isdecimal, full.split(".")))  # of a block
        if is_projection and (why := reason_against_part(self.config, full.rpartition(".")[0])):
            self.refuse(why)
        return tensor.float() if widen and tensor.element_size() < 4 else tensor

    @property
    def in_memory(self) -> bool:
        """Whether the weights are those of a module, of which nothing can be fetched again."""
        return bool(getattr(self.weights, "modules", None))

    def module_at(self, full: str) -> Any:
        """The module of this name, of a model in memory; None where there is none."""
        return getattr(self.weights, "modules", {}).get(full)

    def told(self, name: str, attributes: tuple[str, ...], otherwise: Any) -> Any:
        """What a module in memory has itself, under the first of some names; else `otherwise`.

        What a model in memory is goes before what its configuration says.
        """
        module = self.module_at(self.prefix + name)
        return next((getattr(module, a) for a in attributes if hasattr(module, a)), otherwise)

    def scale_told(self, attention: str, scale: float) -> float:
        """What scores are divided by: of a module in memory its own; `scale` of all others.

        Raises `CheckpointError` where that module deals the width to another number of heads.
        """
        heads = self.told(attention, ("num_heads", "num_attention_heads"), self.n_heads)
        if heads != self.n_heads:
            raise CheckpointError(
                f"{self.weights.label}: {self.prefix}{attention} has {heads} heads, but its "
                f"configuration says {self.n_heads}; make the two agree."
            )
        factor = self.told(attention, ("scaling",), None)
        if factor is None:
            return scale
        what = f"the scale of the scores of {attention}"
        written = 1.0 / checked_number(factor, what, self.weights.label, above=True)
        return scale if math.isclose(written, scale, rel_tol=1e-9) else written

    def check_there(self, full: str) -> None:
        """Raise `CheckpointError` where there is no tensor of this name."""
        if full not in self.weights:
            raise CheckpointError(f"{self.weights.label} {self._lack_of(full)}.")

    def _lack_of(self, full: str) -> str:
        """Why a tensor is not there, and what to do."""
        owner = full.rpartition(".")[0]
        if changed := beside(self.weights.names(), owner):
            return (
                f"lacks the tensor {full!r}: in its place stands {one_line(changed, 80)!r}, of "
                "which it is computed when the model runs; make it a plain weight first "
                "(remove_parametrizations, remove_weight_norm, prune.remove), unquantised"
            )
        if self.in_memory:
            kind = self.config.get("model_type")
            return (
                f"lacks the tensor {full!r}, which every {kind} of this configuration has; give "
                "the model with the parts that transformers gives it"
            )
        return (
            f"lacks the tensor {full!r}; it is incomplete, fetch it again (or was made without it, "
            "by another library: it is then no model of transformers)"
        )

    def _check_plain(self, full: str) -> None:
        """Raise `CheckpointError` where what a tensor belongs to is more than that tensor."""
        owner, _, part = full.rpartition(".")
        label = self.weights.label
        if part not in PLAIN:  # a tensor of a module that has others, such as a sink's logit
            return
        if other := beside(self.weights.names(), owner):
            raise CheckpointError(
                f"{label}: beside {full!r} stands {one_line(other, 80)!r}, so the one alone is not "
                "what the model computes with; merge them, or make it a plain weight, first."
            )
        module = self.module_at(owner)
        if module is not None:
            check_module(label, owner, module)

    def layer_norm(self, name: str, eps: float) -> LayerNorm:
        """γ and β of a LayerNorm, also under the names that checkpoints from TensorFlow use."""
        eps = checked_number(self.told(name, ("eps",), eps), f"the ε of {name}", self.weights.label)
        gain, shift = ("gamma", "beta") if self.has(f"{name}.gamma") else ("weight", "bias")
        return LayerNorm(
            self.read(f"{name}.{gain}", self.d_model),
            self.read(f"{name}.{shift}", self.d_model),
            float(eps),
        )

    def linear(self, name: str, *, bias: bool = True) -> tuple[Tensor, Tensor]:
        """A torch.nn.Linear of width d_model, turned so that it is used as x @ W, and its bias.

        Where the family has no bias it is zeros.
        """
        d = self.d_model
        weight = self.read(f"{name}.weight", d, d).T
        return weight, self.read(f"{name}.bias", d) if bias else weight.new_zeros(d)

    def assemble(
        self, layer: int, ln: LayerNorm, *projections: tuple[Tensor, Tensor], **settings: Any
    ) -> AttentionLayer:
        """An `AttentionLayer` from the (weight, bias) of queries, keys, values and output.

        layer: its index; the projections, all of width d_model, are used as x @ W; settings: its
        other fields. Of the output a head owns rows, of the others columns.
        """
        (W_Q, b_Q), (W_K, b_K), (W_V, b_V), (W_O, b_O) = projections
        return AttentionLayer(
            ln=ln,
            W_Q=self._by_head(W_Q),
            W_K=self._by_head(W_K),
            W_V=self._by_head(W_V),
            W_O=W_O.reshape(self.n_heads, self.d_head, self.d_model).contiguous(),
            b_Q=b_Q.reshape(self.n_heads, self.d_head).contiguous(),
            b_K=b_K.reshape(self.n_heads, self.d_head).contiguous(),
            b_V=b_V.reshape(self.n_heads, self.d_head).contiguous(),
            b_O=b_O,
            index=layer,
            **settings,
        )

    def _by_head(self, W: Tensor) -> Tensor:
        """W [d_model d_model], whose columns belong to heads, as [head d_model d_head]."""
        columns = W.reshape(self.d_model, self.n_heads, self.d_head)
        return columns.transpose(0, 1).contiguous()


def _is_wrapper(before: str) -> bool:
    """Whether what stands before a name is made of known wrappers only."""
    while wrapper := next((w for w in WRAPPERS if before.startswith(w)), None):
        before = before.removeprefix(wrapper)
    return not before
