"""How far the folded formulas are from the model's own attention, by type and formula."""

from __future__ import annotations

import pandas as pd

from lnattn.errors import CheckpointError
from lnattn.models.verification import verify
from lnattn.reporting.evidence import Evidence
from lnattn.reporting.part import Part, Table

#: From float32 to float64 an error of rounding falls by some eight digits; so much is asked here.
_FALLS = 1e-3
#: What the formulas are, in words.
FORMULAS = {
    "normed": "LayerNorm, then the stored weights",
    "folded": "the norm folded into the weights",
    "terms": "the sum of the terms",
}


def fold_error(evidence: Evidence) -> Part:
    """The table of `lnattn.verify`, and what it says of rounding.

    Raises `CheckpointError` for a first layer without its model.
    """
    if evidence.whole is None:
        raise CheckpointError(
            "a first layer by itself cannot be compared with its model; give the model's name, its "
            "folder or the module."
        )
    table = verify(evidence.whole, evidence.model.tokenizer, seed=evidence.seed)
    shown = table.assign(formula=table["formula"].map(FORMULAS)).set_index("dtype")
    formats = {"attention": ".1e", "output": ".1e"}
    return Part(
        name="fold-error",
        title="Is the folding exact?",
        sentences=sentences_of(table),
        tables=[Table("Largest difference from the model's own first layer", shown, formats)],
        numbers={"rows": table},
    )


def sentences_of(table: pd.DataFrame) -> list[str]:
    """What a table of `verify` says: the largest error of each type, and whether it is rounding."""
    worst = table.groupby("dtype", sort=False)["attention"].max()
    shown = ", ".join(f"{error:.0e} in {dtype}" for dtype, error in worst.items())
    sentences = [f"The largest difference of an attention weight: {shown}."]
    single = float(worst["float32"])
    double = float(worst["float64"])
    if double <= _FALLS * single:
        sentences.append(
            "It falls with the width of the numbers, so what is left is rounding; an error in a "
            "formula would stay."
        )
    elif double < 1e-5:
        sentences.append(
            "It does not fall further in float64: this family computes a step (the softmax, or its "
            "angles) in float32 whatever the type."
        )
    else:
        sentences.append("It stays in float64, so that something more than rounding differs.")
    return sentences
