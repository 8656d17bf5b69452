"""K5: AUROC against bigrams is largest for the detokenization head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from lnattn_book.claims.conditions import above, is_true
from lnattn_book.claims.intervals import Interval
from lnattn_book.claims.nulls import NullModel, around
from lnattn_book.claims.rules import Decision, Detail, Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, array, sure
from lnattn_book.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_SEEN,
    UNDECIDED,
    listed_words,
)


def measure(
    context: RuleContext,
    auroc: Float[np.ndarray, "head"],
    skill: Float[np.ndarray, "head 3"],
    pair_heads: Sequence[int],
) -> dict[str, Any]:
    """auroc: means over query tokens; skill: mean, low, high; pair_heads: `table1.pair_heads`.

    Several heads that tie for most pairs are all asked.
    """
    skills = Interval.rows(skill).bonferroni()
    by_skill = int(skills.value.argmax())
    by_auroc = int(auroc.argmax())
    pairs = f"head {listed_words(map(str, pair_heads))}" if pair_heads else "no head"
    return {
        "skills": Detail(skills),
        "head_by_skill": f"{by_skill}",
        "head_by_auroc": f"{by_auroc}",
        "pair_heads": Detail(list(pair_heads)),
        "pairs": pairs,
        "skill": Interval(*(end[by_skill] for end in skills)),
        "auroc": auroc[by_auroc],
        "heads": len(auroc),
    }


def decide(measures: Measures, context: RuleContext) -> Decision:
    sure = above(measures["skills"].value, context["skill"]).values

    def is_pairs_head(best: int) -> float:
        """Whether this is the head of most pairs, as far as every head that ties says the same."""
        if not sure.any():
            return 0.0
        if sure.max() < 1:
            return 0.5
        answers = {min(float(head == best), sure[head]) for head in measures["pair_heads"].value}
        return answers.pop() if len(answers) == 1 else 0.5

    leads = is_pairs_head(int(measures["head_by_auroc"]))
    knows = is_pairs_head(int(measures["head_by_skill"]))
    return Decision(
        {"it has the largest AUROC": is_true(leads), "it has the largest skill": is_true(knows)},
        not_seen=not sure.any(),
        more={"knows": knows, "leads": leads},
    )


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, (array(0.9, 0.6), sure(0.2, 0.01), [0])),
        Trial(
            "largest AUROC by popular keys alone",
            HOLDS_IN_PART,
            (array(0.9, 0.8), sure(0.01, 0.1), [1]),
        ),
        Trial("fails", FAILS, (array(0.9, 0.8), sure(0.2, 0.01), [1])),
        Trial("not seen", NOT_SEEN, (array(0.9), sure(0.02), [0])),
        Trial("no pair", UNDECIDED, (array(0.9, 0.6), sure(0.2, 0.01), [])),
        Trial("the interval holds the limit", UNDECIDED, (array(0.9), sure(0.049), [0])),
        Trial(
            "a tie on which the verdict hangs",
            UNDECIDED,
            (array(0.9, 0.8, 0.5), sure(0.2, 0.01, 0.0), [0, 1]),
        ),
        Trial(
            "a tie on which nothing hangs",
            FAILS,
            (array(0.9, 0.8, 0.5), sure(0.2, 0.01, 0.0), [1, 2]),
        ),
        Trial("fails on GPT-2", FAILS, (array(0.9, 0.8), sure(0.02, 0.0), [0]), own=True),
    ]


def wrong_queries(measures: Measures, generator: np.random.Generator) -> dict[str, Any]:
    """Skills that are noise, and a head of most pairs among heads that know nothing."""
    skills = around(measures["skills"].value, 0.0, generator, joint=True)
    return {"skills": Detail(skills), "head_by_skill": f"{int(skills.value.argmax())}"}


#: What learnt nothing.
NULL = NullModel("the same heads, asked with wrong queries", wrong_queries)

k5 = register_rule(
    "K5",
    measure,
    decide,
    effect=Effect("skill", unit="AUROC", null=0, n="heads"),
    null_model=NULL,
    trials=trials,
)
