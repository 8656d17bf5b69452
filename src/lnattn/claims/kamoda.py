"""The rules of the survey: for each claim about first layers, one number and when it holds.

Chapters 06 to 09 look at one model closely. Here every claim of Kamoda et al. 2025 is cut down to
one number, the same for every model, so that models can be set side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lnattn.attention.folding import FoldedAttention, fold
from lnattn.studies.affinity import auroc
from lnattn.studies.affinity import vectors as affinity
from lnattn.studies.contribution import study as contribution
from lnattn.studies.position import curves as position
from lnattn.studies.position import measured as measured_attention
from lnattn.studies.position import variance
from lnattn.studies.position.bias import position_bias
from lnattn.studies.position.first_token import first_token_switch
from lnattn.studies.position.sigma import InverseSigma, inverse_sigma_bands
from lnattn.text.ngrams import count_bigrams
from lnattn.weights import FirstLayer

#: First and second word of common names; a model is asked about those that are tokens of its own.
NAMES = tuple(
    tuple(name.split())
    for name in (
        "Michael Jackson",
        "New York",
        "Michelle Obama",
        "Los Angeles",
        "San Francisco",
        "United States",
        "Prime Minister",
        "Hong Kong",
        "Great Britain",
        "North Korea",
        "Soviet Union",
        "Civil War",
        "Supreme Court",
        "Nobel Prize",
        "Las Vegas",
        "Saudi Arabia",
        "Puerto Rico",
        "high school",
        "video game",
        "years old",
    )
)

#: Query tokens whose AUROC is taken; windows of measured attention, and tokens in each; documents
#: whose six terms are compared.
_AUROC_QUERIES = 400
_WINDOWS, _WINDOW = 64, 128
_DOCUMENTS = 30


@dataclass(frozen=True)
class Rule:
    """How a claim is cut down to one number.

    measure: what the number is, as a phrase; holds_if: the rule in words; spec: format of a value.
    """

    measure: str
    holds_if: str
    compute: Callable[[Subject], tuple[float, bool, str]]
    needs_tokens: bool = True
    spec: str = ".2f"


class Subject:
    """A model and the texts it is asked about; what several rules need is computed once."""

    def __init__(self, model: FirstLayer, documents: Sequence[Sequence[int]], seed: int) -> None:
        self.model, self.seed = model, seed
        self.documents = [list(ids) for ids in documents if len(ids) > 1]
        self.embeddings = model.embeddings

    @cached_property
    def folded(self) -> FoldedAttention:
        return fold(self.model.attention)

    @cached_property
    def vectors(self) -> affinity.TokenVectors:
        return affinity.token_vectors(self.folded, self.embeddings)

    @cached_property
    def inverse_sigma(self) -> InverseSigma | None:
        if self.model.is_partial:
            return None
        return inverse_sigma_bands(self.embeddings, self.folded.eps)

    @cached_property
    def nearness(self) -> position.Nearness:
        return position.nearness(self.folded, self.embeddings.W_P, self.inverse_sigma)

    @cached_property
    def inputs(self) -> variance.VarianceOfInputs:
        return variance.variance_of_inputs(self.embeddings, self.folded.eps)

    @cached_property
    def frequency(self) -> variance.FrequencyStudy:
        counts = np.bincount(np.concatenate(self.documents), minlength=self.embeddings.vocab_size)
        return variance.frequency_study(self.folded, self.embeddings, self.inputs, counts)

    @cached_property
    def name_ids(self) -> tuple[list[int], list[int]]:
        """Ids of first and second words, of the names whose words are single tokens."""
        found = [
            (single_token(self.model.tokenizer, a), single_token(self.model.tokenizer, b))
            for a, b in NAMES
        ]
        pairs = [(a, b) for a, b in found if a is not None and b is not None]
        return [a for a, _ in pairs], [b for _, b in pairs]


def single_token(tokenizer: Any, word: str) -> int | None:
    """The id of a word that is one token in running text, or None."""
    ids = tokenizer(f" {word}", add_special_tokens=False)["input_ids"]
    return ids[0] if len(ids) == 1 and ids[0] != tokenizer.unk_token_id else None


# ---- one function for each claim: (value, does it hold, note) -----------------------------------


def _names(subject: Subject) -> tuple[float, bool, str]:
    first, second = subject.name_ids
    best = affinity.ranks(subject.vectors, second, first).min(dim=1).values.double()
    return float(best.median()), bool(best.median() <= 10), f"{len(first)} names"


def _same_token(subject: Subject) -> tuple[float, bool, str]:
    z = affinity.same_token_z(subject.vectors).mean(dim=1)
    return float(z.max()), bool(z.max() > 2 and z.min() < 1), f"lowest head {float(z.min()):.1f}"


def _bigrams(subject: Subject) -> tuple[float, bool, str]:
    vocab = subject.embeddings.vocab_size
    counts = sum(count_bigrams(np.array(ids), vocab) for ids in subject.documents)
    before = auroc.Neighbours.before(counts)
    having = np.flatnonzero(before.n_distinct)
    some = np.random.default_rng(subject.seed).choice(
        having, min(_AUROC_QUERIES, len(having)), replace=False
    )
    best = auroc.head_auroc(subject.vectors, before, some).mean().max()
    mixed = auroc.head_auroc(subject.vectors.shuffled(subject.seed), before, some).mean().max()
    return float(best), bool(best > mixed + 0.05), f"tokens shuffled: {mixed:.2f}"


def _rising(subject: Subject) -> tuple[float, bool, str]:
    bias = position_bias(subject.folded, subject.embeddings.W_P, [0], subject.inverse_sigma)
    rho = np.array([position.trend(curve).spearman for curve in bias.term_p().mean])
    share = (rho > 0.9).mean()
    note = "" if bias.has_sigma else "σ left out"
    return float(share), bool(share >= 0.5), note


def _near(subject: Subject) -> tuple[float, bool, str]:
    distance = np.median(subject.nearness.peak, axis=1)
    share = (distance <= 10).mean()
    return float(share), bool(share >= 0.5), "" if subject.inverse_sigma else "σ left out"


def _concentrated(subject: Subject) -> tuple[float, bool, str]:
    late = subject.nearness.share[:, subject.embeddings.n_positions // 2 :].mean(axis=1)
    even = subject.nearness.uniform[subject.embeddings.n_positions // 2 :].mean()
    return float(np.median(late)), bool(np.median(late) > 0.5), f"even attention: {even:.2f}"


def _measured(subject: Subject) -> tuple[float, bool, str]:
    texts = measured_attention.windows(subject.documents, _WINDOW)[:_WINDOWS]
    query = _WINDOW - 1
    seen = measured_attention.measured_attention(
        subject.folded, subject.embeddings, texts, [query]
    ).mean[:, 0, :_WINDOW]
    places = subject.embeddings.W_P[:_WINDOW]
    inverse = subject.inverse_sigma
    assert inverse is not None  # the rule needs tokens
    shorter = InverseSigma(inverse.mean[:_WINDOW], None, None)
    by_position = position_bias(subject.folded, places, [query], shorter).attention()[:, 0]
    rho = [variance.spearman(a[:-1], b[:-1]).rho for a, b in zip(seen, by_position, strict=True)]
    return float(max(rho)), bool(max(rho) > 0.9), f"lowest head {min(rho):.2f}"


def _terms(subject: Subject) -> tuple[float, bool, str]:
    result = contribution.contributions(
        subject.folded, subject.embeddings, subject.documents[:_DOCUMENTS]
    )
    means = dict(zip(contribution.TERMS, result.grand_mean()[:, -1], strict=True))
    ratio = min(means[t] for t in ("ee", "e", "p", "pp")) / max(means["ep"], means["pe"])
    return float(ratio), bool(ratio > 1), " > ".join(result.ranking())


def _frequency(subject: Subject) -> tuple[float, bool, str]:
    rho = np.abs([found.rho for found in subject.frequency.head_correlations])
    return float((rho > 0.5).mean()), bool((rho > 0.5).sum() >= 3), f"largest |ρ| {rho.max():.2f}"


def _rare(subject: Subject) -> tuple[float, bool, str]:
    found = subject.frequency.variance_correlation
    norms = variance.token_norms(subject.embeddings.W_E, subject.folded.eps)
    evened = norms.cv_after < norms.cv_before
    holds = found.high < 0 and evened and subject.inputs.ratio > 10
    return found.rho, holds, f"Var(e) is {subject.inputs.ratio:.0f} × |Cov(e, p)|"


def _first_position(subject: Subject) -> tuple[float, bool, str]:
    ends = variance.position_outliers(subject.embeddings.W_P)
    var = variance.variances(subject.embeddings.W_P.double())
    holds = ends.first > 10 and ends.last_log < -10
    note = f"z: first {ends.first:.0f}, last (of the logarithm) {ends.last_log:.0f}"
    return float(var[0] / var.median()), bool(holds), note


def _last_row(subject: Subject) -> tuple[float, bool, str]:
    ratio = float(np.median(position.last_rows(subject.folded, subject.embeddings.W_P).ratio))
    return ratio, ratio < 0.1, ""


def _switch(subject: Subject) -> tuple[float, bool, str]:
    inverse = subject.inverse_sigma
    assert inverse is not None  # the rule needs tokens
    found = first_token_switch(subject.folded, subject.embeddings.W_P, inverse)
    shunned = found.score < 0
    if not shunned.any():
        return 1.0, False, "no head has a negative score at position 0"
    gain = float(np.median(found.amplification()[shunned]))
    return gain, bool(shunned.mean() > 0.5 and gain > 1.1), f"{int(shunned.sum())} heads below 0"


#: Every claim that can be asked of any model, in the order of the book.
RULES: dict[str, Rule] = {
    "K3": Rule("median rank of a name's first word, best head", "at most 10", _names, spec=".0f"),
    "K4": Rule("largest same-token z of a head", "above 2, and a head below 1", _same_token),
    "K5": Rule("AUROC of the best head", "0.05 above shuffled tokens", _bigrams),
    "K6": Rule("share of heads whose T^p rises (ρ > 0.9)", "half or more", _rising, False),
    "K7": Rule("share of heads whose T^pp peaks within 10", "half or more", _near, False),
    "K8": Rule("attention by position on the 10 nearest", "above one half", _concentrated),
    "K9": Rule("rank correlation with text, best head", "above 0.9", _measured),
    "K10": Rule("weakest of ee, e, p, pp over strongest of ep, pe", "above 1", _terms),
    "K11": Rule("share of heads with |ρ(T^e, count)| > 0.5", "three heads or more", _frequency),
    "K12": Rule("ρ(Var(e), count)", "below 0, norms evened, Cov small", _rare),
    "K13": Rule(
        "Var(p_0) over the median", "z > 10 first, < −10 last", _first_position, False, ".1f"
    ),
    "K14": Rule("spread of the last p_i W_QK p_jᵀ over its neighbours'", "< 0.1", _last_row, False),
    "K15": Rule("attention on position 0: own σ over ordinary σ", "> 1.1, most heads", _switch),
}
