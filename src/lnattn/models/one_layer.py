"""The first layer of a model as a Hugging Face model of its own, to compare the formulas with.

Only the tensors that `load_first_layer` reads are read, so that of a sharded checkpoint one or two
shards suffice, and a model of billions of parameters fits. What the first attention does not need
(the FFN, other layers, most rows of the vocabulary) is left out or made small.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig
from transformers.utils import logging

from lnattn.errors import CheckpointError, LnattnError, TokenError, one_line
from lnattn.models.checkpoints import Checkpoint
from lnattn.models.family import Family
from lnattn.models.relative_families import RelativeFamily

#: How families call their number of layers, and lists with an entry for each layer.
_LAYERS = (
    *("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers"),
    *("encoder_layers", "decoder_layers"),
)
_BY_LAYER = ("layer_types", "mlp_layer_types", "no_rope_layers", "attention_layers")
#: Widths of the FFN and numbers of its experts, which attention does not see: made this small.
_FFN = (
    *("intermediate_size", "moe_intermediate_size", "ffn_dim", "n_inner", "d_ff"),
    *("encoder_ffn_dim", "decoder_ffn_dim"),
)
_NARROW = 8
#: Settings that say nothing of the first layer, or how it is to be run.
_DROPPED = ("model_type", "id2label", "label2id", "num_labels", "auto_map", "architectures")
_KERNELS = ("attn_implementation", "_attn_implementation", "dtype", "torch_dtype")


def one_layer_config(config: PreTrainedConfig, rows: int) -> PreTrainedConfig:
    """The same configuration with one layer, a narrow FFN, and a vocabulary of so many tokens.

    Special tokens that lie beyond are unset, but for padding, by which RoBERTa finds its first
    position: there are at least as many rows.
    """
    settings = config.to_dict()
    settings |= {name: 1 for name in _LAYERS if name in settings}
    for name in _BY_LAYER:
        if isinstance(settings.get(name), list):
            settings[name] = settings[name][:1]
    if "attention_types" in settings:  # GPT-Neo
        settings["attention_types"] = [[settings["attention_layers"], 1]]
    settings |= {name: _NARROW for name in _FFN if settings.get(name)}
    settings["vocab_size"] = max(rows, 1 + (settings.get("pad_token_id") or 0))
    settings |= dict.fromkeys(("bos_token_id", "eos_token_id"))
    return type(config).from_dict(settings)


def first_layer_module(checkpoint: Checkpoint, ids: Sequence[int]) -> nn.Module:
    """A model of one layer with the checkpoint's weights, in the type that they are stored in.

    ids: the tokens that it knows; its token 0 is the first of them, and so on. Raises
    `CheckpointError` where transformers cannot make it, or the checkpoint has no token embeddings.
    """
    family = checkpoint.family
    table = family.token_table(family.tokens)
    if table is None:
        raise TokenError(
            f"{checkpoint.name} has no token embeddings, so its first layer cannot be run."
        )
    tensors = dict(_tensors(family, table))
    rows = family.weights.read(table)
    config = one_layer_config(_config_of(family), len(ids))
    chosen = rows.new_zeros(config.vocab_size, rows.shape[1])
    chosen[: len(ids)] = rows[list(ids)]
    tensors[table.removeprefix(family.wrapper)] = chosen
    with tempfile.TemporaryDirectory(prefix="lnattn-") as folder, _quiet():
        save_file(tensors, Path(folder) / "model.safetensors", {"format": "pt"})
        try:
            config.save_pretrained(folder)
            model = AutoModel.from_pretrained(
                folder,
                config=config,
                dtype=rows.dtype,
                attn_implementation="eager",
                use_safetensors=True,
                local_files_only=True,
            )
        except Exception as error:  # transformers raises what it likes
            raise CheckpointError(
                f"{checkpoint.name}: transformers cannot run its first layer "
                f"({type(error).__name__}: {one_line(error)})."
            ) from error
    return model.eval()


def _tensors(family: Family, table: str) -> Iterator[tuple[str, Tensor]]:
    """What the first layer reads, but for the token embeddings, without any wrapper's name."""
    for name in sorted(family.first_layer_tensors() - {table}):
        yield name.removeprefix(family.wrapper), family.weights.read(name).contiguous()


def _config_of(family: Family) -> PreTrainedConfig:
    if isinstance(family, RelativeFamily):
        return family.full_config
    dropped = {*_DROPPED, *_KERNELS}
    given: Mapping[str, Any] = {k: v for k, v in family.config.items() if k not in dropped}
    try:
        return AutoConfig.for_model(str(family.config["model_type"]), **given)
    except LnattnError:
        raise
    except Exception as error:
        raise CheckpointError(
            f"{family.weights.label}: transformers cannot read its config.json ({one_line(error)})."
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """No words on the layers that are left out, and no bars."""
    before = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()
