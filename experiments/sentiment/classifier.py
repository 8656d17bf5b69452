"""A small BERT that tells the sentiment of a sentence, with LayerNorms and without (Table 4).

Brody et al. 2023, App. D and E.3: the architecture of BERT at width 8 with 4 layers and without
LayerNorms, trained on the treebank's sentences. A word is what the treebank separates by spaces;
words that occur once in training share one token. In a BERT each LayerNorm stands behind a sum of
the residual stream, so that what attention reads is the output of one.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

from experiments.unselectable_lm.small_models import ProjectionOnly
from experiments.unselectable_lm.words import treebank_rows
from lnattn.errors import CheckpointError, CorpusError
from lnattn.selectability.decide import selectability

#: What stands in the place of every LayerNorm; None: the LayerNorm itself, with gain and bias.
ARMS: Mapping[str, type[nn.Module] | None] = {
    "full": None,
    "no-scaling": ProjectionOnly,
    "none": nn.Identity,
}
#: The first tokens of every vocabulary.
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
_PAD, _UNKNOWN, _CLS, _SEP = range(4)


@dataclass(frozen=True)
class Treebank:
    """Sentences as words, and whether each is positive."""

    sentences: tuple[tuple[str, ...], ...]
    positive: Bool[np.ndarray, "sentence"]

    @classmethod
    def read(cls, path: Path | str) -> Treebank:
        """Columns `sentence` and `label` (0 or 1) of a tab-separated file, else `CorpusError`."""
        rows = treebank_rows(path, "sentence", "label")
        unknown = {row["label"] for row in rows} - {"0", "1"}
        if unknown or not rows:
            raise CorpusError(f"{path}: labels must be 0 or 1; found {sorted(unknown) or 'none'}.")
        sentences = tuple(tuple(row["sentence"].split()) for row in rows)
        return cls(sentences, np.array([row["label"] == "1" for row in rows]))

    def part(self, rows: Int[np.ndarray, "kept"]) -> Treebank:
        """Some of the sentences."""
        return Treebank(tuple(self.sentences[i] for i in rows), self.positive[rows])


@dataclass(frozen=True)
class ClassifierPlan:
    """Everything that decides a run besides its arm, its seed and its sentences.

    Width, layers and heads as in the paper's language model, an FFN of 4 d instead of BERT's 3072,
    no dropout, and far fewer steps than 50,000. initial_scale: standard deviation of the initial
    weights, BERT's by default; warmup: share of the steps, after which the rate decays linearly.
    """

    learning_rate: float = 3e-3
    initial_scale: float = 0.02
    d_model: int = 8
    layers: int = 4
    heads: int = 4
    d_mlp: int = 32
    epochs: int = 3
    batch: int = 64
    warmup: float = 0.1
    weight_decay: float = 0.01
    dropout: float = 0.0


class Vocabulary:
    """Words that occur at least twice, the most frequent first, behind BERT's special tokens."""

    def __init__(self, sentences: Sequence[Sequence[str]]) -> None:
        counts = Counter(word for sentence in sentences for word in sentence)
        words = [word for word, count in counts.most_common() if count > 1]
        self.tokens = (*_SPECIAL, *words)
        self._ids = {word: i for i, word in enumerate(self.tokens)}

    def __len__(self) -> int:
        return len(self.tokens)

    def ids(self, sentence: Sequence[str]) -> list[int]:
        """[CLS], one token a word, [SEP]."""
        return [_CLS, *(self._ids.get(word, _UNKNOWN) for word in sentence), _SEP]


def new_classifier(
    plan: ClassifierPlan, arm: str, vocabulary: int, positions: int
) -> BertForSequenceClassification:
    """An untrained model of an arm; it draws from torch's random state, the same in all arms."""
    if arm not in ARMS:
        raise CheckpointError(f"there is no arm {arm!r}; there are {', '.join(ARMS)}.")
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=plan.d_model,
        num_hidden_layers=plan.layers,
        num_attention_heads=plan.heads,
        intermediate_size=plan.d_mlp,
        max_position_embeddings=positions,
        hidden_dropout_prob=plan.dropout,
        attention_probs_dropout_prob=plan.dropout,
        initializer_range=plan.initial_scale,
        pad_token_id=_PAD,
        attn_implementation="eager",
    )
    model = BertForSequenceClassification(config)
    instead = ARMS[arm]
    if instead is not None:
        for name, module in list(model.named_modules()):
            if isinstance(module, nn.LayerNorm):
                model.set_submodule(name, instead())
    return model


def train_classifier(
    sentences: Treebank, vocabulary: Vocabulary, arm: str, plan: ClassifierPlan, seed: int
) -> BertForSequenceClassification:
    """Train one model with AdamW; the same seed gives the same model. It is left in eval mode.

    The caller's random state is left alone.
    """
    ids = [vocabulary.ids(sentence) for sentence in sentences.sentences]
    labels = torch.from_numpy(sentences.positive.astype(np.int64))
    steps = plan.epochs * -(-len(ids) // plan.batch)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = new_classifier(plan, arm, len(vocabulary), positions=64)
        optimiser = torch.optim.AdamW(
            model.parameters(), lr=plan.learning_rate, weight_decay=plan.weight_decay, fused=True
        )
        schedule = get_linear_schedule_with_warmup(optimiser, round(plan.warmup * steps), steps)
        model.train()
        for epoch in range(plan.epochs):
            order = np.random.default_rng([seed, epoch]).permutation(len(ids))
            for rows in _batches(order, plan.batch):
                loss = model(**_padded([ids[i] for i in rows]), labels=labels[rows]).loss
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                schedule.step()
    return model.eval()


@torch.inference_mode()
def is_right(
    model: BertForSequenceClassification, vocabulary: Vocabulary, sentences: Treebank
) -> Bool[np.ndarray, "sentence"]:
    """Whether the model names each sentence's label."""
    ids = [vocabulary.ids(sentence) for sentence in sentences.sentences]
    logits = [
        model(**_padded([ids[i] for i in rows])).logits
        for rows in _batches(np.arange(len(ids)), 256)
    ]
    return torch.cat(logits).argmax(dim=-1).numpy().astype(bool) == sentences.positive


def keys_of_sentences(
    model: BertForSequenceClassification, ids: Sequence[Sequence[int]]
) -> Iterator[Float[np.ndarray, "layer n d"]]:
    """What attention reads in each layer, sentence by sentence, [CLS] and [SEP] among it."""
    for rows in _batches(np.arange(len(ids)), 64):
        batch = [ids[i] for i in rows]
        with torch.inference_mode():
            states = model(**_padded(batch), output_hidden_states=True).hidden_states
        layers = torch.stack(states[:-1]).numpy()
        yield from (layers[:, i, : len(sentence)] for i, sentence in enumerate(batch))


def unselectable_words(
    model: BertForSequenceClassification,
    vocabulary: Vocabulary,
    sentences: Sequence[Sequence[str]],
) -> Bool[np.ndarray, "layer word"]:
    """Which words are keys that no query can select, of each layer; all sentences end to end.

    Decided in float64. [CLS] and [SEP] are keys like any other, but no words.
    """
    double = copy.deepcopy(model).double()
    marks = [
        np.stack([~selectability(layer).selectable for layer in keys])[:, 1:-1]
        for keys in keys_of_sentences(double, [*map(vocabulary.ids, sentences)])
    ]
    return np.concatenate(marks, axis=1)


def _batches(order: Int[np.ndarray, "sentence"], size: int) -> Iterator[Int[np.ndarray, "batch"]]:
    return (order[start : start + size] for start in range(0, len(order), size))


def _padded(ids: Sequence[Sequence[int]]) -> dict[str, Tensor]:
    longest = max(map(len, ids))
    tokens = torch.tensor([[*sentence, *[_PAD] * (longest - len(sentence))] for sentence in ids])
    return {"input_ids": tokens, "attention_mask": (tokens != _PAD).long()}
