"""What a chapter says of the model that comes with the book: all of it from its training record.

A record is the `training.json` of a training run. Editions of the model differ in text,
length and precision, and older records lack some entries; the sentences follow what is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lnattn_book.claims.verdicts import listed_words


def facts(record: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and phrases for the prose, as `page.glue_all` takes them."""
    plan, tokens, losses = record["plan"], record["tokens"], record["baselines"]
    seen = tokens_seen(record)
    loss, counted = record["held_out_loss"], losses["bigram_kneser_ney"]
    below = loss < counted
    return {
        **{key: plan[key] for key in ("layers", "d_model", "heads", "context")},
        "kind": {"llama": "Llama"}.get(plan.get("architecture", ""), "GPT-2"),
        "precision": plan.get("precision", "float32"),
        "vocab": (plan["vocab_size"], ","),
        "steps": (record["log"][-1]["step"], ","),
        "train_tokens": (tokens["train"] / 1e6, ".1f"),
        "held_tokens": (tokens["held_out"] / 1e6, ".2f"),
        "seen": (seen / 1e6, ".1f"),
        "epochs": (seen / tokens["train"], ".1f"),
        "files": corpus_files(record["corpus"]["train"]),
        "held_files": corpus_files(record["corpus"]["held_out"]),
        "licence": record.get("licence_of_text") or "The record does not name the text's licence",
        "loss": (loss, ".2f"),
        "bigram": (counted, ".2f"),
        "unigram": (losses["unigram"], ".2f"),
        "gap": (abs(loss - counted), ".2f"),
        "below": "below" if below else "above",
        "beats": "beats" if below else "does not beat",
        "overfit": overfitting(record["log"]),
        "twin": beside_its_twin(record.get("twin")),
        "twin_short": attention_is_worth(record.get("twin")),
        "changes": plan_changes(record.get("plan_changes", [])),
    }


def tokens_seen(record: Mapping[str, Any]) -> int:
    """Tokens that a model was trained on, each as often as it was shown."""
    plan = record["plan"]
    return record["tokens"].get("seen", record["log"][-1]["step"] * plan["batch"] * plan["context"])


def corpus_files(items: Iterable[Mapping[str, Any]]) -> str:
    """The files or data sets of a corpus, for a sentence: 'a.jsonl (1.2 MB) and wikitext-103'."""
    return listed_words(
        f"{item['file']} ({item['bytes'] / 1e6:.1f} MB)" if "file" in item else item["dataset"]
        for item in items
    )


def beside_its_twin(twin: Mapping[str, int | float] | None) -> str:
    """What a twin that sees its own token only reached, or that there is none."""
    if not twin:
        return (
            "What would show it is a twin trained alike whose attention sees its own token only; "
            "this model has none yet."
        )
    return (
        "A twin trained alike, whose attention sees its own token only, had "
        f"{twin['held_out_loss_of_twin']:.2f} nats where the model had "
        f"{twin['held_out_loss']:.2f}: {attention_is_worth(twin)}."
    )


def attention_is_worth(twin: Mapping[str, int | float] | None) -> str:
    """The difference of the two losses in words: what attention to other tokens was worth then."""
    if not twin:
        return "what attention to other tokens is worth has not been measured in it"
    gain = twin["held_out_loss_of_twin"] - twin["held_out_loss"]
    if gain <= 0:
        return f"at step {twin['step']:,} attention to other tokens had not helped it"
    return f"at step {twin['step']:,} attention to other tokens was worth {gain:.2f} nats a token"


def overfitting(log: Iterable[Mapping[str, int | float]]) -> str:
    """Whether the held-out loss was still at its lowest when training ended."""
    losses = [(entry["held_out_loss"], entry["step"]) for entry in log]
    lowest, step = min(losses)
    if losses[-1][0] == lowest:
        return "The held-out loss was at its lowest when training ended"
    return f"The held-out loss was lowest, {lowest:.2f}, after {step:,} steps"


def plan_changes(changes: Iterable[Mapping[str, int]]) -> str:
    """How the planned length was changed while the training ran, if it was."""
    parts = [
        f"At step {change['step']:,} the planned length was changed from "
        f"{change['steps_before']:,} to {change['steps']:,} steps; the learning rate followed the "
        "new schedule from there on"
        for change in changes
    ]
    return ". ".join(parts) or "The plan was not changed while it ran"
