"""What the page on the robustness of unselectable keys states: sizes, long runs, words, layers.

Brody et al. 2023, §4.2, Tables 1, 3 and 4, App. D and E.2. Runs are those that
`experiments/unselectable_lm` and `experiments/sentiment` froze.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
import transformers as hf
from jaxtyping import Float, Int

from lnattn.paths import data_folder
from lnattn_book.chapters.unselectable import PLACES, SETS, TABLE_1, short_runs
from lnattn_book.claims.intervals import Interval
from lnattn_book.page import Check, says
from lnattn_book.studies.exposure import exposure, lead
from lnattn_book.studies.guaranteed import Guaranteed
from lnattn_book.studies.keys_by_layer import PROPERTIES, LayerVerdicts
from lnattn_book.studies.language_models import FrozenArm, LongRuns, mean_and_interval
from lnattn_book.studies.majority import encoder as majority
from lnattn_book.studies.unselectable_words import MarkedSentence, Sentiment

#: Tokens that a model of the paper saw: steps, windows in a batch, tokens in a window (App. E.2).
TOKENS_OF_THE_PAPER = 50_000 * 16 * 1024
#: Parameters as the paper gives them, in the order of `counted_parameters`.
REPORTED_PARAMETERS = ("584", "414K", "446K", "446K")
#: By how much a classifier must be right more often than the more frequent label, to have learnt.
LEARNT = 0.1
#: How many words tell a sentence of Table 4 from the others.
_OPENING = 5

# ---- Sizes ---------------------------------------------------------------------------------------


def parameters(model: torch.nn.Module) -> int:
    """How many parameters a model has, without those of its LayerNorms."""
    return sum(p.numel() for name, p in model.named_parameters() if "LayerNorm" not in name)


def counted_parameters() -> dict[str, int]:
    """Parameters of the paper's models as Hugging Face builds them, by model; no weights are made.

    Width 8, four layers of four heads; the FFN as wide as the library's default.
    """
    narrow = {"hidden_size": 8, "num_hidden_layers": 4, "num_attention_heads": 4}
    with torch.device("meta"):  # sizes, without weights
        language_model = hf.GPT2LMHeadModel(hf.GPT2Config(n_embd=8, n_layer=4, n_head=4))
        cased_config = hf.BertConfig(vocab_size=28_996, **narrow)
        cased = hf.BertForSequenceClassification(cased_config)
        uncased_config = hf.BertConfig(vocab_size=30_522, **narrow)
        uncased = hf.BertForSequenceClassification(uncased_config)
    return {
        "majority": parameters(majority.MajorityTransformer(majority.arm("layernorm"))),
        "language model, GPT-2's vocabulary": parameters(language_model),
        "sentiment, BERT's cased vocabulary": parameters(cased),
        "sentiment, BERT's uncased vocabulary": parameters(uncased),
    }


def parameter_table(counts: Mapping[str, int]) -> pd.DataFrame:
    """Counted parameters beside those that the paper reports, a row a model."""
    table = {"counted": list(counts.values()), "reported": REPORTED_PARAMETERS}
    return pd.DataFrame(table, index=[*counts]).rename_axis(columns="model")


def tokens_seen(arms: Sequence[FrozenArm]) -> int:
    """Tokens that each of the short runs of width 8 saw in training."""
    (seen,) = {run.record["tokens_seen"] for run in short_runs(arms) if run.d == 8}
    return seen


# ---- Table 1 on windows drawn at random ----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DrawnWindows:
    """Unselectable keys without scaling, on windows drawn at random: shares [layer].

    searched, exact: as the paper's search counts them, and all; in shares of the keys, over seeds
    and windows. between_seeds: the range of the seeds' means, mean over layers; of_a_seed: standard
    error of a seed's mean over its windows; both in percentage points and by the search.
    """

    searched: Float[np.ndarray, "layer"]
    exact: Float[np.ndarray, "layer"]
    between_seeds: float
    of_a_seed: float

    def table(self) -> pd.DataFrame:
        """Beside Table 1 of the paper, in percent, a column a layer."""
        rows = {"Table 1": np.array(TABLE_1), "as searched": 100 * self.searched}
        rows["exact"] = 100 * self.exact
        columns = pd.Index(
            [f"layer {number + 1}" for number in range(len(self.exact))], name="unselectable (%)"
        )
        return pd.DataFrame(rows, index=columns).T


def drawn_windows(shares: Mapping[str, Float[np.ndarray, "seed layer window"]]) -> DrawnWindows:
    """Shares as `language_models.read_table_1` reads them, over windows and seeds."""
    searched = shares["search"]
    by_seed = searched.mean(axis=2)
    deviation = searched.std(axis=2, ddof=1).mean()
    return DrawnWindows(
        searched=searched.mean(axis=(0, 2)),
        exact=shares["exact"].mean(axis=(0, 2)),
        between_seeds=float(100 * np.ptp(by_seed, axis=0).mean()),
        of_a_seed=float(100 * deviation / searched.shape[2] ** 0.5),
    )


# ---- Long runs -----------------------------------------------------------------------------------


def loss_above(runs: LongRuns, arm: str, other: str) -> Interval:
    """Held-out loss of an arm less that of another, over pairs of one seed; Student's interval."""
    pairs = runs.pairs(arm, other, "held_out_loss")
    return Interval(*mean_and_interval(pairs[:, 0] - pairs[:, 1]))


def largest_rise(runs: LongRuns, arm: str) -> float:
    """By how much the held-out loss of a run of an arm was, at most, above its least before."""
    losses = runs.losses[runs.arm(arm), ..., 1]
    return float((losses - np.minimum.accumulate(losses, axis=1)).max())


def ends_of_arms(runs: LongRuns, arms: Iterable[str] = ("full", "no-scaling")) -> pd.DataFrame:
    """One row an arm: 'largest rise' of its loss; unselectable keys at the end, as shares.

    'in heads' and 'in layers': means over seeds and layers.
    """
    rows = {
        arm: {
            "largest rise": largest_rise(runs, arm),
            "in heads": runs.shares(arm, PLACES["in the heads"])[:, -1].mean(),
            "in layers": runs.shares(arm, PLACES["in the layer"])[:, -1].mean(),
        }
        for arm in arms
    }
    return pd.DataFrame(rows).T.rename_axis("arm")


def share_of_the_papers_length(runs: LongRuns) -> float:
    """How long the runs are, in tokens, as a share of the paper's."""
    return float(runs.tokens[-1] * 1e6 / TOKENS_OF_THE_PAPER)


def best_rates(runs: LongRuns) -> set[float]:
    """The learning rates at which the arms' short runs ended with their least held-out loss."""
    return {float(runs.rates[place]) for place in runs.sweep[..., 1].argmin(axis=1)}


# ---- Words ---------------------------------------------------------------------------------------


def marked_and_lost(sentences: Iterable[MarkedSentence]) -> list[str]:
    """The words in bold in the paper that are unselectable here, as often as they occur."""
    return [
        word
        for sentence in sentences
        for word, lost, bold in zip(sentence.words, sentence.exact, sentence.bold, strict=True)
        if lost and bold
    ]


class BoldWords(NamedTuple):
    """The words in bold in the paper: how many there are, and how many are unselectable here.

    by_chance: the probability that one of them is or more, if each is as a word drawn at random.
    """

    marked: int
    lost: int
    by_chance: float


def bold_words(sentences: Sequence[MarkedSentence], share_of_words: float) -> BoldWords:
    """The bold words of some sentences; `share_of_words`: the share of all words that is lost."""
    marked = sum(sum(sentence.bold) for sentence in sentences)
    by_chance = 1 - (1 - share_of_words) ** marked
    return BoldWords(marked, len(marked_and_lost(sentences)), by_chance)


def classifier_table(sentiment: Sentiment, names: Mapping[str, str]) -> pd.DataFrame:
    """A row an arm, means over seeds: 'right', 'in layer 1' … and 'in some layer', as shares.

    right: of the sentences; the others: of all words, those that are unselectable there. names:
    what each arm is called.
    """
    rows = {}
    for arm, name in names.items():
        place = sentiment.of(arm)
        by_layer = sentiment.by_layer[place].mean(axis=0)
        rows[name] = {
            "right": sentiment.right[place].mean(),
            **{f"in layer {number}": share for number, share in enumerate(by_layer, start=1)},
            "in some layer": sentiment.unselectable[place].mean(),
        }
    return pd.DataFrame(rows).T.rename_axis("in LayerNorm's place")


def table_4(sentiment: Sentiment, names: Mapping[str, str]) -> pd.DataFrame:
    """A row a bold word of the paper's Table 4; by arm, how many of its models lose the word.

    The last row is the mean over all words of these sentences. names: what each arm is called.
    """
    seeds = range(sentiment.right.shape[1])
    columns = {}
    for arm, name in names.items():
        by_seed = [sentiment.marked(arm, seed) for seed in seeds]
        by_sentence = zip(*by_seed, strict=True)
        losses = [np.sum([sentence.exact for sentence in same], axis=0) for same in by_sentence]
        bold = [np.array(sentence.bold) for sentence in by_seed[0]]
        of_bold = [times[marks] for times, marks in zip(losses, bold, strict=True)]
        columns[name] = [*np.concatenate(of_bold), np.concatenate(losses).mean()]
    sentences = sentiment.marked(next(iter(names)))
    rows = [
        (f"{' '.join(sentence.words[:_OPENING])} …", word)
        for sentence in sentences
        for word, is_bold in zip(sentence.words, sentence.bold, strict=True)
        if is_bold
    ]
    index = pd.MultiIndex.from_tuples(
        [*rows, ("all five sentences", "a word, in the mean")], names=["sentence", "bold there"]
    )
    return pd.DataFrame(columns, index=index)


def seeds_that_learn(sentiment: Sentiment) -> Int[np.ndarray, "arm"]:
    """In each arm, how many seeds are right more often than the frequent label, by `LEARNT`."""
    right = sentiment.right.mean(axis=2)
    return (right > sentiment.majority + LEARNT).sum(axis=1)


def classifiers_compared(sentiment: Sentiment) -> pd.DataFrame:
    """Without scaling and without LayerNorms, in points, with 95 % intervals; a row an arm.

    right: how much more often the classifier with LayerNorms is right; lost: how much more often
    words that decide are unselectable than neutral ones as frequent: words in ten training
    sentences or more whose share of positive ones is three standard errors off, or less than one.
    """
    rows = {}
    for arm in ("no-scaling", "none"):
        lost = exposure(sentiment, arm, least=10, decides=3.0, neutral=1.0)
        rows[arm] = (*lead(sentiment, "full", arm), lost.difference, lost.low, lost.high)
    names = [f"{what}{end}" for what in ("right", "lost") for end in ("", ", from", ", to")]
    return 100 * pd.DataFrame.from_dict(rows, orient="index", columns=names)


def share_of_lost_words(sentiment: Sentiment, arm: str, seed: int = 0) -> float:
    """The share of all words that one model of an arm cannot select in some layer."""
    return float(sentiment.unselectable[sentiment.of(arm), seed].mean())


# ---- Beside the law ------------------------------------------------------------------------------


def ratios(law: Mapping[str, np.ndarray], record: Mapping[str, Any], name: str) -> Interval:
    """A set's effective dimensions through its real ones, by width; NaN where it was not asked."""
    place = record["sets"].index(name)
    rows = np.where(law["asked"][place][:, None], law["ratio"][place], np.nan)
    return Interval.rows(rows)


def furthest(ratio: Interval) -> Interval:
    """The ratio of the width at which a set lies furthest from the law."""
    place = int(np.nanargmax(np.abs(np.log(ratio.value))))
    return Interval(*(end[place] for end in ratio))


def ratio_table(law: Mapping[str, np.ndarray], record: Mapping[str, Any]) -> pd.DataFrame:
    """Of every set: as how many times its dimensions it does, at the widths that were asked."""
    rows = {}
    for name in record["sets"]:
        value, low, high = ratios(law, record, name)
        rows[SETS[name]] = {
            f"d′ = {width}": f"{value[i]:.2f} [{low[i]:.2f}, {high[i]:.2f}]"
            for i, width in enumerate(record["dims"])
            if np.isfinite(value[i])
        }
    return pd.DataFrame(rows).T.rename_axis("keys of")


# ---- All layers ----------------------------------------------------------------------------------


def layers_at_hand(results: Path, models: Iterable[str]) -> dict[str, LayerVerdicts]:
    """The frozen verdicts on all layers of those models that have some."""
    return {
        name: LayerVerdicts.read(results / name)
        for name in models
        if (results / name / f"{LayerVerdicts.NAME}.json").is_file()
    }


def lost_in_a_quarter(layers: Mapping[str, LayerVerdicts]) -> pd.DataFrame:
    """Keys that are lost in a quarter of a head's dimensions, a row a model, as text.

    The largest share of a head; and of each property, in the mean, how probably a lost key has more
    than one that is not, with its interval over windows.
    """
    rows = {
        name: [
            f"up to {verdicts.by_head(1).max():.0%}",
            *(f"{mean:.2f} [{low:.2f}, {high:.2f}]" for mean, low, high in verdicts.common(1)),
        ]
        for name, verdicts in layers.items()
    }
    columns = ["of a head's keys", *(f"more of: {what}" for what in PROPERTIES)]
    return pd.DataFrame(rows, index=columns).rename_axis("lost in a quarter").T


# ---- What the page says --------------------------------------------------------------------------


def checks(
    seen: int,
    drawn: DrawnWindows,
    long: LongRuns,
    bold: BoldWords,
    sentiment: Sentiment,
    all_layers: Mapping[str, LayerVerdicts],
    judged: Mapping[str, str],
) -> Iterator[Check]:
    """What the page says of its experiments; judged: the verdict on B10."""
    yield says(
        "saw 2.6 million tokens each, 0.3 % of the paper's", seen, seen / TOKENS_OF_THE_PAPER
    )
    yield says(
        "fewer unselectable keys than there are, in every layer", drawn.exact > drawn.searched
    )
    yield says("Seeds differ by several points", drawn.between_seeds > 2, found=drawn.between_seeds)
    yield from _checks_of_long_runs(long)
    yield says("So … is undecided", judged["B10"] == "undecided")
    yield says("One of the paper's seven bold words", bold.lost == 1, bold.marked == 7)
    yield says("two times in five", 0.35 < bold.by_chance < 0.45, found=bold.by_chance)
    yield from _checks_of_classifiers(sentiment)
    lost = [int(keys.unselectable[0].sum()) for keys in all_layers.values()]
    yield says("No key is unselectable", np.array(lost) == 0, found=lost)
    most = max(float(keys.by_head(1).max()) for keys in all_layers.values())
    yield says("up to three tenths of a head's keys", 0.25 < most < 0.35, found=most)
    of_tokens_and_places = [keys.common(1)[:2, 2].max() for keys in all_layers.values()]
    yield says(
        "not of more frequent tokens and do not stand later",
        np.array(of_tokens_and_places) < 0.535,
        found=of_tokens_and_places,
    )
    of_words = Guaranteed.read(data_folder() / "results" / "book-llama").greatest[0, 1]
    yield says("9 % of the whole words asked cannot give", (of_words < 0.5).all(axis=0).mean())


def checks_beside_the_law(
    law: Mapping[str, np.ndarray], record: Mapping[str, Any], judged: Mapping[str, str]
) -> Iterator[Check]:
    """What the page says of keys beside Gaussian ones; judged: the verdicts on U4, by set."""
    least = [np.nanmin(ratios(law, record, kind).value) for kind in record["sets"]]
    yield says("fewer keys are lost, never more", np.array(least) > 1, found=least)
    fails = ("full", "gpt2")
    yield says(
        "It holds without scaling",
        [judged[kind] == ("fails" if kind in fails else "holds") for kind in record["sets"]],
    )


def _checks_of_long_runs(long: LongRuns) -> Iterator[Check]:
    heads = long.shares("full", PLACES["in the heads"])
    layers = long.shares("no-scaling", PLACES["in the layer"])
    yield says(
        "Unselectable keys do not go away with training",
        heads[:, -1].mean() > 0.95,
        layers[:, -1].mean() > 0.35,
    )
    unscaled = loss_above(long, "no-scaling", "full")
    yield says(
        "from 0.044 nats for scaling's harm to 0.074 for its use", -unscaled.low, unscaled.high
    )
    rises = ends_of_arms(long)["largest rise"]
    yield says(
        "The unscaled arm is the unstable one", rises["no-scaling"] > 2 * rises["full"], found=rises
    )
    yield says("the highest tried in every arm", best_rates(long) == {max(long.rates)})


def _checks_of_classifiers(sentiment: Sentiment) -> Iterator[Check]:
    learn = seeds_that_learn(sentiment)
    chosen = sentiment.record["search"]["none"]["chosen"]
    yield says(
        "learns as well, if its initial weights are larger than BERT's",
        learn == sentiment.right.shape[1],
        chosen["initial_scale"] > 0.02,
    )
    less = -classifiers_compared(sentiment)
    right = less[["right", "right, to", "right, from"]]
    yield says(
        "3.8 points less often [−1.4, 8.9] than with the projection alone, and 3.0 [−2.5, 8.5]",
        right.to_numpy(),
    )
    lost = less[["lost", "lost, to", "lost, from"]]
    yield says(
        "1.2 points less often [−1.3, 3.9], with nothing 0.5 [−0.1, 1.1]",
        lost.to_numpy(),
    )
    arms = {"no-scaling": "projection only", "none": "nothing"}
    marks = table_4(sentiment, arms).iloc[:-1]
    words = marks.index.get_level_values(1)[marks.any(axis=1)].tolist()
    yield says("Of the six words", len(marks) == 6)
    yield says("one is lost here: wild", words == ["wild"])
