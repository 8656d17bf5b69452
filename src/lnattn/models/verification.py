"""How far the formulas are from what a model computes itself, by type and by formula."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import AutoModel

from lnattn.attention.folding import fold
from lnattn.attention.forward import attention_pattern, causal_mask, multi_head_attention, project
from lnattn.attention.layernorm import layer_norm
from lnattn.attention.terms import six_terms
from lnattn.errors import CheckpointError, TokenError, one_line
from lnattn.models.attending import implementation_of
from lnattn.models.checkpoints import make_first_layer, open_checkpoint, read_first_layer
from lnattn.models.family import Family
from lnattn.models.files import read_tokenizer
from lnattn.models.modules import dtype_of, family_of_module, unwrapped
from lnattn.models.one_layer import first_layer_module, one_layer_config
from lnattn.rotary.fold import MeanVectors, fold_relative
from lnattn.rotary.terms import distance_terms
from lnattn.rotary.weights import AnyFirstLayer, RelativeFirstLayer

#: What is read where a tokenizer is at hand.
TEXT = (
    'In 1969, two astronauts of Apollo 11 walked on the Moon. "It\'s quiet," one said; the other '
    "didn't answer. Reykjavík, 20,231 kilometres away, was asleep."
)
#: Tokens of a text, random or real, at most.
LENGTH = 48
#: What a module computed: attention [head n n], and what its block adds [n d_model], or None.
Computed = tuple[Tensor, Tensor | None]


def verify(model: Any, tokenizer: Any = None, *, seed: int = 0) -> pd.DataFrame:
    """Largest difference between a model's own first attention and what each formula makes of it.

    model: anything that `first_layer` takes, or a name or folder that `load_first_layer` takes, of
    which the first layer is then run as a model of its own. tokenizer: for the rows on real tokens;
    a model loaded by its name brings its own. seed: of the random tokens.

    Columns: `dtype`, the type that the model ran in; `tokens`, random or real; `formula`;
    `attention`, the largest difference of an attention weight; `output`, that of what the block
    adds to the residual, divided by its largest value (none where positions are rotary or
    relative: values are not read there). The formulas run in float64 for a model in float64,
    else in float32, on exactly the model's weights: beside a model in half precision the
    difference is what that rounds.

    formula: `normed` (LayerNorm, then the weights as they are stored), `folded` (`lnattn.fold`),
    `terms` (the sum of the six terms, or of the four by distance about the mean query and key).
    The type of the model itself is run in full, as it lies on its device (unless its class cannot
    be switched to eager attention); the others are a copy of its first layer alone. Some families
    compute a softmax or angles in float32 whatever the type, which bounds their rows in float64 at
    about 1e-7. Raises as `first_layer`.

    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> config = GPT2Config(n_embd=24, n_head=3, n_layer=2, vocab_size=50, n_positions=20)
    >>> table = verify(GPT2LMHeadModel(config))
    >>> bool((table.attention[table.dtype == "float64"] < 1e-12).all())
    True
    """
    if not isinstance(model, nn.Module):
        model, tokenizer = _of_checkpoint(model, tokenizer, seed)
    inner: Any = unwrapped(model)
    own_dtype = dtype_of(inner)
    rows = []
    with evaluating(inner) as reports, torch.no_grad():
        family = family_of_module(inner)
        first = _first(family)
        for tokens, ids in _texts(first, tokenizer, seed).items():
            embedded = part_of(inner, family).get_input_embeddings()(ids.to(inner.device))
            for dtype in dict.fromkeys([own_dtype, torch.float32, torch.float64]):
                if dtype == own_dtype and reports:
                    computed = _run(inner, family, input_ids=ids[None].to(inner.device))
                else:
                    copy = _one_layer(inner, dtype)
                    given = embedded[None].to("cpu", dtype)
                    computed = _run(copy, family_of_module(copy), inputs_embeds=given)
                exact = first.to(torch.float64) if dtype == torch.float64 else first
                for formula, ours in _formulas(exact, ids).items():
                    rows.append(
                        {
                            "dtype": str(dtype).removeprefix("torch."),
                            "tokens": tokens,
                            "formula": formula,
                            **_differences(computed, ours),
                        }
                    )
    return pd.DataFrame(rows)


#: Tokens of the vocabulary that a model of one layer knows, beside those of `TEXT`.
SAMPLED = 256


def _of_checkpoint(name: Any, tokenizer: Any, seed: int) -> tuple[nn.Module, Any]:
    """The first layer of a named model as a module, and what gives its ids of `TEXT`."""
    checkpoint = open_checkpoint(name)
    embeddings, _ = read_first_layer(checkpoint.family, 0)  # refuses what is not all that is run
    rows = embeddings.vocab_size
    tokenizer = tokenizer or read_tokenizer(checkpoint.folder, rows or None)
    real: list[int] = []
    if tokenizer is not None:
        real = tokenizer(TEXT, add_special_tokens=False)["input_ids"][:LENGTH]
    if real and max(real) >= rows:
        raise TokenError("the tokenizer has ids that the model has no embeddings for.")
    generator = torch.Generator().manual_seed(seed)
    sampled = torch.randperm(rows, generator=generator)[:SAMPLED].tolist()
    known = list(dict.fromkeys([*sampled, *real]))
    place = {token: row for row, token in enumerate(known)}

    def ids_of(_text: str, **_options: Any) -> dict[str, list[int]]:
        return {"input_ids": [place[token] for token in real]}

    return first_layer_module(checkpoint, known), ids_of if real else None


def _first(family: Family) -> AnyFirstLayer:
    embeddings, attention = read_first_layer(family, 0)
    return make_first_layer(family, embeddings, attention, tokenizer=None, provenance={})


@contextmanager
def evaluating(model: Any) -> Iterator[bool]:
    """The model without dropout, and with eager attention: True where that could be switched on.

    Other kinds of attention report no weights, or others than they use. Afterwards the model is as
    it was.
    """
    was_training = model.training
    before = implementation_of(model)
    model.eval()
    if before != "eager":
        model.set_attn_implementation("eager")
    try:
        yield implementation_of(model) == "eager"
    finally:
        model.train(was_training)
        if before != "eager":
            model.set_attn_implementation(before)


def _texts(first: AnyFirstLayer, tokenizer: Any, seed: int) -> dict[str, Int[Tensor, "n"]]:
    """Token ids to compare on: random ones, and, with a tokenizer, those of `TEXT`."""
    context = (
        first.context if isinstance(first, RelativeFirstLayer) else first.embeddings.n_positions
    )
    length = min(LENGTH, context or LENGTH)
    generator = torch.Generator().manual_seed(seed)
    size = first.embeddings.vocab_size
    if size < 3:
        raise TokenError(
            "a vocabulary of fewer than 3 tokens is too small to compare attention on."
        )
    # The first few ids are padding in many families, which would shift positions.
    lowest = min(5, size - 2)
    texts = {"random": torch.randint(lowest, size, (length,), generator=generator)}
    if tokenizer is not None:
        ids = torch.tensor(tokenizer(TEXT, add_special_tokens=False)["input_ids"][:length])
        if len(ids) == 0 or int(ids.max()) >= size:
            raise TokenError("the tokenizer has ids that the model has no embeddings for.")
        texts["real"] = ids
    return texts


def part_of(model: Any, family: Family) -> Any:
    """The stack of blocks that is read, of a model that may have an encoder and a decoder."""
    if family.part == "decoder":
        return model.get_decoder()
    return model.get_encoder() if model.config.is_encoder_decoder else model


def _run(model: nn.Module, family: Family, **given: Tensor) -> Computed:
    """What the first attention of a model computes of one text."""
    caught: list[Tensor] = []
    watch: Any = nullcontext()
    if family.output:
        module = model.get_submodule(family.prefix + family.output)
        watch = module.register_forward_hook(lambda _module, _given, made: caught.append(made))
    with watch:
        out = part_of(model, family)(**given, output_attentions=True, use_cache=False)
    attentions = getattr(out, "attentions", None)
    if not attentions or attentions[0] is None:
        raise CheckpointError(
            f"a {type(model).__name__} does not report its attention weights, so nothing can be "
            "compared with them."
        )
    output = caught[0].reshape(-1, caught[0].shape[-1]).cpu() if caught else None
    return attentions[0][0].cpu(), output


def _one_layer(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """The first layer of a model as a model of its own, on the CPU, without token embeddings."""
    inner: Any = model
    try:
        config = one_layer_config(inner.config, rows=3)  # tokens are handed over embedded
        # The fused kernels of experts know no double precision.
        eager = {"attn_implementation": "eager", "experts_implementation": "eager"}
        copy = AutoModel.from_config(config, **eager)
    except Exception as error:
        raise CheckpointError(
            f"no copy of the first layer of a {type(model).__name__} can be made "
            f"({one_line(error)})."
        ) from error
    copy.to(dtype)
    weights = inner.base_model.state_dict()
    named = {name.replace("._original_component", ""): weight for name, weight in weights.items()}
    for name, place in copy.state_dict().items():
        if name in named and named[name].shape == place.shape:
            place.copy_(named[name])
    _copy_settings(inner.base_model, copy)
    return copy.eval()


def _copy_settings(model: nn.Module, copy: nn.Module) -> None:
    """What modules are told besides their weights goes into the copy: ε, scale, frequencies."""
    modules = {
        name.replace("._original_component", ""): module for name, module in model.named_modules()
    }
    for name, module in copy.named_modules():
        original = modules.get(name)
        if original is None:
            continue
        for setting in ("eps", "variance_epsilon", "scaling", "attention_scaling"):
            if isinstance(getattr(original, setting, None), float) and hasattr(module, setting):
                setattr(module, setting, getattr(original, setting))
        for buffer, place in module.named_buffers(recurse=False):
            there = getattr(original, buffer, None)
            if isinstance(there, Tensor) and there.shape == place.shape:
                place.copy_(there)


def _formulas(first: AnyFirstLayer, ids: Int[Tensor, "n"]) -> Mapping[str, Computed]:
    """Attention and output of one text, by each formula."""
    if isinstance(first, RelativeFirstLayer):
        folded = fold_relative(first.attention)
        zeros = MeanVectors(torch.zeros_like(folded.b_Q), torch.zeros_like(folded.b_K))
        whole = distance_terms(folded, first.embeddings, ids, constants=zeros)
        terms = distance_terms(folded, first.embeddings, ids)
        return {"folded": (whole.attention(), None), "terms": (terms.attention(), None)}
    layer = first.attention
    folded_layer = fold(first.attention)
    x = first.embeddings.tokens()[ids] + first.embeddings.W_P[: len(ids)]
    normed = layer_norm(x, layer.ln)
    mask = causal_mask(len(ids), len(ids), layer.window) if layer.causal else None
    queries = project(normed, layer.W_Q, layer.b_Q)
    keys = project(normed, layer.W_K, layer.b_K)
    pattern = attention_pattern(queries, keys, layer.scale, mask)
    terms_pattern = six_terms(folded_layer, first.embeddings, ids).attention()
    return {
        "normed": (pattern, multi_head_attention(normed, layer)[0]),
        "folded": (folded_layer.attention(x), folded_layer.output(x)),
        "terms": (terms_pattern, None),
    }


def _differences(theirs: Computed, ours: Computed) -> dict[str, float | None]:
    """The largest differences of attention and, relative to its largest value, of the output."""
    attention = (theirs[0].double() - ours[0].double()).abs().max()
    output: float | None = None
    if theirs[1] is not None and ours[1] is not None:
        their_output: Float[Tensor, "n d_model"] = theirs[1].double()
        output = float((their_output - ours[1].double()).abs().max() / their_output.abs().max())
    return {"attention": float(attention), "output": output}
