"""Classifiers of sentiment, and the words that no query of theirs can select (Table 4).

Classifiers of several seeds, with LayerNorms, without their scaling and without them, each arm as
it does best on training sentences that are held back (the README has the search). Then every word
of the validation sentences is decided: is it a key that some query can select?
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

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
#: What is searched for each arm, in this order: rates and initial scales, then numbers of epochs.
RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
SCALES = (0.02, 0.1, 0.35)
EPOCHS = (3, 6)
#: An arm is trained that is right by so much more often than whoever names the frequent label.
TRAINED = 0.1
#: How many pairs of rate and scale are trained for all numbers of epochs.
_BEST = 3
SEEDS = (0, 1, 2, 3, 4)
#: Their runs choose for each arm, and are not among those that are judged.
SEARCH_SEEDS = (100, 101)
#: Share of the training sentences that no model is trained on.
_HELD_BACK = 0.1


def freeze_sentiment(  # noqa: PLR0913 (a command: all by name)
    train: Path | str,
    dev: Path | str,
    out: Path | str,
    *,
    plan: ClassifierPlan | None = None,
    rates: Sequence[float] = RATES,
    scales: Sequence[float] = SCALES,
    epochs: Sequence[int] = EPOCHS,
    seeds: Sequence[int] = SEEDS,
) -> Path:
    """Train all classifiers, or go on with them, decide all words and freeze `sentiment`.

    train, dev: the treebank's TSV files with columns `sentence` and `label`. `out/partial` keeps
    what each run has found until all are done. Raises `CorpusError` if a sentence of the paper's
    Table 4 is not among the validation sentences, and `ResultError` if an arm cannot be trained.
    """
    out = Path(out)
    plan = plan or ClassifierPlan()
    given = Treebank.read(train)
    asked = Treebank.read(dev)
    examples = [_example(asked, *row) for row in TABLE_4.items()]
    order = np.random.default_rng(0).permutation(len(given.sentences))
    kept = round(_HELD_BACK * len(order))
    fit = given.part(order[kept:])
    back = given.part(order[:kept])
    vocabulary = Vocabulary(fit.sentences)
    shas = {"train": sha256_of_file(train), "dev": sha256_of_file(dev)}
    pairs = [replace(plan, learning_rate=r, initial_scale=s) for r in rates for s in scales]
    best = min(_BEST, len(pairs))

    def run(arm: str, own: ClassifierPlan, seed: int) -> dict[str, np.ndarray]:
        name = f"{arm}-{own.learning_rate:g}-{own.initial_scale:g}-{own.epochs}-{seed}.npz"
        path = out / "partial" / Sentiment.NAME / name
        what = json.dumps({"arm": arm, "plan": asdict(own), "seed": seed, **shas})
        found = _kept(path, what)
        if found is None:
            model = train_classifier(fit, vocabulary, arm, own, seed)
            found = {"held_back": np.asarray(is_right(model, vocabulary, back).mean())}
            if seed not in SEARCH_SEEDS:
                found["right"] = is_right(model, vocabulary, asked)
                found["marks"] = unselectable_words(model, vocabulary, asked.sentences)
            arrays = {**found, "run": np.array(what)}
            write_atomically(path, lambda file: np.savez_compressed(file, **arrays))
        return found

    def held_back(arm: str, own: ClassifierPlan, search_seeds: Sequence[int]) -> float:
        return float(np.mean([run(arm, own, seed)["held_back"] for seed in search_seeds]))

    def search(arm: str) -> dict[str, Any]:
        """What each setting got right on the sentences held back, and the best one's plan."""
        first = [replace(one, epochs=epochs[0]) for one in pairs]
        right = [held_back(arm, one, SEARCH_SEEDS[:1]) for one in first]
        kept = np.argsort(np.negative(right), kind="stable")[:best]
        again = [replace(pairs[i], epochs=n) for i in sorted(kept) for n in epochs]
        of_both = [held_back(arm, one, SEARCH_SEEDS) for one in again]
        return {
            "pairs": right,
            "again": [[o.learning_rate, o.initial_scale, o.epochs] for o in again],
            "of_both_seeds": of_both,
            "chosen": again[int(np.argmax(of_both))],
        }

    searched = {}
    runs = {}
    least = max(back.positive.mean(), 1 - back.positive.mean()) + TRAINED
    for arm in reversed(ARMS):  # the one without LayerNorms first: others are to be compared
        searched[arm] = search(arm)
        if (most := max(searched[arm]["of_both_seeds"])) < least:
            raise ResultError(
                f"the arm {arm!r} is not trained by any setting of the search: right on "
                f"{most:.1%} of the sentences held back, where {least:.1%} would do."
            )
        runs[arm] = [run(arm, searched[arm]["chosen"], seed) for seed in seeds]
    marks = {arm: np.array([one["marks"] for one in runs[arm]]) for arm in runs}
    found: dict[str, dict[str, Any]] = {
        "right": {arm: np.array([one["right"] for one in runs[arm]]) for arm in runs},
        "unselectable": {arm: of_arm.any(axis=1) for arm, of_arm in marks.items()},
        "by_layer": {arm: of_arm.mean(axis=2) for arm, of_arm in marks.items()},
        "held_back": {arm: max(one["of_both_seeds"]) for arm, one in searched.items()},
    }
    asked_of = {"arms": ARMS, "seeds": seeds, "rates": rates, "scales": scales, "epochs": epochs}
    sentences = {"fitted": len(fit.sentences), "held_back": kept, "dev": len(asked.sentences)}
    path = Sentiment(
        **{key: np.array([of_arm[arm] for arm in ARMS]) for key, of_arm in found.items()},
        **_words(given, asked),
        record=provenance(
            **{name: list(values) for name, values in asked_of.items()},
            search={a: {**searched[a], "chosen": asdict(searched[a]["chosen"])} for a in ARMS},
            vocabulary=len(vocabulary),
            sentences=sentences,
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
