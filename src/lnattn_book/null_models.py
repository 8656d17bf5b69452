"""Freeze what rules measure of null models that need weights: `python -m lnattn_book.null_models`.

For each model named, its heads are put in random order under its own embeddings, `DRAWS` times.
What K11, K17 and K19 measure of each draw goes to data/results/nulls, where the rules look it up.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lnattn.attention.folding import fold
from lnattn.attention.nulls import permuted_weights
from lnattn.errors import LnattnError
from lnattn.models.checkpoints import load_first_layer
from lnattn.position.variance import frequency_study
from lnattn.weights import FirstLayer, require_absolute
from lnattn_book.chapters.information_gain import gain_of_tokens, who_knows_the_gain
from lnattn_book.chapters.variance import frequency
from lnattn_book.claims.k11 import k11
from lnattn_book.claims.k17 import k17
from lnattn_book.claims.k19 import k19
from lnattn_book.claims.listed import claim
from lnattn_book.claims.nulls import write_nulls
from lnattn_book.claims.rules import Rule, RuleContext

COMMAND = "python -m lnattn_book.null_models book-gpt2"
#: How often the entries of a head's weights are put in random order.
DRAWS = 20


def measured(rule: Rule, *results: Any) -> Mapping[str, Any]:
    """What a rule measures of results."""
    found = rule.measure(RuleContext(claim(rule.claim).rule, own=False), *results)
    return found if isinstance(found, Mapping) else {}


def heads_in_random_order(first: FirstLayer) -> dict[str, list[Mapping[str, Any]]]:
    """By claim, the measures of each draw."""
    known = frequency(first)
    gain = gain_of_tokens(first)
    tokens = known.counted
    draws: dict[str, list[Mapping[str, Any]]] = {"K11": [], "K17": [], "K19": []}
    for seed in range(DRAWS):
        null = permuted_weights(first, seed, heads_only=True)
        study = frequency_study(fold(null.attention), first.embeddings, known.inputs, known.counts)
        for rule in (k11, k17):
            draws[rule.claim].append(measured(rule, study.head_correlations, tokens))
        knowing = who_knows_the_gain(null, known, gain)
        heads = [found for name, found in knowing.items() if name.startswith("T^e")]
        draws["K19"].append(measured(k19, knowing["norm"], heads))
    return draws


def main(models: Sequence[str]) -> int:
    """Freeze the null models of these models; returns the exit status."""
    try:
        for model in models or ("book-gpt2",):
            first = require_absolute(load_first_layer(model))
            for claim_id, draws in heads_in_random_order(first).items():
                path: Path = write_nulls(claim_id, model, draws, COMMAND)
                print(f"{model}: {path}")
    except LnattnError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
