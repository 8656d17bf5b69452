"""The rules of Kamoda et al. 2025, section 5: what a head makes of positions alone.

As in `lnattn_book.claims.kamoda`, arguments are the results as plain arrays.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from lnattn_book.claims.verdicts import Case, Record, rule, size
from lnattn_book.claims.words import (
    NOT_SEEN,
    UNDECIDED,
    graded,
    heads_where,
    listed_words,
    of_heads,
)

#: What is missing where only position embeddings and attention weights of a model are known.
TOKENS = "the token embeddings, which σ depends on"


@rule
def k6(case: Case, spearman: np.ndarray) -> Record:
    """K6, T^p rises. spearman: [head], or [case head] for several assumptions about σ."""
    cases = np.atleast_2d(spearman)
    verdict, heads = of_heads(cases > case.spearman, none=NOT_SEEN)
    falls = (cases < -case.spearman).all(axis=0)
    words = f"rank correlation above {case.spearman} in {heads}"
    if falls.any():
        words += f"; below {-case.spearman} in {heads_where(falls)}"
    values = {"lowest": cases.min(), "highest": cases.max()}
    effect = size(np.median(cases), "ρ (median head)", 0, cases.shape[1])
    return Record(verdict, words, values, _assumed(cases, verdict), heads, **effect)


@rule
def k7(case: Case, table: pd.DataFrame) -> Record:
    """K7, T^pp undulates and is high near the query. table: `position_table`, one row a head."""
    near = table["distance to highest T^pp"].to_numpy() <= case.distance
    cycles = table["T^pp cycles"].to_numpy()
    explains = table["T^pp wave share"].to_numpy() > case.share
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
        **size((near & wave).mean(), "of the heads", n=len(table)),
    )


@rule
def k8(case: Case, near_share: np.ndarray, echo: np.ndarray) -> Record:
    """K8, attention by position is near and hides the wave.

    near_share, echo: [head], or [case head] for several assumptions about σ; `wave_recurrence`.
    """
    share, echo = np.atleast_2d(near_share), np.atleast_2d(echo)
    verdict, heads = of_heads((share > case.share) & (echo <= case.echo), none=NOT_SEEN)
    louder, waveless = (echo > case.echo).any(axis=0), (echo == 0).all(axis=0)
    words = f"more than {case.share:.0%} of attention on the {case.near} nearest keys, and no echo "
    words += f"of the wave, in {heads}"
    if louder.any():
        words += f"; the wave shows in {heads_where(louder)}"
    values = {"largest share": share.max(), "smallest share": share.min(), "echo": echo.max()}
    # Where no key is a wavelength away, there is no wave to hide: say how many these are.
    idle = f"no key is a wavelength away in {of_heads(waveless)[1]}" if waveless.any() else ""
    note = "; ".join(filter(None, (_assumed(share, verdict), idle)))
    effect = size(np.median(share), "of the attention (median head)", n=share.shape[1])
    return Record(verdict, words, values, note, heads, **effect)


@rule
def k9(case: Case, table: pd.DataFrame) -> Record:
    """K9, text follows the position terms. table: `beside_position`, one row a head."""
    skill, measured = table["skill"].to_numpy(), table["itself, measured"].to_numpy()
    follows = skill > case.skill
    itself = (measured > case.itself) & (measured - table["itself, by position"] > case.above)
    parts = [follows.any(), itself.any()]
    if case.own:
        parts = [follows[case.follower], itself[case.selfish]]
    return Record(
        graded(parts, none=NOT_SEEN),
        f"skill above {case.skill} in {of_heads(follows)[1]}, from {skill.min():.2f} to "
        f"{skill.max():.2f}; {of_heads(itself)[1]} look at their own token",
        {"lowest skill": skill.min(), "highest skill": skill.max(), "own": int(itself.sum())},
        short=f"{skill.max():.2f}",
        **size(skill.max(), "skill", 0, len(skill)),
    )


def _assumed(cases: np.ndarray, verdict: str) -> str:
    """What to say of a result that rests on assumptions; nothing of one that does not."""
    if len(cases) == 1:
        return ""
    return f"{TOKENS}, would decide" if verdict == UNDECIDED else "under every assumed σ"
