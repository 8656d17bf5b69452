"""Classifiers of sentiment, and the words that no query of theirs can select (Table 4).

Classifiers of several seeds, with LayerNorms, without their scaling and without them, each arm at
the rate that does best on training sentences that are held back. Then every word of the validation
sentences is decided: is it a key that some query can select?
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from experiments.sentiment.classifier import (
    ARMS,
    ClassifierPlan,
    Treebank,
    Vocabulary,
    is_right,
    train_classifier,
    unselectable_words,
)
from lnattn.errors import CorpusError, ResultError
from lnattn.progress import progress_bar
from lnattn.storage import provenance, sha256_of_file, write_atomically
from lnattn_book.words import Sentiment

#: How the sentences of the paper's Table 4 begin in the treebank, and their words in bold there.
TABLE_4 = {
    "it 's hard to like a film": ("like",),
    "you 'll gasp appalled and laugh": ("laugh",),
    "this is wild surreal stuff": ("wild", "stuff"),
    "it 's a much more emotional journey": ("emotional",),
    "although german cooking": ("mind",),
}
RATES = (3e-3, 1e-2, 3e-2)
SEEDS = (0, 1, 2, 3, 4)
#: Its runs choose the rate of each arm, and are not among those that are judged.
SWEEP_SEED = 100
#: Share of the training sentences that no model is trained on.
_HELD_BACK = 0.1


def freeze_sentiment(
    train: Path | str,
    dev: Path | str,
    out: Path | str,
    *,
    plan: ClassifierPlan | None = None,
    rates: Sequence[float] = RATES,
    seeds: Sequence[int] = SEEDS,
    progress: bool = True,
) -> Path:
    """Train all classifiers, or go on with them, decide all words and freeze `sentiment`.

    train, dev: the treebank's TSV files with columns `sentence` and `label`. `out/partial` keeps
    what each run has found until all are done. Raises `CorpusError` if a sentence of the paper's
    Table 4 is not among the validation sentences.
    """
    out, plan = Path(out), plan or ClassifierPlan()
    given, asked = Treebank.read(train), Treebank.read(dev)
    examples = [_example(asked, *row) for row in TABLE_4.items()]
    order = np.random.default_rng(0).permutation(len(given.sentences))
    kept = round(_HELD_BACK * len(order))
    fit, back = given.part(order[kept:]), given.part(order[:kept])
    vocabulary = Vocabulary(fit.sentences)
    shas = {"train": sha256_of_file(train), "dev": sha256_of_file(dev)}
    bar = progress_bar(
        total=len(ARMS) * (len(rates) + len(seeds)), what="sentiment", disable=not progress
    )

    def run(arm: str, rate: float, seed: int) -> dict[str, np.ndarray]:
        own = replace(plan, learning_rate=rate)
        path = out / "partial" / Sentiment.NAME / f"{arm}-{rate:g}-{seed}.npz"
        what = json.dumps({"arm": arm, "plan": asdict(own), "seed": seed, **shas})
        found = _kept(path, what)
        if found is None:
            model = train_classifier(fit, vocabulary, arm, own, seed)
            found = {"held_back": np.asarray(is_right(model, vocabulary, back).mean())}
            if seed != SWEEP_SEED:
                found["right"] = is_right(model, vocabulary, asked)
                found["marks"] = unselectable_words(model, vocabulary, asked.sentences)
            write_atomically(path, partial(_savez, {**found, "run": np.array(what)}))
        bar.update()
        return found

    held_back = np.array(
        [[float(run(arm, rate, SWEEP_SEED)["held_back"]) for rate in rates] for arm in ARMS]
    )
    best = [rates[i] for i in held_back.argmax(axis=1)]
    runs = [[run(arm, rate, s) for s in seeds] for arm, rate in zip(ARMS, best, strict=True)]
    bar.close()
    marks = np.array([[one["marks"] for one in of_arm] for of_arm in runs])
    path = Sentiment(
        right=np.array([[one["right"] for one in of_arm] for of_arm in runs]),
        unselectable=np.any(marks, axis=2),
        by_layer=marks.mean(axis=3),
        held_back=held_back,
        **_words(given, asked),
        record=provenance(
            arms=list(ARMS),
            seeds=list(seeds),
            rates=list(rates),
            chosen_rates=best,
            plan=asdict(plan),
            vocabulary=len(vocabulary),
            sentences={
                "fitted": len(fit.sentences),
                "held_back": kept,
                "dev": len(asked.sentences),
            },
            files={"train": Path(train).name, "dev": Path(dev).name},
            sha256=shas,
            positive_share=float(asked.positive.mean()),
            positive_share_of_training=float(given.positive.mean()),
            examples=examples,
        ),
    ).write(out, Sentiment.NAME)
    shutil.rmtree(out / "partial" / Sentiment.NAME)
    return path


def _words(given: Treebank, asked: Treebank) -> dict[str, np.ndarray]:
    """Sentence and type of every validation word, and how often types occur in training."""
    count: Counter[str] = Counter()
    positive: Counter[str] = Counter()
    for sentence, label in zip(given.sentences, given.positive, strict=True):
        count.update(set(sentence))
        positive.update(set(sentence) if label else ())
    place = {word: i for i, word in enumerate(count)}
    return {
        "sentence": np.repeat(np.arange(len(asked.sentences)), [*map(len, asked.sentences)]),
        "type": np.array([place.get(word, -1) for one in asked.sentences for word in one]),
        "count": np.array([count[word] for word in place]),
        "positive": np.array([positive[word] for word in place]),
    }


def _example(asked: Treebank, start: str, bold: Sequence[str]) -> dict[str, Any]:
    for i, words in enumerate(asked.sentences):
        if " ".join(words).startswith(start):
            return {"sentence": i, "words": list(words), "bold": list(bold)}
    raise CorpusError(f"no sentence starts with {start!r}; give the treebank's validation split.")


def _kept(path: Path, what: str) -> dict[str, np.ndarray] | None:
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as file:
        found = {key: file[key] for key in file.files}
    if str(found.pop("run")) != what:
        raise ResultError(f"{path} is of other files or another plan; delete its folder.")
    return found


def _savez(arrays: dict[str, Any], file: BinaryIO) -> None:
    np.savez_compressed(file, **arrays)
