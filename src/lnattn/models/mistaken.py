"""What somebody has given in place of a model: a folder of another kind, a file, an address."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from lnattn.errors import did_you_mean, one_line
from lnattn.models.adapters import ADAPTER_FILE

#: An address of a model on a hub: its owner and name, and the revision behind them.
_ADDRESS = re.compile(
    r"(?:(?:https?|hf)://)?(?:(?:www\.)?(?:huggingface\.co|hf\.co)/)?(?:models/)?"
    r"([\w.-]+(?:/[\w.-]+)?)(?:/(?:tree|blob|resolve|raw)/([\w.-]+).*)?/?"
)
_IS_ADDRESS = re.compile(r"\w+://|(?:www\.)?(?:huggingface|hf)\.co/")
_MORE = 3


def address_instead(name: str) -> str | None:
    """What to give in place of an address of the web, as a sentence; None for other names.

    >>> address_instead("https://huggingface.co/openai-community/gpt2/tree/main")
    "is an address; give the model's name: 'openai-community/gpt2@main'."
    """
    if not _IS_ADDRESS.match(name):
        return None
    parts = _ADDRESS.fullmatch(name)
    if parts is None or parts[1].partition("/")[0] in ("datasets", "spaces"):
        return "is an address; give a model's name, as owner/model."
    model = parts[1] + (f"@{parts[2]}" if parts[2] else "")
    return f"is an address; give the model's name: {model!r}."


def file_instead(path: Path) -> str:
    """What to give in place of a file, as a sentence."""
    if path.suffix == ".gguf":
        return f"is {_GGUF}"
    return f"is a file; give the folder that it is in, with config.json and weights: {path.parent}."


_GGUF = (
    "a file of llama.cpp (GGUF), which is not read; give the model that it was made from, as "
    "transformers saves it."
)


def folder_instead(folder: Path) -> str | None:
    """What a folder without a config.json is and what to give, as a sentence; None if unknown."""
    if (folder / ADAPTER_FILE).is_file():
        return (
            f"holds an adapter alone{_base_of(folder)}; merge it into its model "
            "(merge_and_unload), save that, and give its folder."
        )
    if (folder / "snapshots").is_dir() and folder.name.startswith("models--"):
        name = folder.name.removeprefix("models--").replace("--", "/")
        return f"is a folder of the hub's cache; give the model's name: {name!r}."
    if inner := _models_in(folder):
        shown = ", ".join(inner[-_MORE:])
        if len(inner) == 1:
            return f"is no model, but the folder {shown} in it is one; give that."
        return f"is no model, but {len(inner)} folders in it are, {shown} among them; give one."
    if any(folder.glob("*.gguf")):
        return f"holds {_GGUF}"
    if (folder / "params.json").is_file():
        return (
            "holds a model in its makers' own format (params.json); convert it, or give the one "
            "that transformers saved (config.json and model.safetensors)."
        )
    return None


def _base_of(folder: Path) -> str:
    """' (of X)' where an adapter's configuration names the model that it is of."""
    base = None
    with suppress(OSError, ValueError, AttributeError, RecursionError):
        base = json.loads((folder / ADAPTER_FILE).read_bytes()).get("base_model_name_or_path")
    return f" (of {one_line(base, 80)})" if base and isinstance(base, str) else ""


def _models_in(folder: Path) -> list[str]:
    """Folders in a folder that have a config.json; checkpoint-500 before checkpoint-1500."""
    with suppress(OSError):
        inner = [path.name for path in folder.iterdir() if (path / "config.json").is_file()]
        return sorted(inner, key=lambda name: (len(name), name))
    return []


def nowhere(name: str, known: Iterable[str]) -> str:
    """'nor is there a folder X in Y', where it was looked for, and which name may be meant."""
    place = ""
    with suppress(OSError):  # where one stands may have been deleted
        place = "" if Path(name).is_absolute() else f" in {Path.cwd()}"
    return f"nor is there a folder {one_line(name, 80)}{place}{did_you_mean(name, known)}"
