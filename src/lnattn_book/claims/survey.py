"""Which claims about first layers hold for which model, and for models that learned nothing.

Every claim is asked by its one rule; the chapters that look at a claim closely call the same rule
with the same results. Beside a model stands its *null*: the same model with the entries of every
tensor dealt out anew. A claim that the null passes too says nothing about training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lnattn.affinity import table1
from lnattn.affinity.auroc import Neighbours, head_auroc
from lnattn.affinity.study import Detokenization
from lnattn.affinity.vectors import TokenVectors, same_token_z, token_vectors
from lnattn.attention.folding import fold
from lnattn.attention.nulls import permuted_weights
from lnattn.contribution.study import contributions
from lnattn.errors import ResultError
from lnattn.position import curves, variance
from lnattn.position.bias import position_bias, share_of_context
from lnattn.position.first_token import first_token_switch
from lnattn.position.measured import beside_position, measured_attention, near_share
from lnattn.position.sigma import inverse_sigma_bands
from lnattn.position.without_tokens import position_only
from lnattn.rotary.weights import AnyFirstLayer
from lnattn.storage import provenance, read_result, write_result
from lnattn.text.counts import Counts
from lnattn.weights import FirstLayer
from lnattn_book.claims import kamoda, kamoda_position, kamoda_variance
from lnattn_book.claims.ledger import as_record
from lnattn_book.claims.verdicts import RULES, UNDECIDED, VERDICTS, Record, not_computable

#: The claims that are asked; importing the modules enters their rules.
ASKED = tuple(f"K{n}" for n in range(3, 16))
ASKED_IN = (kamoda, kamoda_position, kamoda_variance)
#: Tokens of the windows in which the 'if first token' switch is tried.
SWITCH_WINDOW = 256
#: Query tokens whose AUROC is taken where no whole study is given: nulls, which need no more.
_AUROC_QUERIES = 400


@dataclass(frozen=True)
class Evidence:
    """A model and what its claims are asked with.

    cut: windows of text of a given length, in tokens, without special tokens; framed: documents as
    the model expects to read them, cut to its context; counts: of a large corpus in the model's
    tokens; study: its affinity study (where None, AUROCs are of a sample of query tokens). name:
    what verdicts call the model. A partial checkpoint needs none of these.
    """

    model: FirstLayer
    cut: Callable[[int], np.ndarray] | None = None
    framed: Sequence[Sequence[int]] = ()
    counts: Counts | None = None
    study: Detokenization | None = None
    seed: int = 0
    name: str = ""


def survey(seen: Evidence) -> dict[str, Record]:
    """The verdict on each claim of `ASKED` for one model.

    A partial checkpoint gets those about positions only; the others say what is missing.
    """
    name, needs = seen.name or seen.model.name, f"needs {kamoda_position.TOKENS}"
    found = _of_positions(seen) if seen.model.is_partial else _of_all(seen)
    return {
        claim: RULES[claim](*found[claim], model=name)
        if claim in found
        else not_computable(claim, name, needs)
        for claim in ASKED
    }


def _of_positions(seen: Evidence) -> dict[str, tuple[Any, ...]]:
    """What rules judge, by claim, of a checkpoint without tokens."""
    found, ends = position_only(seen.model), variance.position_outliers(seen.model.embeddings.W_P)
    return {
        "K6": (found.spearman,),
        "K7": (found.table(),),
        "K8": (found.near[:, :, -1], found.echo[:, :, -1]),
        "K13": (ends.first, ends.last_log, ends.interior_spread),
        "K14": (found.last.ratio,),
    }


def _of_all(seen: Evidence) -> dict[str, tuple[Any, ...]]:
    """What rules judge, by claim, of a whole first layer."""
    if seen.counts is None or seen.cut is None:
        raise ResultError(f"the survey of {seen.model.name} needs windows of text and counts.")
    tokens, counts, folded = seen.model.embeddings, seen.counts, fold(seen.model.attention)
    queries, sigma = share_of_context(tokens.n_positions), inverse_sigma_bands(tokens, folded.eps)
    bias, vectors = position_bias(folded, tokens.W_P, queries, sigma), token_vectors(folded, tokens)
    pairs = table1.look_up(vectors, seen.model.tokenizer)
    auroc = (seen.study.mean_auroc(), seen.study.wrong_query()) if seen.study else None
    shares = near_share(bias.attention(), queries, bias.causal)[:, -1]
    measured = measured_attention(folded, tokens, seen.cut(queries[-1] + 1), queries)
    terms = contributions(folded, tokens, seen.framed)
    inputs = variance.variance_of_inputs(tokens, folded.eps)
    known = variance.frequency_study(folded, tokens, inputs, counts.unigrams)
    ends = variance.position_outliers(tokens.W_P)
    texts = seen.cut(min(tokens.n_positions, SWITCH_WINDOW))
    switch = first_token_switch(folded, tokens, texts)
    near = curves.nearness(folded, tokens.W_P, sigma)
    return {
        "K3": (pairs,),
        "K4": (same_token_z(vectors).mean(dim=1).numpy(),),
        "K5": (*(auroc or _some_auroc(vectors, counts, seen.seed)), table1.pair_heads(pairs)),
        "K6": (np.array([curves.trend(curve).spearman for curve in bias.term_p().mean]),),
        "K7": (curves.position_table(bias, near),),
        "K8": (shares, curves.wave_recurrence(bias)[:, -1]),
        "K9": (beside_position(measured, bias),),
        "K10": (terms.document_sums, terms.document_rows),
        "K11": (known.head_correlations, counts.tokens),
        "K12": (known.variance_correlation, inputs.ratio, counts.tokens),
        "K13": (ends.first, ends.last_log, ends.interior_spread),
        "K14": (curves.last_rows(folded, tokens.W_P).ratio,),
        "K15": (switch.score, switch.amplification()),
    }


def _some_auroc(vectors: TokenVectors, counts: Counts, seed: int) -> tuple[np.ndarray, ...]:
    """Mean AUROC of each head for some query tokens, and with the wrong query."""
    before = Neighbours.before(counts.bigrams)
    having = np.flatnonzero(before.n_distinct)
    number = min(_AUROC_QUERIES, len(having))
    some = np.random.default_rng(seed).choice(having, number, replace=False)
    wrong = vectors.shuffled(seed, keys=False)
    return tuple(head_auroc(one, before, some).mean() for one in (vectors, wrong))


def survey_of_null(seen: Evidence, seeds: Sequence[int] = range(5)) -> dict[str, Record]:
    """The survey of several nulls of one model as one: the best verdict that any deal gets.

    If a null passes, the claim is easy to meet by chance; `short` says how many got as far.
    """
    deals = [
        replace(seen, model=permuted_weights(seen.model, seed), study=None, seed=seed, name="")
        for seed in seeds
    ]
    runs, order = [survey(deal) for deal in deals], list(VERDICTS)
    order.insert(2, order.pop(order.index(UNDECIDED)))
    together = {}
    for claim in ASKED:
        found = sorted((run[claim] for run in runs), key=lambda one: order.index(one.verdict))
        count = sum(one.verdict == found[0].verdict for one in found)
        name = f"{seen.name}, dealt anew"
        together[claim] = replace(found[0], model=name, short=f"{count} of {len(runs)}")
    return together


def write_survey(
    folder: Path | str,
    found: Mapping[str, Record],
    model: AnyFirstLayer,
    name: str = "survey",
    **facts: Any,
) -> Path:
    """Freeze a survey as folder/name.npz and .json; returns the path of the record."""
    values = [v for one in found.values() for v in one.values.values() if not isinstance(v, str)]
    about = {k: v for k, v in model.provenance.items() if k != "tensors"}
    rows = [asdict(one) for one in found.values()]
    record = provenance(study="survey of claims", model=about, verdicts=rows, **facts)
    return write_result(folder, name, {"values": np.array(values, dtype=float)}, record)


def read_survey(
    folder: Path | str, name: str = "survey"
) -> tuple[dict[str, Record], dict[str, Any]]:
    """A frozen survey and its record; `ResultError` where it is missing, damaged or outdated."""
    _, record = read_result(folder, name)
    rows = record.get("verdicts", [])
    if [row.get("claim") for row in rows] != list(ASKED):
        raise ResultError(f"{folder}/{name}.json is no survey of these claims; compute it again.")
    found = {row["claim"]: as_record(row, f"{folder}/{name}.json") for row in rows}
    outdated = [one for one in found if found[one].rule != RULES[one].in_words()]
    if outdated:
        raise ResultError(
            f"{folder}/{name}.json was made by another rule of {outdated[0]}; compute it again."
        )
    return found, record
