"""Classifiers of sentiment, and the words that no query of theirs can select (Table 4).

Classifiers of several seeds, with LayerNorms, without their scaling and without them, each arm as
it does best on training sentences that are held back (the README has the search). Then every word
of the validation sentences is decided: is it a key that some query can select?
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.once import forget
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
from lnattn_book.studies.unselectable_words import Sentiment

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


@dataclass(frozen=True, eq=False)
class Sentences:
    """The treebank as a study uses it.

    training: all its training sentences, of which models are trained on `fitted`, and settings are
    chosen by `held_back`; dev: the validation sentences, whose words are decided. sha256: of the
    two files.
    """

    training: Treebank
    fitted: Treebank
    held_back: Treebank
    dev: Treebank
    vocabulary: Vocabulary
    sha256: dict[str, str]

    @classmethod
    def read(cls, train: Path | str, dev: Path | str) -> Sentences:
        """Those of two files."""
        training = Treebank.read(train)
        order = np.random.default_rng(0).permutation(len(training.sentences))
        n_held_back = round(_HELD_BACK * len(order))
        fitted = training.part(order[n_held_back:])
        return cls(
            training=training,
            fitted=fitted,
            held_back=training.part(order[:n_held_back]),
            dev=Treebank.read(dev),
            vocabulary=Vocabulary(fitted.sentences),
            sha256={"train": sha256_of_file(train), "dev": sha256_of_file(dev)},
        )

    @property
    def needed(self) -> float:
        """The share of right answers on the sentences held back from which on an arm is trained."""
        positive = self.held_back.positive.mean()
        return float(max(positive, 1 - positive) + TRAINED)


@dataclass(frozen=True, eq=False)
class Runs:
    """Classifiers, each trained once: what a run gives is written to `folder`, and read again."""

    sentences: Sentences
    folder: Path

    def __call__(self, arm: str, plan: ClassifierPlan, seed: int) -> dict[str, np.ndarray]:
        """What a run gives: `held_back`, and if its seed is none of the search, `right`, `marks`.

        held_back: share of right answers on the sentences held back; right: whether each validation
        sentence is; marks: [layer word], which of their words are unselectable.
        """
        name = f"{arm}-{plan.learning_rate:g}-{plan.initial_scale:g}-{plan.epochs}-{seed}.npz"
        facts = {"arm": arm, "plan": asdict(plan), "seed": seed, **self.sentences.sha256}
        description = json.dumps(facts)
        arrays = _read_run(self.folder / name, description)
        if arrays is None:
            arrays = self._trained(arm, plan, seed)
            written = {**arrays, "run": np.array(description)}
            write_atomically(self.folder / name, lambda file: np.savez_compressed(file, **written))
        return arrays

    def _trained(self, arm: str, plan: ClassifierPlan, seed: int) -> dict[str, np.ndarray]:
        sentences = self.sentences
        vocabulary = sentences.vocabulary
        model = train_classifier(sentences.fitted, vocabulary, arm, plan, seed)
        right = is_right(model, vocabulary, sentences.held_back)
        arrays = {"held_back": np.asarray(right.mean())}
        if seed not in SEARCH_SEEDS:
            arrays["right"] = is_right(model, vocabulary, sentences.dev)
            arrays["marks"] = unselectable_words(model, vocabulary, sentences.dev.sentences)
        return arrays

    def held_back(self, arm: str, plan: ClassifierPlan, seeds: Sequence[int]) -> float:
        """Share of right answers on the sentences held back, mean over seeds."""
        return float(np.mean([self(arm, plan, seed)["held_back"] for seed in seeds]))


@dataclass(frozen=True)
class Search:
    """What each setting of an arm got right on the sentences held back, and the best one.

    pairs: of all rates and scales, by one seed; again, of_both_seeds: the best of these with all
    numbers of epochs, and what they got right, mean over the seeds of the search.
    """

    pairs: list[float]
    again: list[ClassifierPlan]
    of_both_seeds: list[float]

    @property
    def best(self) -> float:
        """What the chosen setting got right."""
        return max(self.of_both_seeds)

    @property
    def chosen(self) -> ClassifierPlan:
        """The setting that got most right."""
        return self.again[int(np.argmax(self.of_both_seeds))]

    def record(self) -> dict[str, Any]:
        """The search as it is frozen."""
        return {
            "pairs": self.pairs,
            "again": [[plan.learning_rate, plan.initial_scale, plan.epochs] for plan in self.again],
            "of_both_seeds": self.of_both_seeds,
            "chosen": asdict(self.chosen),
        }


def search(runs: Runs, arm: str, plans: Sequence[ClassifierPlan], epochs: Sequence[int]) -> Search:
    """Try all plans with the first number of epochs, and the best of them with all numbers."""
    pairs = [
        runs.held_back(arm, replace(plan, epochs=epochs[0]), SEARCH_SEEDS[:1]) for plan in plans
    ]
    best = np.argsort(np.negative(pairs), kind="stable")[:_BEST]
    again = [replace(plans[i], epochs=number) for i in sorted(best) for number in epochs]
    of_both_seeds = [runs.held_back(arm, plan, SEARCH_SEEDS) for plan in again]
    return Search(pairs, again, of_both_seeds)


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
    plan = plan or ClassifierPlan()
    sentences = Sentences.read(train, dev)
    examples = [_example(sentences.dev, *row) for row in TABLE_4.items()]
    partial = Path(out) / "partial" / Sentiment.NAME
    runs = Runs(sentences, partial)
    plans = [
        replace(plan, learning_rate=rate, initial_scale=scale) for rate in rates for scale in scales
    ]
    searches: dict[str, Search] = {}
    runs_of_arm: dict[str, list[dict[str, np.ndarray]]] = {}
    for arm in reversed(ARMS):  # the one without LayerNorms first: others are to be compared
        searches[arm] = search(runs, arm, plans, epochs)
        if searches[arm].best < sentences.needed:
            raise ResultError(
                f"the arm {arm!r} is not trained by any setting of the search: right on "
                f"{searches[arm].best:.1%} of the sentences held back, where "
                f"{sentences.needed:.1%} would do."
            )
        runs_of_arm[arm] = [runs(arm, searches[arm].chosen, seed) for seed in seeds]
    right = [[run["right"] for run in runs_of_arm[arm]] for arm in ARMS]
    marks = np.array([[run["marks"] for run in runs_of_arm[arm]] for arm in ARMS])
    path = Sentiment(
        right=np.array(right),
        unselectable=marks.any(axis=2),
        by_layer=marks.mean(axis=3),
        held_back=np.array([searches[arm].best for arm in ARMS]),
        **_words(sentences.training, sentences.dev),
        record=provenance(
            arms=list(ARMS),
            seeds=list(seeds),
            rates=list(rates),
            scales=list(scales),
            epochs=list(epochs),
            search={arm: searches[arm].record() for arm in ARMS},
            vocabulary=len(sentences.vocabulary),
            sentences={
                "fitted": len(sentences.fitted.sentences),
                "held_back": len(sentences.held_back.sentences),
                "dev": len(sentences.dev.sentences),
            },
            files={"train": Path(train).name, "dev": Path(dev).name},
            sha256=sentences.sha256,
            positive_share=float(sentences.dev.positive.mean()),
            positive_share_of_training=float(sentences.training.positive.mean()),
            examples=examples,
        ),
    ).write(out, Sentiment.NAME)
    forget(partial, "*.npz")
    return path


def _words(training: Treebank, dev: Treebank) -> dict[str, np.ndarray]:
    """Sentence and type of every validation word, and how often types occur in training."""
    count: Counter[str] = Counter()
    positive: Counter[str] = Counter()
    for sentence, label in zip(training.sentences, training.positive, strict=True):
        count.update(set(sentence))
        positive.update(set(sentence) if label else ())
    type_of = {word: i for i, word in enumerate(count)}
    types = [type_of.get(word, -1) for sentence in dev.sentences for word in sentence]
    return {
        "sentence": np.repeat(np.arange(len(dev.sentences)), [*map(len, dev.sentences)]),
        "type": np.array(types),
        "count": np.array([count[word] for word in type_of]),
        "positive": np.array([positive[word] for word in type_of]),
    }


def _example(dev: Treebank, start: str, bold: Sequence[str]) -> dict[str, Any]:
    for i, words in enumerate(dev.sentences):
        if " ".join(words).startswith(start):
            return {"sentence": i, "words": list(words), "bold": list(bold)}
    raise CorpusError(f"no sentence starts with {start!r}; give the treebank's validation split.")


def _read_run(path: Path, description: str) -> dict[str, np.ndarray] | None:
    """What a run gave; None where it has not been made, `ResultError` where it is another one's."""
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    if str(arrays.pop("run")) != description:
        raise ResultError(f"{path} is of other files or another plan; delete its folder.")
    return arrays
