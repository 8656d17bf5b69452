"""K17: after LayerNorm a token's count can still be read off."""

from __future__ import annotations

from lnattn_book.claims.conditions import above, any_of, at_least
from lnattn_book.claims.k11 import measure as measure_k11
from lnattn_book.claims.nulls import HEADS_IN_RANDOM_ORDER
from lnattn_book.claims.rules import Decision, Effect, Measures, RuleContext, register_rule
from lnattn_book.claims.trials import Trial, rho
from lnattn_book.claims.verdicts import HOLDS, NOT_SEEN, UNDECIDED


def decide(measures: Measures, context: RuleContext) -> Decision:
    parts = {"": any_of(above(measures["rho"], context["rho"]))}
    return Decision(
        parts,
        needs={"the counts of a larger corpus": at_least(measures["tokens"], context["tokens"])},
    )


def trials() -> list[Trial]:
    return [
        Trial("holds", HOLDS, ([rho(0.2), rho(0.0)], 5_000_000)),
        Trial("not seen", NOT_SEEN, ([rho(0.05), rho(0.0)], 5_000_000)),
        Trial("noise", UNDECIDED, ([rho(0.11)], 5_000_000)),
        Trial("too small a corpus", UNDECIDED, ([rho(0.2)], 42_000)),
    ]


k17 = register_rule(
    "K17",
    measure_k11,
    decide,
    effect=Effect("rho", unit="|ρ| (strongest head)", null=0, pick="largest"),
    not_seen=True,
    null_model=HEADS_IN_RANDOM_ORDER,
    trials=trials,
)
