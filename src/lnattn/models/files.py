"""The files of a checkpoint's folder: weights, configuration and tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from lnattn.errors import CheckpointError, CorpusError, one_line
from lnattn.json_files import read_json
from lnattn.models.adapters import refuse_adapter_files
from lnattn.models.sources import Readings

#: Where a folder may keep its weights, in order of preference. `attention.safetensors` is a
#: partial checkpoint.
_WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "attention.safetensors",
)
#: Bytes of a file's name, on the file systems in use.
_LONGEST = 255
_TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "vocab.txt", "tokenizer_config.json")


class LocalWeights:
    """The tensors of a folder's safetensors files, and what was read of them.

    label: how messages call the checkpoint; files: a file, or the shards of one; where: what an
    index says of them, tensor -> file name. A shard that is not there is missed when a tensor of it
    is read, not before: the first layer of a large model lies in one of many. metadata: what the
    files say about themselves. Raises `CheckpointError` for a file that is missing, cut short, or
    no safetensors file.
    """

    def __init__(
        self, label: str, files: tuple[Path, ...], where: Mapping[str, str] | None = None
    ) -> None:
        self.label = label
        self.files = files
        self.metadata: dict[str, str] = {}
        self.readings = Readings()
        self._where: dict[str, Any] = {}
        by_name = {path.name: path for path in files}
        absent = {path.name for path in files if where and not path.exists()}
        for name, file in (where or {}).items():
            if file in absent:
                self._where[name] = by_name[file]
        self.files = tuple(path for path in files if path.name not in absent)
        for path in self.files:
            handle = _open(path)
            self._where.update(dict.fromkeys(handle.keys(), handle))
            self.metadata.update(handle.metadata() or {})

    def __contains__(self, name: str) -> bool:
        return name in self._where

    def names(self) -> Iterable[str]:
        """The names of all tensors."""
        return self._where

    def read(self, name: str) -> Tensor:
        """One tensor as stored; the rest of the file stays on disk."""
        handle = self._where[name]
        if isinstance(handle, Path):
            _open(handle)  # says that it is not there
        tensor = handle.get_tensor(name)
        self.readings.note(name, tensor)
        return tensor

    def record(self) -> dict[str, Any]:
        """The files' names, and what `Readings.record` says of what was read of them."""
        return {"files": [path.name for path in self.files], **self.readings.record()}


def _open(path: Path) -> Any:
    if path.exists() and not path.is_file():  # to open a pipe would wait for ever
        raise CheckpointError(f"{path} is no regular file; fetch the checkpoint again.")
    try:
        return safe_open(path, framework="pt")
    except FileNotFoundError as error:
        raise CheckpointError(f"there is no file {path}; fetch the checkpoint again.") from error
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} is no readable safetensors file ({one_line(error)}): it is cut short, damaged "
            "or in another format; fetch it again."
        ) from error


def read_config(path: Path) -> dict[str, Any]:
    """A checkpoint's config.json; `CheckpointError` where it is missing or damaged."""
    return read_json(
        path,
        CheckpointError,
        mend="mend it, or delete it to have it fetched anew",
        absent="without it the layout of the weights is unknown; add it",
    )


def read_index(path: Path) -> dict[str, str]:
    """Which shard holds which tensor: tensor -> file name, all files beside the index.

    Raises `CheckpointError` for an index that is absent, damaged or names files elsewhere.
    """
    again = "fetch it again"
    where = read_json(path, CheckpointError, mend=again, absent=again).get("weight_map")
    if not isinstance(where, dict) or not where:
        raise CheckpointError(f"{path} is no index of shards (no 'weight_map'); {again}.")
    for name in where.values():
        if not isinstance(name, str) or not name.isprintable() or len(name.encode()) > _LONGEST:
            raise CheckpointError(
                f"{path} is no index of shards ({one_line(ascii(name))} is no file); {again}."
            )
        if Path(name).name != name:
            raise CheckpointError(f"{path} points outside its folder; do not use this checkpoint.")
    return where


def shards_of(index: Path) -> tuple[str, ...]:
    """The files that an index of shards names, all beside it."""
    return tuple(sorted(set(read_index(index).values())))


def open_weights(folder: Path, label: str) -> LocalWeights:
    """The weights of a folder, of one file or of shards, without an adapter beside them."""
    refuse_adapter_files(label, folder)
    index = folder / "model.safetensors.index.json"
    files = weight_files(folder)
    sharded = index.is_file() and not (folder / "model.safetensors").is_file()
    return LocalWeights(label, files, read_index(index) if sharded else None)


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files of a folder: the usual one, all shards, or the only one there is.

    Raises `CheckpointError` where there are none, or several of which none is the usual one.
    """
    usual_file = next((folder / name for name in _WEIGHT_FILES if (folder / name).is_file()), None)
    if usual_file is not None and usual_file.suffix == ".json":
        return tuple(folder / name for name in shards_of(usual_file))
    if usual_file is not None:
        return (usual_file,)
    others = sorted(folder.glob("*.safetensors"))
    if len(others) == 1:
        return (others[0],)
    pickles = [path.name for kind in ("*.bin", "*.pt", "*.pth") for path in folder.glob(kind)]
    if others:
        why = f"{len(others)} safetensors files and no index that joins them; add one"
    elif pickles:
        why = (
            f"its weights only as a pickle ({pickles[0]}), which may run code when it is opened; "
            "save it as safetensors with save_pretrained first"
        )
    else:
        why = "no safetensors weights; give a folder with model.safetensors in it"
    raise CheckpointError(f"{folder} holds {why}.")


def read_tokenizer(folder: Path, rows: int | None) -> Any:
    """The folder's tokenizer for a model of `rows` embeddings; None where there is no file of one.

    As `lnattn.models.tokenizer_files.load_tokenizer`, but what is wrong is a `CheckpointError`.
    """
    if not any((folder / name).exists() for name in _TOKENIZER_FILES):
        return None
    from lnattn.models.tokenizer_files import load_tokenizer  # imports transformers, which is slow

    try:
        return load_tokenizer(folder, rows)
    except CorpusError as error:
        raise CheckpointError(str(error)) from error
