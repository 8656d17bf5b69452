"""Unselectable keys: which keys of a text no query of a head can score above all others."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lnattn.reporting.evidence import Evidence
from lnattn.reporting.part import Part, Table
from lnattn.selectability.first_layers import first_layer_keys
from lnattn.selectability.gaussian import expected_share
from lnattn.selectability.verify import verified_selectability


def unselectable_table(evidence: Evidence) -> pd.DataFrame:
    """The keys of one text in every key head, each verdict verified.

    A row a key head: number of keys, rank, the share that is unselectable, and that of as many
    Gaussian keys in so many dimensions.
    """
    text = evidence.windows[0]
    rows = []
    for keys in first_layer_keys(evidence.model, text)["heads"]:
        verdict = verified_selectability(keys)
        n = len(verdict.selectable)
        expected = expected_share(n, verdict.rank) if verdict.rank > 0 else np.nan
        rows.append(
            {
                "keys": n,
                "rank": verdict.rank,
                "unselectable": verdict.unselectable,
                "Gaussian keys": expected,
            }
        )
    grouped = len(rows) < evidence.model.attention.n_heads
    return pd.DataFrame(rows).rename_axis(index="key head" if grouped else "head")


def unselectable(evidence: Evidence) -> Part:
    """Shares of unselectable keys by head, beside Gaussian ones."""
    table = unselectable_table(evidence)
    shares = table["unselectable"]
    keys = f"{table['keys'].iloc[0]:,} keys of one text"
    heads_with_such = int((shares > 0).sum())
    if heads_with_such:
        least = f"{shares.min():.1%}"
        most = f"{shares.max():.1%}"
        span = least if least == most else f"{least} to {most}"
        sentence = (
            f"Of {keys}, {span} cannot be selected by any query, "
            f"by head; {heads_with_such} of {len(table)} heads have such keys."
        )
    else:
        sentence = f"Every one of {keys} can be selected by some query, in every head."
    sentences = [sentence, "Each verdict was verified by its certificate."]
    formats = {"unselectable": ".1%", "Gaussian keys": ".1%"}
    return Part(
        name="keys",
        title="Keys that no query can select",
        sentences=sentences,
        tables=[Table("Keys of one text by head", table, formats)],
        numbers={"by_head": table},
    )
