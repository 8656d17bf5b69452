"""GPT-2's composition study, as chapter 04 shows it."""

from __future__ import annotations

from lnattn.composition import CompositionStudy
from lnattn.models.choice import PREFERRED
from lnattn.models.hub import PINNED
from lnattn.paths import data_folder


def study_of_gpt2(live: CompositionStudy) -> tuple[CompositionStudy, str]:
    """GPT-2 small's study, and where its scores are from: the live one if it is that, or frozen."""
    ours = live.record.get("source") == f"hub model {PINNED[PREFERRED].repo}"
    if ours and live.raw.of("K").shape[:2] == (12, 12):
        return live, "here, from the weights of this page's model"
    frozen = CompositionStudy.read(data_folder() / "results" / PREFERRED)
    return frozen, "earlier, from its attention weights, and frozen with the checksum of the file"
