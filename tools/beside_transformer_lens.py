"""The first attention of book-gpt2 in TransformerLens 4 and here, beside transformers' own.

`pip install transformer-lens` into an environment of its own beside this package, then
`python tools/beside_transformer_lens.py`. The page *Your model* has the table that it prints.
"""

from __future__ import annotations

from importlib.metadata import version

import torch
from torch import Tensor
from transformers import AutoTokenizer, GPT2LMHeadModel

import lnattn
from lnattn.models.verification import TEXT
from lnattn.paths import data_folder

try:
    from transformer_lens.model_bridge import TransformerBridge
except ImportError as error:
    raise SystemExit("TransformerLens 4 is absent: pip install transformer-lens") from error


@torch.no_grad()
def patterns(dtype: torch.dtype) -> dict[str, Tensor]:
    """Attention weights of the first layer by who computes them: [head query key]."""
    folder = str(data_folder() / "book-gpt2")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = GPT2LMHeadModel.from_pretrained(folder, dtype=dtype, attn_implementation="eager")
    ids = torch.tensor([tokenizer(TEXT)["input_ids"]])
    patterns = {"transformers": model.eval()(ids, output_attentions=True).attentions[0][0]}
    first = lnattn.first_layer(model, tokenizer)
    terms = lnattn.six_terms(lnattn.fold(first.attention), first.embeddings, ids[0])
    patterns["lnattn, six terms"] = terms.attention()
    bridge = TransformerBridge.boot_transformers(
        "gpt2", hf_model=model, tokenizer=tokenizer, dtype=dtype
    )
    _, cache = bridge.run_with_cache(ids)
    patterns["bridge as it loads"] = cache["blocks.0.attn.hook_pattern"][0]
    bridge.enable_compatibility_mode()
    _, cache = bridge.run_with_cache(ids)
    patterns["bridge, compatibility mode"] = cache["blocks.0.attn.hook_pattern"][0]
    return patterns


if __name__ == "__main__":
    print(f"TransformerLens {version('transformer-lens')}, transformers {version('transformers')}")
    for dtype in (torch.float32, torch.float64):
        reference, *others = patterns(dtype).items()
        for name, pattern in others:
            error = (pattern.double() - reference[1].double()).abs().max()
            print(f"{str(dtype).removeprefix('torch.')}  {name}: {error:.0e}")
