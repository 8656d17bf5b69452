"""The example notebooks run on a checkpoint of the user's own: here, a tiny random one."""

from __future__ import annotations

import json
from pathlib import Path

import huggingface_hub
import pytest
import torch
import transformers
from families import randomise
from random_models import random_gpt2

from lnattn.models.checkpoints import BOOK_MODELS
from lnattn_book.page import places

ROOT = places.repository()
WORDS = ["the", "city", "of", "new", "york", "lies", "on", "coast", "atlantic", "ocean", "."]


def whole_gpt2(vocab: int) -> torch.nn.Module:
    return random_gpt2(seed=3, vocab=vocab, context=32).float()


def whole_llama(vocab: int) -> torch.nn.Module:
    """Four query heads share two key heads; every weight is random, the norm's gains too."""
    config = transformers.LlamaConfig(
        vocab_size=vocab, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=2, attention_bias=True,
        max_position_embeddings=32,
    )  # fmt: skip
    whole = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    return randomise(whole, seed=5)


#: The notebook -> a model of the kind that it is for.
EXAMPLES = {"your_checkpoint": whole_gpt2, "your_rotary_model": whole_llama}


@pytest.fixture(params=EXAMPLES)
def example(request, tmp_path_factory) -> tuple[str, Path, torch.nn.Module]:
    """The notebook, a folder as `save_pretrained` leaves it, with a tokenizer, and the model."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("checkpoint")
    vocabulary = {word: number for number, word in enumerate(["<unk>", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", eos_token="<unk>"
    ).save_pretrained(folder)
    whole = EXAMPLES[request.param](len(vocabulary)).eval()
    whole.save_pretrained(folder)
    return request.param, folder, whole


def notebook(name: str) -> Path:
    return ROOT / "examples" / f"{name}.ipynb"


def code_of(path: Path) -> list[str]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_an_example_runs_on_a_folder(example, monkeypatch):
    name, folder, whole = example
    monkeypatch.setenv("CHECKPOINT", str(folder))
    space: dict = {"__name__": "__main__"}
    for cell in code_of(notebook(name)):
        exec(compile(cell, name, "exec"), space)  # trusted: our own file
    ids = space["ids"]
    with torch.no_grad():
        theirs = whole(ids[None], output_attentions=True).attentions[0][0]
    assert theirs.std() > 0.01
    assert (space["attention"] - theirs).abs().max() < 1e-5
    assert len(space["names"]) == len(ids)
    if name == "your_rotary_model":
        kept = sum(space["terms"][term] for term in ("ee", "ed", "d")) / space["folded"].scale
        hidden = torch.triu(torch.ones(len(ids), len(ids), dtype=torch.bool), 1)
        without = kept.masked_fill(hidden, -torch.inf).softmax(dim=-1)
        divergence = torch.where(hidden, 0.0, theirs * (theirs / without).log()).sum(-1).mean(-1)
        assert torch.allclose(space["moved"]("e"), divergence, atol=1e-5)
        assert space["alone"].columns.tolist() == list(range(len(ids)))[::-1]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_as_it_is_without_a_network(name, monkeypatch):
    """On the model that it names itself, which comes with the repository."""
    monkeypatch.delenv("CHECKPOINT", raising=False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    space: dict = {"__name__": "__main__"}
    for cell in code_of(notebook(name))[:2]:
        exec(compile(cell, name, "exec"), space)  # trusted: our own file
    assert space["model"].name in BOOK_MODELS
    assert space["attention"].sum(dim=-1).allclose(torch.ones(()))
