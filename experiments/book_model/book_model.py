"""Making an embedded model: tokenizer, training, baselines, counts, provenance."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from transformers import PreTrainedTokenizerFast

from experiments.book_model.loop import held_out_loss, train
from experiments.book_model.ngrams import bigram_loss, unigram_loss
from experiments.book_model.plan import TrainingPlan
from experiments.book_model.state import stored_weights
from experiments.tokens import encode_stream, train_bpe
from lnattn.errors import CheckpointError, CorpusError
from lnattn.storage import provenance, read_json, sha256_of_file, write_atomically, write_json
from lnattn.text.corpora import describe_corpus, read_documents
from lnattn.text.counts import Counts
from lnattn.text.tokenizers import load_tokenizer
from lnattn.text.vocabulary import vocabulary_sha256


def train_book_model(
    sources: Sequence[str | Path],
    held_out: Sequence[str | Path],
    folder: Path | str,
    plan: TrainingPlan | None = None,
    *,
    licence: str | None = None,
    device: str | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Train a small model from nothing and write a complete model folder; return its record.

    sources, held_out: files understood by `lnattn.text.corpora.read_documents`; the held
    out text takes no part in the tokenizer, the counts or the training.
    Writes config.json, model.safetensors, tokenizer files, training.json (losses, baselines,
    corpus checksums, plan) and counts.npz (unigrams and bigrams of the training text). A run that
    was interrupted goes on where it stopped when called again with the same arguments.
    licence: where the text comes from and its licence, for the card.
    """
    plan = plan or TrainingPlan()
    folder = Path(folder)
    corpus = {"train": describe_corpus(sources), "held_out": describe_corpus(held_out)}
    repeated = {str(s) for s in sources} & {str(s) for s in held_out}
    if repeated:
        raise CorpusError(f"{', '.join(repeated)} is both trained on and held out; remove one.")
    _remember_corpus(folder, corpus)
    if not (folder / "tokenizer.json").is_file():
        train_bpe(read_documents(sources), plan.vocab_size).save_pretrained(str(folder))
    tokenizer = load_tokenizer(folder)
    if len(tokenizer) != plan.vocab_size:
        raise CheckpointError(
            f"{folder} holds a tokenizer of {len(tokenizer)} tokens, not {plan.vocab_size}; train "
            "into another folder, or ask for the same vocabulary."
        )
    cache = folder / "checkpoint"
    train_tokens = tokens_of(cache / "train_tokens.npy", sources, tokenizer)
    held_tokens = tokens_of(cache / "held_out_tokens.npy", held_out, tokenizer)
    started = time.perf_counter()
    options = {"device": device, "progress": progress}
    end = tokenizer.eos_token_id
    model, log = train(train_tokens, held_tokens, plan, folder, end, **options)
    seconds = time.perf_counter() - started
    # Stored in half precision, computed with in float32, and evaluated as it will be loaded.
    model.half().float()
    model.config.dtype = torch.float32
    model.config.save_pretrained(str(folder))
    weights = {name: value.half() for name, value in stored_weights(model).items()}
    payload = save(weights, metadata={"format": "pt"})
    write_atomically(folder / "model.safetensors", lambda file: file.write(payload))
    if not (folder / "counts.npz").is_file():
        save_counts(folder / "counts.npz", train_tokens, tokenizer)
    record = provenance(
        name=f"book-{plan.architecture}",
        plan=asdict(plan),
        plan_changes=read_json(folder / "checkpoint" / "progress.json").get("plan_changes", []),
        corpus=corpus,
        licence_of_text=licence,
        tokens={
            "train": len(train_tokens),
            "held_out": len(held_tokens),
            "seen": log[-1]["step"] * plan.batch * plan.context,
        },
        held_out_loss=held_out_loss(model, held_tokens, plan.context),
        baselines={
            "unigram": unigram_loss(train_tokens, held_tokens, plan.vocab_size),
            "bigram_kneser_ney": bigram_loss(train_tokens, held_tokens, plan.vocab_size),
        },
        loss_unit="nats per token, mean over the held-out stream",
        seconds_of_last_session=round(seconds, 1),
        log=log,
        weights_sha256=sha256_of_file(folder / "model.safetensors"),
    )
    write_json(folder / "training.json", record)
    card = model_card(record).encode()
    write_atomically(folder / "README.md", lambda file: file.write(card))
    return record


def model_card(record: Mapping[str, Any], counts_of: str | None = None) -> str:
    """A README for the model's folder, all of its numbers taken from the training record.

    counts_of: the model whose counts of the training text are these ones too, if it has none.
    """
    plan = record["plan"]
    losses = record["baselines"]
    files = "\n".join(
        f"- {role}: " + ", ".join(f"`{key}` {value}" for key, value in item.items())
        for role, items in record["corpus"].items()
        for item in items
    )
    kind = {"gpt2": "GPT-2", "llama": "Llama"}[plan["architecture"]]
    counts = (
        "`counts.npz`: unigram and bigram counts of the training text; document ends are tokens"
    )
    if counts_of is not None:
        counts = f"the counts of its training text are {counts_of}'s"
    tokens = record["tokens"]
    licence = record.get("licence_of_text")
    card = f"""# {record["name"]}

A {kind} of {plan["layers"]} layers, d_model {plan["d_model"]}, {plan["heads"]} heads, context
{plan["context"]} and {plan["vocab_size"]} byte-level BPE tokens, made by
`experiments/book_model` on {record["date"]}: {tokens["seen"]} tokens of training on a text of
{tokens["train"]}, products in
{plan["precision"]}.

Held-out loss: {record["held_out_loss"]:.4f} nats per token, over {tokens["held_out"]}
tokens that took no part in the training (unigram baseline {losses["unigram"]:.4f}, interpolated
Kneser–Ney bigram baseline {losses["bigram_kneser_ney"]:.4f}, both of the same text).
"""
    if twin := record.get("twin"):
        card += f"""
A twin whose tokens see themselves alone, after {twin["tokens"]} tokens of the same training:
{twin["held_out_loss_of_twin"]:.4f} nats per token; this model had {twin["held_out_loss"]:.4f}.
"""
    card += f"""
- `model.safetensors`: float16, to be computed with in float32; sha256 {record["weights_sha256"]}
- {counts}
- `training.json`: plan, log of losses, versions, corpus checksums

Corpus:

{files}

The text: {licence or "its licence was not given when the model was trained; see its source"}.
The weights are under the licence of this project; none of the text is in this folder, except as
counts of tokens and as pieces of words in the tokenizer.
"""
    return card


def _remember_corpus(folder: Path, corpus: Mapping[str, object]) -> None:
    """Note what this folder is trained on, or refuse to go on with another corpus."""
    path = folder / "checkpoint" / "corpus.json"
    if path.is_file() and read_json(path) != corpus:
        raise CorpusError(
            f"{folder} holds a run on another corpus; train into another folder, or delete it."
        )
    write_json(path, corpus)


def tokens_of(
    path: Path, sources: Sequence[str | Path], tokenizer: PreTrainedTokenizerFast
) -> np.ndarray:
    """A corpus as one stream of token ids, encoded once a run: a resumed one reads the file."""
    if not path.is_file():
        tokens = encode_stream(read_documents(sources), tokenizer)
        narrow = tokens.astype(np.min_scalar_type(len(tokenizer)))
        write_atomically(path, lambda file: np.save(file, narrow, allow_pickle=False))
    return np.load(path, allow_pickle=False)


def save_counts(path: Path, tokens: np.ndarray, tokenizer: PreTrainedTokenizerFast) -> None:
    """Unigram and bigram counts of a token stream: `path` and its record beside it.

    The record says which tokens they are of, by which `lnattn.text.vocabulary` finds them.
    """
    counts = Counts.from_documents([tokens], len(tokenizer))
    facts = provenance(
        tokenizer={
            "vocabulary_sha256": vocabulary_sha256(tokenizer),
            "vocab_size": len(tokenizer),
        },
        boundary="one stream; every document is followed by <|endoftext|>",
    )
    Counts(counts.unigrams, counts.bigrams, {**counts.record, **facts}).save(path)
