"""Makes the cases: `python -m conformance.make` writes them into conformance/cases, byte for byte.

Weights are bytes of a hash of the case's and the tensor's name, times a power of two: exact in
every floating-point type. transformers gives names and shapes; what is right comes from `oracle`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf
from safetensors.numpy import load_file, save_file

from conformance import oracle
from conformance.cases import CASES, SEQUENCES, Case, settings_of

#: Of the files; a reader of another number asks for other files.
FORMAT = 1
FOLDER = Path(__file__).parent / "cases"
_HEADS = {
    "": hf.AutoModel,
    "CausalLM": hf.AutoModelForCausalLM,
    "MaskedLM": hf.AutoModelForMaskedLM,
    "Seq2SeqLM": hf.AutoModelForSeq2SeqLM,
}


def class_of(case: Case) -> Any:
    """transformers' class of the models with a case's head."""
    if case.model_type == "whisper" and case.head == "Seq2SeqLM":
        return hf.AutoModelForSpeechSeq2Seq
    return _HEADS[case.head]


def model_of(case: Case) -> Any:
    """The model that a case describes, with whatever weights."""
    config = hf.AutoConfig.for_model(case.model_type, **settings_of(case))
    # Experts one by one: the fused ones know no double precision.
    kinds = {"attn_implementation": "eager", "experts_implementation": "eager"}
    return class_of(case).from_config(config, **kinds)


def fill(model: torch.nn.Module, seed: str, quiet: bool = False) -> torch.nn.Module:
    """Numbers by the names of parameters: gains about 1, nothing 0 by convention."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            stream = hashlib.shake_256(f"{seed} {name}".encode()).digest(parameter.numel())
            odd = 2 * torch.frombuffer(bytearray(stream), dtype=torch.uint8).double() - 255
            values = (odd / 256).reshape(parameter.shape)  # in −1 … 1, none of them 0
            parameter.copy_(_sized(name, values, quiet))
    return model


def _sized(name: str, values: torch.Tensor, quiet: bool) -> torch.Tensor:
    is_table = any(part in name for part in ("wte", "wpe", "embed", "shared"))
    if values.ndim == 1 and name.endswith("weight"):
        return 1 + values / 2
    if is_table and values.ndim == 2 and quiet:
        return values / 128
    if name.endswith("sinks"):
        return 2 * values
    return values if is_table else values / 2


def write(name: str, folder: Path) -> None:
    """One case: config.json, model.safetensors, case.json, expected.safetensors."""
    case = CASES[name]
    with tempfile.TemporaryDirectory(prefix="conformance-") as place:
        fill(model_of(case), name, case.quiet).save_pretrained(place)
        config = json.loads((Path(place) / "config.json").read_text())
        tensors = load_file(Path(place) / "model.safetensors")
    config.pop("transformers_version", None)
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    _write_json(folder / "config.json", config)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    layer = oracle.read(config, tensors)
    arrays: dict[str, np.ndarray] = {}
    for row, ids in enumerate(SEQUENCES):
        for what, values in oracle.expected(layer, ids).items():
            arrays[f"{row}.{what}"] = values.astype(np.float64)
    save_file(arrays, folder / "expected.safetensors")
    terms = oracle.FOUR if layer.positions is None else oracle.SIX
    about = {"format": FORMAT, "name": name, "model_type": case.model_type, "says": case.says}
    _write_json(
        folder / "case.json",
        {**about, "sequences": SEQUENCES, "terms": terms, "scale": float(layer.scale)},
    )


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main() -> None:
    """Write all cases, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(CASES), metavar="CASE")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    arguments = parser.parse_args()
    for name in arguments.names:
        write(name, arguments.folder / name)


if __name__ == "__main__":
    hf.utils.logging.set_verbosity_error()
    main()
