"""Which claims about first layers hold for which model, and for models that learned nothing.

Every claim is asked by its one rule; the chapters that look at a claim closely call the same rule
with the same results. Beside a model stands its *null*: the same model with the entries of every
tensor in random order. A claim that the null passes too says nothing about training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lnattn.affinity.auroc import Neighbours, head_auroc, wrong_queries
from lnattn.attention.folding import fold
from lnattn.attention.nulls import permuted_weights
from lnattn.attention.vectors import TokenVectors, ranks, same_token_z, token_vectors
from lnattn.contribution.study import contributions
from lnattn.errors import ResultError
from lnattn.position import curves
from lnattn.position.bias import position_bias, share_of_context
from lnattn.position.measured import compare_with_position_only, measured_attention, near_share
from lnattn.position.sigma import inverse_sigma_bands
from lnattn.position.without_tokens import position_only
from lnattn.rotary.weights import AnyFirstLayer
from lnattn.stats import bootstrap_means
from lnattn.storage import provenance, read_result, write_result
from lnattn.text.counts import Counts
from lnattn.weights import FirstLayer
from lnattn_book.claims import kamoda
from lnattn_book.claims.found import in_words
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.ledger import as_record
from lnattn_book.claims.listed import claim
from lnattn_book.claims.rules import not_computable
from lnattn_book.claims.verdicts import UNDECIDED, VERDICTS, Record
from lnattn_book.studies import samples, table1, variance
from lnattn_book.studies.affinity_study import affinity_study, counts_and_source
from lnattn_book.studies.detokenization import AffinityResult, detokenization
from lnattn_book.studies.first_token import FirstTokenSwitch, first_token_switch

#: The claims that are asked.
ASKED = tuple(f"K{n}" for n in range(3, 16))
#: Tokens of the windows in which the 'if first token' switch is tried.
SWITCH_WINDOW = 256
#: Query tokens whose AUROC is taken where no whole study is given: nulls, which need no more.
_AUROC_QUERIES = 400
#: Draws of a bootstrap over the tokens of a vocabulary.
_DRAWS = 200


@dataclass(frozen=True)
class Surveyed:
    """A model and what its claims are asked with.

    windows_of_length: windows of text of a given length, in tokens, without special tokens;
    documents: as the model expects to read them, cut to its context; counts: of a large corpus in
    the model's tokens; study: its affinity study (where None, AUROCs are of a sample of query
    tokens). name: what verdicts call the model. A partial checkpoint needs none of these.
    """

    model: FirstLayer
    windows_of_length: Callable[[int], np.ndarray] | None = None
    documents: Sequence[Sequence[int]] = ()
    counts: Counts | None = None
    study: AffinityResult | None = None
    seed: int = 0
    name: str = ""


def evidence(
    model: FirstLayer, *, with_study: bool = True, name: str = "", counts: Counts | None = None
) -> Surveyed:
    """What the claims about a first layer are asked with: the shipped texts, counts, its study.

    with_study: take the affinity study of all query tokens (frozen, or computed: minutes for
    GPT-2); without, a sample of query tokens must do. name: what verdicts call the model. counts:
    in its tokens, in place of those that ship with the book; the study is then computed here.
    """
    if model.is_partial:
        return Surveyed(model, name=name)
    source = study = None
    if counts is None:
        counts, source = counts_and_source(model)
    if with_study:
        vectors = token_vectors(fold(model.attention), model.embeddings)
        if source is None:
            study = detokenization(vectors, model.embeddings, counts)
        else:
            study, _ = affinity_study(vectors, model.embeddings, counts, source)
    return Surveyed(
        model,
        windows_of_length=lambda length: samples.sample_windows(model, length)[0],
        documents=samples.sample_framed(model),
        counts=counts,
        study=study,
        name=name,
    )


def survey(evidence: Surveyed) -> dict[str, Record]:
    """The verdict on each claim of `ASKED` for one model.

    A partial checkpoint gets those about positions only; the others say what is missing.
    """
    name = evidence.name or evidence.model.name
    judged = _of_positions(evidence, name) if evidence.model.is_partial else _of_all(evidence, name)
    records = {record.claim: record for record in judged}
    missing = f"needs {kamoda.TOKENS}"
    return {asked: records.get(asked) or not_computable(asked, name, missing) for asked in ASKED}


def _of_positions(evidence: Surveyed, name: str) -> list[Record]:
    """What is judged of a checkpoint without tokens."""
    positions = position_only(evidence.model)
    ends = variance.position_outliers(evidence.model.embeddings.W_P)
    steps = [curves.rising_steps(positions.term_p(), i) for i in positions.bias.queries]
    return [
        kamoda.k6(positions.spearman, steps, model=name),
        kamoda.k7(positions.table(), model=name),
        kamoda.k8(positions.near[:, :, -1], positions.echo[:, :, -1], model=name),
        kamoda.k13(first=ends.first, last=ends.last_log, spread=ends.interior_spread, model=name),
        kamoda.k14(ratio=positions.last.ratio, model=name),
    ]


def _of_all(evidence: Surveyed, name: str) -> list[Record]:
    """What is judged of a whole first layer."""
    if evidence.counts is None or evidence.windows_of_length is None:
        raise ResultError(f"the survey of {evidence.model.name} needs windows of text and counts.")
    tokens = evidence.model.embeddings
    counts = evidence.counts
    folded = fold(evidence.model.attention)
    queries = share_of_context(tokens.n_positions)
    sigma = inverse_sigma_bands(tokens, folded.eps)
    bias = position_bias(folded, tokens.W_P, queries, sigma)
    vectors = token_vectors(folded, tokens)
    pairs = table1.table1_ranks(vectors, evidence.model.tokenizer)
    length = queries[-1] + 1
    articles = samples.sample_articles(evidence.model, length)
    measured = measured_attention(
        folded, tokens, evidence.windows_of_length(length), queries, bias, articles
    )
    terms = contributions(folded, tokens, evidence.documents)
    inputs = variance.variance_of_inputs(tokens, folded.eps)
    known = variance.frequency_study(folded, tokens, inputs, counts.unigrams)
    ends = variance.position_outliers(tokens.W_P)
    switch = first_token_switch(
        folded, tokens, evidence.windows_of_length(min(tokens.n_positions, SWITCH_WINDOW))
    )
    shape = curves.position_table(bias, curves.nearness(folded, tokens.W_P, sigma))
    auroc = (
        auroc_of(evidence.study)
        if evidence.study
        else _sampled_auroc(vectors, counts, evidence.seed)
    )
    steps = [curves.rising_steps(bias.term_p().mean, i) for i in queries]
    trends = np.array([head.spearman for head in curves.trends_of(bias.term_p().mean)])
    near = near_share(bias.attention(), queries, bias.causal)[:, -1]
    iens = fig2a_ranks(vectors, evidence.model.tokenizer, name)
    return [
        kamoda.k3(pairs, iens, table1.ranks_by_chance(vectors, pairs), model=name),
        kamoda.k4(mean_z(same_token_z(vectors).numpy()), model=name),
        kamoda.k5(*auroc, table1.pair_heads(pairs), model=name),
        kamoda.k6(trends, steps, model=name),
        kamoda.k7(shape, model=name),
        kamoda.k8(near, curves.wave_recurrence(bias)[:, -1], model=name),
        kamoda.k9(compare_with_position_only(measured, bias), model=name),
        kamoda.k10(terms.document_sums, terms.document_rows, model=name),
        kamoda.k11(known.head_correlations, counts.tokens, model=name),
        kamoda.k12(known.variance_correlation, inputs.ratio, counts.tokens, model=name),
        kamoda.k13(first=ends.first, last=ends.last_log, spread=ends.interior_spread, model=name),
        kamoda.k14(ratio=curves.last_rows(folded, tokens.W_P).ratio, model=name),
        kamoda.k15(score=switch.score, amplification=amplified(switch), model=name),
    ]


def amplified(switch: FirstTokenSwitch) -> Interval:
    """What K15 takes of the switch, with intervals over texts that hold for all heads together."""
    return Interval.bootstrap_ratio(
        switch.true.mean(axis=-1), switch.median.mean(axis=-1)
    ).bonferroni()


def mean_z(z: np.ndarray) -> np.ndarray:
    """Same-token z-scores [head token] as K4 takes them: mean, low and high over tokens."""
    return bootstrap_means(np.asarray(z, dtype=np.float64), draws=_DRAWS)


def auroc_of(study: AffinityResult) -> tuple[np.ndarray, np.ndarray]:
    """What K5 takes of an affinity study: AUROC, and skill with its interval."""
    return study.mean_auroc(), study.skill


def _sampled_auroc(
    vectors: TokenVectors, counts: Counts, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The same for some query tokens."""
    before = Neighbours.before(counts.bigrams)
    having = np.flatnonzero(before.n_distinct)
    number = min(_AUROC_QUERIES, len(having))
    queries = np.sort(np.random.default_rng(seed).choice(having, number, replace=False))
    auroc = head_auroc(vectors, before, queries).values[:, queries]
    skill = bootstrap_means(auroc - wrong_queries(vectors, before, queries, seed=seed))
    return auroc.mean(axis=1), skill


def fig2a_ranks(vectors: TokenVectors, tokenizer: Any, name: str) -> list[float]:
    """Ranks of ‘ sap’ and ‘Al’ for ‘iens’ in head 7 of GPT-2 (Fig. 2A); of other models none."""
    if not claim("K3").is_about(name):
        return []
    asked, *keys = tokenizer.convert_tokens_to_ids(["iens", "Ġsap", "Al"])
    return ranks(vectors, [asked] * 2, keys)[:, 7].tolist()


def survey_of_null(evidence: Surveyed, seeds: Sequence[int] = range(5)) -> dict[str, Record]:
    """The survey of several nulls of one model as one: the best verdict that any of them gets.

    If a null passes, the claim is easy to meet by chance; `short` says how many got as far.
    """
    nulls = [
        replace(
            evidence, model=permuted_weights(evidence.model, seed), study=None, seed=seed, name=""
        )
        for seed in seeds
    ]
    runs = [survey(null) for null in nulls]
    order = list(VERDICTS)
    order.insert(2, order.pop(order.index(UNDECIDED)))
    together = {}
    for asked in ASKED:
        records = sorted(
            (run[asked] for run in runs), key=lambda record: order.index(record.verdict)
        )
        count = sum(record.verdict == records[0].verdict for record in records)
        name = f"{evidence.name or evidence.model.name}, in random order"
        together[asked] = replace(records[0], model=name, short=f"{count} of {len(runs)}")
    return together


def write_survey(
    folder: Path | str,
    records: Mapping[str, Record],
    model: AnyFirstLayer,
    name: str = "survey",
    **facts: Any,
) -> Path:
    """Freeze a survey as folder/name.npz and .json; returns the path of the record."""
    values = [value for record in records.values() for value in record.values.values()]
    about = {k: v for k, v in model.provenance.items() if k != "tensors"}
    rows = [asdict(record) for record in records.values()]
    record = provenance(study="survey of claims", model=about, verdicts=rows, **facts)
    return write_result(folder, name, {"values": np.array(values, dtype=float)}, record)


def read_survey(
    folder: Path | str, name: str = "survey"
) -> tuple[dict[str, Record], dict[str, Any]]:
    """A frozen survey and its record; `ResultError` where it is missing, damaged or outdated."""
    _, record = read_result(folder, name)
    records = {row["claim"]: as_record(row, f"{name}.json") for row in record.get("verdicts", [])}
    outdated = [asked for asked, record in records.items() if record.rule != in_words(claim(asked))]
    if list(records) != list(ASKED) or outdated:
        what = f"made by another rule of {outdated[0]}" if outdated else "no survey of these claims"
        raise ResultError(f"{folder}/{name}.json is {what}; compute it again.")
    return records, record
