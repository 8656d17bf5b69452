"""A vocabulary that wants to harm a page, and a tiny model that uses it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from random_models import attention_layer, embeddings_of, random_gpt2
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from booksite.explorer import layers
from booksite.explorer.texts import script
from lnattn.weights import FirstLayer

HOSTILE = [
    "<script>window.harmed=1</script>",
    "</script><img src=x onerror=window.harmed=2>",
    "<img src=x onerror=window.harmed=3>",
    "<!--",
    "]]>",
    "&lt;b&gt;",
    '"',
    "'",
    "`${window.harmed=4}`",
    '"onmouseover="window.harmed=5',
    "javascript:window.harmed=6",
    "\\",
    "\\u003c",
    "\x00",
    "\x07",
    "\x7f",
    "\u0085",
    "\u2028",
    "\u2029",
    "\ud800",
    "\udfff",
    "\udce2\udc82",
    "\udcff",
    "ok\udcf0\udc9f",
    "\u202egnp.exe",
    "\ufeff",
    "",
    " ",
    "  ",
    "\n",
    "\t",
    "\r\n",
    "\u0301",
    "e\u0301",
    "𝕏😀",
    "__proto__",
    "constructor",
    "#3",
    "x" * 300,
    " city",
    "city",
    "City",
]


def spelled(vocab: int) -> PreTrainedTokenizerFast:
    """A tokenizer for sentences that are lists of token ids: "3 1 4"."""
    tokenizer = Tokenizer(models.WordLevel({str(i): i for i in range(vocab)}, unk_token="0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def tiny(seed: int = 3, vocab: int = len(HOSTILE)) -> FirstLayer:
    """A random GPT-2 of 3 heads."""
    module = random_gpt2(seed, vocab=vocab)
    attention = attention_layer(module)
    # Random scores are so large that all attention goes to one key, whatever they are divided by.
    attention = replace(attention, W_Q=attention.W_Q / 30, b_Q=attention.b_Q / 30)
    about = {"name": "tiny <b>model</b>"}
    return FirstLayer(embeddings_of(module), attention, spelled(vocab), about)


def hostile_scripts(name: str) -> Iterator[tuple[str, str]]:
    """The tiny model's scripts with the hostile vocabulary for its own."""
    for file, text in layers.scripts_of(tiny(), name):
        if file == "tokenizer.js":
            vocab = {token: place for place, token in enumerate(HOSTILE)}
            words = {"model": {"type": "WordLevel", "vocab": vocab}}
            yield file, script(f"{name}/tokenizer", words)
        else:
            yield file, text
