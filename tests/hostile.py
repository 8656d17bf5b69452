"""A vocabulary that wants to harm a page, and a tiny model that uses it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from random_models import attention_layer, embeddings_of, random_gpt2
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from booksite.explorer.data import Explored, explore
from booksite.explorer.texts import text_of_bytes
from lnattn.attention.folding import fold
from lnattn.studies.affinity.study import detokenization
from lnattn.studies.affinity.vectors import token_vectors
from lnattn.text.counts import Counts
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
    text_of_bytes(b"\xe2\x82"),
    text_of_bytes(b"\xff"),
    text_of_bytes(b"ok\xf0\x9f"),
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


def tiny(seed: int = 3, vocab: int = len(HOSTILE)) -> tuple[FirstLayer, Counts]:
    """A random GPT-2 of 3 heads, and counts of a random text in which every token occurs."""
    module = random_gpt2(seed, vocab=vocab)
    attention = attention_layer(module)
    # Random scores are so large that all attention goes to one key, whatever they are divided by.
    attention = replace(attention, W_Q=attention.W_Q / 30, b_Q=attention.b_Q / 30)
    about = {"name": "tiny <b>model</b>"}
    layer = FirstLayer(embeddings_of(module), attention, spelled(vocab), about)
    rng = np.random.default_rng(seed)
    # Each token is often followed by the next but one, so that some pairs are habits of the text.
    drawn = rng.integers(vocab, size=12 * vocab)
    habits = np.stack([drawn, (drawn + 2) % vocab], axis=1).ravel()
    text = np.concatenate([np.arange(vocab), habits[: 12 * vocab]])
    return layer, Counts.from_stream(text, vocab)


def explored(frequent: int = len(HOSTILE), **changes: object) -> Explored:
    """The tiny model, explored, with the hostile vocabulary."""
    layer, counts = tiny()
    vectors = token_vectors(fold(layer.attention), layer.embeddings)
    few, source = {"heat_tokens": 4, "pairs": 3, "draws": 20}, {"counts": "a random <text>"}
    study = detokenization(vectors, layer.embeddings, counts, **few, source=source)
    return explore(layer, counts, study, frequent=frequent, texts=HOSTILE, **changes)
