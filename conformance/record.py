"""What libraries said: `python -m conformance.record NAME VERSION ADAPTER` adds a column.

The page *Who computes the first layer right?* runs what is installed where it is built and reads
the rest in verdicts.json. `--exact` writes there how far transformers' eager attention is from what
is right where nothing in its code is rounded to single precision.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import transformers as hf
from safetensors.numpy import load_file
from transformers import modeling_rope_utils

from conformance import oracle
from conformance.broken import broken
from conformance.check import TOLERANCE, judge

HERE = Path(__file__).parent
CASES = HERE / "cases"
VERDICTS = HERE / "verdicts.json"


def adapter(name: str) -> Callable[..., Any]:
    """The function of one of the adapters beside this file."""
    folder = str(HERE / "adapters")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    sys.modules.pop(name, None)
    sys.modules.pop("transformers_eager", None)  # two others change a setting of it
    return importlib.import_module(name).attention


def verdicts(attention: Callable[..., Any]) -> dict[str, list[Any]]:
    """By case: the verdict, the largest difference (None where there is none), what explains it."""
    rows = {}
    for folder in sorted(CASES.iterdir()):
        name, largest, verdict, said = judge(attention, folder)
        if verdict == "wrong" and not np.isnan(largest):
            said = explanation(attention, folder) or said
        rows[name] = [verdict, None if np.isnan(largest) else float(f"{largest:.1e}"), said]
    return rows


@contextmanager
def nothing_rounded(config: Any) -> Iterator[None]:
    """transformers' code of a model, where it asks for single precision, given double."""
    kind = hf.MODEL_MAPPING[type(config)]
    modeling = importlib.import_module(kind.__module__)
    lifted = SimpleNamespace(**{**vars(torch), "float32": torch.float64, "float": torch.float64})
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    with (
        patch.object(modeling, "torch", lifted),
        patch.object(modeling_rope_utils, "torch", lifted),
        patch.object(torch.Tensor, "float", torch.Tensor.double),
    ):
        try:
            yield
        finally:
            torch.set_default_dtype(before)


def explanation(attention: Callable[..., Any], folder: Path) -> str:
    """Which ingredient left out or mistaken gives what a library computes; '' where none does."""
    sequences = json.loads((folder / "case.json").read_text(encoding="utf-8"))["sequences"]
    found = [np.asarray(attention(folder, ids), dtype=np.float64) for ids in sequences]
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    layer = oracle.read(config, load_file(folder / "model.safetensors"), exactly=False)
    for name, mistaken in broken(layer):
        pairs = zip(sequences, found, strict=True)
        away = [np.abs(oracle.expected(mistaken, ids)["attention"] - a).max() for ids, a in pairs]
        if max(away) < TOLERANCE:
            return name
    return ""


def exact_difference(folder: Path) -> float:
    """The largest difference of transformers' eager attention in double precision throughout."""
    attention = adapter("transformers_eager")
    right = load_file(folder / "expected.safetensors")
    sequences = json.loads((folder / "case.json").read_text(encoding="utf-8"))["sequences"]
    with nothing_rounded(hf.AutoConfig.from_pretrained(folder)):
        found = [attention(folder, ids).numpy() for ids in sequences]
    return max(float(np.abs(a - right[f"{text}.attention"]).max()) for text, a in enumerate(found))


def main() -> None:
    """Run an adapter on all cases, or the exact comparison, and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("column", nargs="*", metavar="NAME VERSION ADAPTER")
    parser.add_argument("--exact", action="store_true")
    arguments = parser.parse_args()
    kept = json.loads(VERDICTS.read_text(encoding="utf-8")) if VERDICTS.is_file() else {}
    if arguments.exact:
        found = {folder.name: exact_difference(folder) for folder in sorted(CASES.iterdir())}
        largest = float(f"{max(found.values()):.1e}")
        kept["exact"] = {"version": hf.__version__, "largest": largest, "cases": len(found)}
    else:
        name, version, module = arguments.column
        kept.setdefault("columns", {})[name] = {
            "version": version,
            "adapter": module,
            "verdicts": verdicts(adapter(module)),
        }
    VERDICTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
