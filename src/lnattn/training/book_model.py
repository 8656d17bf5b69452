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

from lnattn.errors import CheckpointError, CorpusError
from lnattn.storage import (
    provenance,
    read_json,
    sha256_of_file,
    write_atomically,
    write_json,
)
from lnattn.text.corpora import describe_corpus, read_documents
from lnattn.text.counts import Counts
from lnattn.text.ngrams import bigram_loss, unigram_loss
from lnattn.text.tokenizers import encode_stream, load_tokenizer, train_bpe
from lnattn.training.loop import held_out_loss, train
from lnattn.training.plan import TrainingPlan
from lnattn.training.state import stored_weights


def train_book_model(
    sources: Sequence[str | Path],
    held_out: Sequence[str | Path],
    folder: Path | str,
    plan: TrainingPlan | None = None,
    *,
    device: str | None = None,
    compiled: bool = False,
    progress: bool = True,
) -> dict[str, object]:
    """Train a small model from nothing and write a complete model folder; return its record.

    sources, held_out: files or names understood by `lnattn.text.corpora.read_documents`; the held
    out text takes no part in the tokenizer, the counts or the training.
    Writes config.json, model.safetensors, tokenizer files, training.json (losses, baselines,
    corpus checksums, plan) and counts.npz (unigrams and bigrams of the training text). A run that
    was interrupted goes on where it stopped when called again with the same arguments.
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
    train_tokens, held_tokens = (
        _tokens(folder / "checkpoint" / f"{role}_tokens.npy", texts, tokenizer)
        for role, texts in (("train", sources), ("held_out", held_out))
    )
    started = time.perf_counter()
    model, log = train(
        train_tokens,
        held_tokens,
        plan,
        folder,
        tokenizer.eos_token_id,
        device=device,
        compiled=compiled,
        progress=progress,
    )
    seconds = time.perf_counter() - started
    # Stored in half precision, computed with in float32, and evaluated as it will be loaded.
    model.half().float()
    model.config.dtype = torch.float32
    model.config.save_pretrained(str(folder))
    weights = {name: value.half() for name, value in stored_weights(model).items()}
    payload = save(weights, metadata={"format": "pt"})
    write_atomically(folder / "model.safetensors", lambda file: file.write(payload))
    save_counts(folder / "counts.npz", train_tokens, plan.vocab_size)
    record = provenance(
        name=f"book-{plan.architecture}",
        plan=asdict(plan),
        plan_changes=read_json(folder / "checkpoint" / "progress.json").get("plan_changes", []),
        corpus=corpus,
        tokens={"train": len(train_tokens), "held_out": len(held_tokens)},
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


def model_card(record: Mapping[str, Any]) -> str:
    """A README for the model's folder, all of its numbers taken from the training record."""
    plan, losses = record["plan"], record["baselines"]
    files = "\n".join(
        f"- {role}: " + ", ".join(f"`{key}` {value}" for key, value in item.items())
        for role, items in record["corpus"].items()
        for item in items
    )
    kind = {"gpt2": "GPT-2", "llama": "Llama"}[plan["architecture"]]
    return f"""# {record["name"]}

A {kind} of {plan["layers"]} layers, d_model {plan["d_model"]}, {plan["heads"]} heads, context
{plan["context"]} and {plan["vocab_size"]} byte-level BPE tokens, made by `lnattn train-book-model`
on {record["date"]} from {record["tokens"]["train"]} tokens of text.

Held-out loss: {record["held_out_loss"]:.4f} nats per token, over {record["tokens"]["held_out"]}
tokens that took no part in the training (unigram baseline {losses["unigram"]:.4f}, interpolated
Kneser–Ney bigram baseline {losses["bigram_kneser_ney"]:.4f}).

- `model.safetensors`: sha256 {record["weights_sha256"]}
- `counts.npz`: unigram and bigram counts of the training text; document ends are tokens
- `training.json`: plan, log of losses, versions, corpus checksums

Corpus:

{files}

Licences: the weights are under the licence of this project; the text they were trained on is under
its own (see the corpus's source), and none of it is in this folder except as counts.
"""


def _remember_corpus(folder: Path, corpus: dict[str, object]) -> None:
    """Note what this folder is trained on, or refuse to go on with another corpus."""
    path = folder / "checkpoint" / "corpus.json"
    if path.is_file() and read_json(path) != corpus:
        raise CorpusError(
            f"{folder} holds a run on another corpus; train into another folder, or delete it."
        )
    write_json(path, corpus)


def _tokens(
    path: Path, sources: Sequence[str | Path], tokenizer: PreTrainedTokenizerFast
) -> np.ndarray:
    """A corpus as one stream of token ids, encoded once a run: a resumed one reads the file."""
    if not path.is_file():
        tokens = encode_stream(read_documents(sources), tokenizer)
        narrow = tokens.astype(np.min_scalar_type(len(tokenizer)))
        write_atomically(path, lambda file: np.save(file, narrow, allow_pickle=False))
    return np.load(path, allow_pickle=False)


def save_counts(path: Path, tokens: np.ndarray, vocab_size: int) -> None:
    """Unigram and bigram counts of a token stream: `path` and its record beside it."""
    convention = "one stream; every document is followed by <|endoftext|>"
    Counts.from_stream(tokens, vocab_size, provenance(boundary=convention)).save(path)
