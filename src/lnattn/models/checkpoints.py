"""Finding a checkpoint and reading from it only what the analysis of its attention needs.

A name is a local folder, `"book-gpt2"` or `"book-llama"` (the models that ship with the package),
`"minilm"` and `"whisper-tiny.en"` (those of the optional extras minilm and whisper), or a model on
the Hugging Face hub.
Weights are read from safetensors files only, one tensor at a time; nothing in a checkpoint is ever
executed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, overload

import torch

from lnattn.errors import CheckpointError, HubError, one_line
from lnattn.models import hub
from lnattn.models.architectures import family_of
from lnattn.models.choice import BOOK_LLAMA, FALLBACK, MINILM, Choice
from lnattn.models.ctranslate2 import read_whisper_decoder
from lnattn.models.family import Family
from lnattn.models.files import open_weights, read_config, read_tokenizer
from lnattn.models.mistaken import address_instead, file_instead, folder_instead, nowhere
from lnattn.models.packages import ALL_MINILM, WHISPER_TINY
from lnattn.models.relative_families import RelativeFamily
from lnattn.models.sources import InMemory
from lnattn.paths import data_folder
from lnattn.rotary.weights import AnyFirstLayer, RelativeFirstLayer
from lnattn.storage import read_json, sha256_of_file
from lnattn.weights import AttentionLayer, FirstLayer, dtypes_of

#: The model that ships with the repository, and its twin with rotary positions, which may.
BOOK_MODELS = (FALLBACK, BOOK_LLAMA)
#: The decoder of Whisper tiny.en, from a Python package.
WHISPER = "whisper-tiny.en"
_NAMES = (*BOOK_MODELS, MINILM, WHISPER, *hub.PINNED)
_KNOWN = f"a folder, owner/model, or one of {', '.join(_NAMES)}"


#: Models whose positions are learned, and such as turn or punish by distance, for who checks types.
_Learned: TypeAlias = Literal[
    "book-gpt2",
    "minilm",
    "whisper-tiny.en",
    "gpt2",
    "gpt2-medium",
    "gpt2-large",
    "gpt2-xl",
    "distilgpt2",
    "gpt-neo-125m",
    "opt-125m",
    "bert-base-uncased",
    "roberta-base",
    "all-MiniLM-L6-v2",
]
_Relative: TypeAlias = Literal["book-llama", "smollm2-135m", "pythia-160m"]


@overload
def load_first_layer(name_or_path: _Learned, layer: int = 0) -> FirstLayer: ...
@overload
def load_first_layer(name_or_path: _Relative, layer: int = 0) -> RelativeFirstLayer: ...
@overload  # Any: it may be a `RelativeFirstLayer`, of which a checker could not know
def load_first_layer(name_or_path: str | Path | Choice, layer: int = 0) -> FirstLayer | Any: ...
def load_first_layer(name_or_path: str | Path | Choice, layer: int = 0) -> AnyFirstLayer:
    """Load the embeddings and one attention block, with its LayerNorm, of a model.

    name_or_path: what `default_model()` chose (the reason is kept in the provenance);
    `"book-gpt2"`; `"book-llama"`; `"minilm"`; `"whisper-tiny.en"`; a local folder with config.json
    and safetensors weights; or a hub model: a short name of `lnattn.models.hub.PINNED` such as
    `"gpt2"`, `"owner/model"` or `"owner/model@revision"`. A folder without token embeddings (a
    partial checkpoint) loads too: `is_partial` is then true.
    layer: index of the block, counted from 0; the six terms are defined for block 0 alone.

    `lnattn models` lists the families. Who checks types is told the kind of a model that is named
    as above; any other passes for a `FirstLayer`, until `isinstance(model, lnattn.FirstLayer)` asks
    it. A model with rotary or relative positions gives a `RelativeFirstLayer`, of layer 0 only.
    Weights come in float32, or in a wider dtype of their own.
    Raises `CheckpointError`, in one sentence, for whatever is wrong
    with the checkpoint, and its subclass `HubError` where the hub cannot be reached and nothing is
    cached.

    >>> model = load_first_layer("book-gpt2")
    >>> model.name, model.attention.n_heads, model.attention.d_model
    ('book-gpt2', 8, 256)
    """
    why = {"why": name_or_path.why} if isinstance(name_or_path, Choice) else {}
    checkpoint = open_checkpoint(name_or_path, whole=layer != 0)
    family = checkpoint.family
    embeddings, attention = read_first_layer(family, layer)
    rows = embeddings.vocab_size or family.config.get("vocab_size")
    return make_first_layer(
        family,
        embeddings,
        attention,
        tokenizer=read_tokenizer(checkpoint.folder, rows if isinstance(rows, int) else None),
        provenance={**checkpoint.provenance(), **family.notes(), **why},
    )


def make_first_layer(
    family: Family, embeddings: Any, attention: Any, *, provenance: dict, tokenizer: Any
) -> AnyFirstLayer:
    """Put embeddings and block together as a first layer of the family's kind."""
    if torch.float64 in dtypes_of(attention) | dtypes_of(embeddings):  # one wide tensor widens all
        embeddings = embeddings.to(torch.float64)
        attention = attention.to(torch.float64)
    if isinstance(family, RelativeFamily):
        return RelativeFirstLayer(
            embeddings,
            attention,
            tokenizer=tokenizer,
            provenance=provenance,
            context=family.context,
        )
    return FirstLayer(embeddings, attention, tokenizer=tokenizer, provenance=provenance)


def load_attention_layers(name_or_path: str | Path | Choice) -> list[AttentionLayer]:
    """Load all attention blocks of a model, first to last, without its embeddings.

    name_or_path: as for `load_first_layer`, partial checkpoints included. Raises the same errors,
    and `CheckpointError` for rotary or relative positions, of which only the first block is read.

    >>> len(load_attention_layers("book-gpt2"))
    2
    """
    family = open_checkpoint(name_or_path, whole=True).family
    if isinstance(family, RelativeFamily):
        family.refuse(
            "its positions are rotary or relative, so only its first block is read, by "
            "load_first_layer."
        )
    return [family.attention(layer) for layer in range(family.n_layers)]


def read_first_layer(family: Family, layer: int) -> tuple[Any, Any]:
    """The embeddings and one attention block of an opened model.

    Raises `CheckpointError` for a layer that the model does not have.
    """
    if not isinstance(layer, int) or isinstance(layer, bool):
        raise CheckpointError(f"layer must be a whole number counted from 0, not {layer!r}.")
    if not 0 <= layer < family.n_layers:
        raise CheckpointError(
            f"{family.weights.label} has {family.n_layers} layers, counted from 0; "
            f"there is no layer {layer}."
        )
    attention = family.attention(layer)
    return family.embeddings(), attention


@dataclass(frozen=True)
class Checkpoint:
    """An opened checkpoint: where it is from, and how to read it.

    origin: what provenance says about the place, without any path of this machine.
    """

    name: str
    folder: Path
    family: Family
    origin: Mapping[str, Any]

    def provenance(self) -> dict[str, Any]:
        """Where the weights are from; complete once everything has been read."""
        weights = self.family.weights
        metadata = getattr(weights, "metadata", {})
        about = {key: text for key, text in metadata.items() if key != "format"}
        return {
            "name": self.name,
            **self.origin,
            "model_type": self.family.config["model_type"],
            **weights.record(),
            **({"metadata": about} if about else {}),
        }


def open_checkpoint(name_or_path: str | Path | Choice, whole: bool = False) -> Checkpoint:
    """Find a checkpoint by name and open its weights, reading no tensor yet.

    whole: fetch all shards of a hub model, not only those that hold its first layer.

    A model of the hub is fetched if it is not in the cache. A folder with a config.json goes before
    a hub model of the same name; one without is not taken for a model of that name.
    Raises as `load_first_layer`.
    """
    given = name_or_path.name if isinstance(name_or_path, Choice) else name_or_path
    if not isinstance(given, str | Path):
        kind = type(given).__name__
        raise CheckpointError(f"a model is named by a str or a Path, not a {kind}; give {_KNOWN}.")
    name = str(given)
    if not name.strip():
        raise CheckpointError(f"an empty name is no model; give {_KNOWN}.")
    if name in BOOK_MODELS:
        return _open_book_model(name)
    if name == MINILM:
        return _open_folder(ALL_MINILM.folder(), MINILM, ALL_MINILM.source)
    if name == WHISPER:
        return _open_whisper()
    folder = _place(given)
    if not folder.exists() and (instead := address_instead(name)):
        raise CheckpointError(f"{one_line(name, 200)} {instead}")
    pin = hub.pin_of(name)
    is_checkpoint = isinstance(given, Path) or (folder / "config.json").is_file()
    is_file = folder.is_file() and name not in hub.PINNED
    if is_checkpoint or is_file or pin is None:
        return _open_folder(folder)
    # `gpt2` may also be where somebody keeps results; a path is as likely meant as owner/model.
    if folder.is_dir() and name not in hub.PINNED:
        instead = folder_instead(folder) or (
            "is a folder here without a config.json, so it is no checkpoint; add that, or write "
            f"{name}@main if the model of the hub is meant."
        )
        raise CheckpointError(f"{name} {instead}")
    snapshot = _downloaded(pin, name, whole)
    weights = open_weights(snapshot, pin.repo)
    family = family_of(read_config(snapshot / "config.json"), weights)
    pinned = pin in hub.PINNED.values()
    origin = {"source": f"hub model {pin.repo}", "revision": snapshot.name, "pinned": pinned}
    return Checkpoint(name=name, folder=snapshot, family=family, origin=origin)


def _downloaded(pin: hub.Pin, name: str, whole: bool) -> Path:
    """The snapshot of a hub model; an error also says where a folder of that name was looked for.

    As it is a path's form, `data/book-llama` may be meant for a folder.
    """
    try:
        return hub.download(pin, whole)
    except HubError as error:
        if pin in hub.PINNED.values():
            raise
        looked = nowhere(name, [*_NAMES, *(pinned.repo for pinned in hub.PINNED.values())])
        end = "" if looked.endswith("?") else "."
        raise HubError(f"{str(error).rstrip('.')}; {looked}{end}") from error


def _place(given: str | Path) -> Path:
    """Where a folder of this name would be; `CheckpointError` for what can be no name of one."""
    try:
        place = Path(given).expanduser()
        place.is_dir()
    except (OSError, RuntimeError, ValueError) as error:  # too long, nobody's home, a NUL
        shown = one_line(ascii(str(given)), 80)
        raise CheckpointError(
            f"{shown} is no name of a model ({one_line(error, 100)}); give {_KNOWN}."
        ) from error
    return place


def _open_folder(folder: Path, name: str | None = None, source: str | None = None) -> Checkpoint:
    if folder.is_file():
        raise CheckpointError(f"{folder} {file_instead(folder)}")
    if not folder.is_dir():
        looked = f"there is no model {one_line(repr(str(folder)))}, {nowhere(str(folder), _NAMES)}"
        raise CheckpointError(looked if looked.endswith("?") else f"{looked}; give {_KNOWN}.")
    if not (folder / "config.json").exists() and (instead := folder_instead(folder)):
        raise CheckpointError(f"{folder} {instead}")
    name = name or Path(os.path.realpath(folder)).name
    config = read_config(folder / "config.json")
    family = family_of(config, open_weights(folder, name))
    # The folder's own name only: a path tells about a machine, not about the weights.
    origin: dict[str, Any] = {"source": source or f"local folder {name}", "revision": None}
    return Checkpoint(name=name, folder=folder, family=family, origin=origin)


def _open_whisper() -> Checkpoint:
    """The decoder of the installed Whisper, under the names that it has on the hub."""
    folder = WHISPER_TINY.folder()
    config, tensors = read_whisper_decoder(folder / "model.bin")
    family = family_of(config, InMemory(WHISPER, tensors))
    origin = {"source": WHISPER_TINY.source, "revision": None}
    return Checkpoint(name=WHISPER, folder=folder, family=family, origin=origin)


def _open_book_model(name: str) -> Checkpoint:
    """An embedded model, after a check that it is the one its training record describes."""
    folder = data_folder() / name
    if not folder.is_dir():
        raise CheckpointError(
            f"the embedded model {name} is not at {folder}; install the package anew, or set "
            "LNATTN_DATA to the data folder of its repository."
        )
    record = folder / "training.json"
    path = folder / "model.safetensors"
    both = record.is_file() and path.is_file()
    if both and read_json(record).get("weights_sha256") != sha256_of_file(path):
        raise CheckpointError(
            f"{path} is not the file that training.json describes (their SHA-256 differ); "
            "restore both from the repository."
        )
    return _open_folder(folder, name, "embedded in the repository")
