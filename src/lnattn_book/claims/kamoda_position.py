"""The rules of Kamoda et al. 2025, section 5: what a head makes of positions alone.

As in `lnattn_book.claims.kamoda`, arguments are the results as plain arrays.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Float

from lnattn_book.claims.verdicts import (
    HOLDS,
    HOLDS_IN_PART,
    NOT_SEEN,
    UNDECIDED,
    Case,
    Record,
    heads_where,
    listed_words,
    of_heads,
    rule,
)

#: What is missing where only position embeddings and attention weights of a model are known.
TOKENS = "the token embeddings, which σ depends on"


@rule(
    "Holds if the rank correlation of T^p with position, the two ends left out, exceeds "
    "{spearman} in every head; in part if in some. Where σ is not known, under every assumption.",
    measure="heads whose T^p rises",
)
def k6(case: Case, spearman: Float[np.ndarray, "*case head"]) -> Record:
    """K6, T^p rises. spearman: of each head, or for several assumptions about σ."""
    cases = np.atleast_2d(spearman)
    verdict, heads = of_heads(cases > case.spearman, none=NOT_SEEN)
    falls = (cases < -case.spearman).all(axis=0)
    words = f"rank correlation above {case.spearman} in {heads}"
    if falls.any():
        words += f"; below {-case.spearman} in {heads_where(falls)}"
    values = {"lowest": cases.min(), "highest": cases.max()}
    return Record(verdict, words, values, _assumed(cases, verdict), heads)


@rule(
    "A head shows it if the highest T^pp that a query sees lies within {distance} positions of it "
    "(median over the second half of the context), and a wave that fits at least {cycles} times "
    "into the context explains more than {share:.0%} of what a straight line leaves. Holds if all "
    "heads show it, in part if some do; else not seen.",
    measure="heads with a wave and a near peak",
)
def k7(case: Case, table: pd.DataFrame) -> Record:
    """K7, T^pp undulates and is high near the query. table: `position_table`, one row a head."""
    near = table["distance to highest T^pp"].to_numpy() <= case.distance
    cycles, explains = (
        table["T^pp cycles"].to_numpy(),
        table["T^pp wave share"].to_numpy() > case.share,
    )
    wave = explains & (cycles >= case.cycles)
    verdict, heads = of_heads(near & wave, none=NOT_SEEN)
    others = listed_words(
        f"{(explains & (cycles >= least)).sum()} with {least:g}" for least in case.sensitivity
    )
    return Record(
        verdict,
        f"both in {heads}: highest near the query in {near.sum()}, a wave of {case.cycles:g} or "
        f"more cycles in {wave.sum()}",
        {"both": int((near & wave).sum()), "near": int(near.sum()), "wave": int(wave.sum())},
        f"heads with a wave by the number of cycles it must have: {others}",
        heads,
    )


@rule(
    "For a query at the paper's i = 1000 (in a shorter context, at the same share of it): holds if "
    "the {near} nearest keys get more than {share:.0%} of the attention by position in every head, "
    "and about one wavelength of T^pp away no key gets more than {echo:.0%} of what the best near "
    "key gets; in part if in some heads. Where σ is not known, under every assumption.",
    measure="heads that look near, without echo",
)
def k8(
    case: Case,
    near_share: Float[np.ndarray, "*case head"],
    echo: Float[np.ndarray, "*case head"],
) -> Record:
    """K8, attention by position is near and hides the wave.

    near_share, echo: of each head, or for several assumptions about σ; see `wave_recurrence`.
    """
    share, echo = np.atleast_2d(near_share), np.atleast_2d(echo)
    verdict, heads = of_heads((share > case.share) & (echo <= case.echo), none=NOT_SEEN)
    louder = (echo > case.echo).any(axis=0)
    words = f"more than {case.share:.0%} of attention on the {case.near} nearest keys, and no echo "
    words += f"of the wave, in {heads}"
    if louder.any():
        words += f"; the wave shows in {heads_where(louder)}"
    values = {"largest share": share.max(), "smallest share": share.min(), "echo": echo.max()}
    # Where no key is a wavelength away, there is no wave to hide: say how many these are.
    waveless = (echo == 0).all(axis=0)
    idle = f"no key is a wavelength away in {of_heads(waveless)[1]}" if waveless.any() else ""
    note = "; ".join(filter(None, (_assumed(share, verdict), idle)))
    return Record(verdict, words, values, note, heads)


@rule(
    "The skill of the prediction by position is 1 − TV(measured, predicted) / TV(measured, even "
    "attention), TV the total variation distance. A head follows if its skill exceeds {skill}; it "
    "looks at itself if its mean attention there exceeds {itself} and the prediction by {above}. "
    "Holds if some head follows and another looks at itself (on GPT-2: head {follower} and head "
    "{selfish}); in part if only one of the two is seen.",
    measure="largest skill of a head",
)
def k9(case: Case, table: pd.DataFrame) -> Record:
    """K9, text follows the position terms. table: `beside_position`, one row a head."""
    skill, measured = table["skill"].to_numpy(), table["itself, measured"].to_numpy()
    follows = skill > case.skill
    itself = (measured > case.itself) & (measured - table["itself, by position"] > case.above)
    if case.own:
        parts = [bool(follows[case.follower]), bool(itself[case.selfish])]
    else:
        parts = [bool(follows.any()), bool(itself.any())]
    return Record(
        HOLDS if all(parts) else HOLDS_IN_PART if any(parts) else NOT_SEEN,
        f"skill above {case.skill} in {of_heads(follows)[1]}, from {skill.min():.2f} to "
        f"{skill.max():.2f}; {of_heads(itself)[1]} look at their own token",
        {"lowest skill": skill.min(), "highest skill": skill.max(), "own": int(itself.sum())},
        short=f"{skill.max():.2f}",
    )


def _assumed(cases: Float[np.ndarray, "case head"], verdict: str) -> str:
    """What to say of a result that rests on assumptions; nothing of one that does not."""
    if len(cases) == 1:
        return ""
    return f"{TOKENS}, would decide" if verdict == UNDECIDED else "under every assumed σ"
