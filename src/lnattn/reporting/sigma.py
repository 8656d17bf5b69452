"""σ and its spread: what LayerNorm, or RMSNorm, divides a token by."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float

from lnattn.errors import ShapeError
from lnattn.reporting.drawing import band
from lnattn.reporting.evidence import Evidence
from lnattn.reporting.part import Figure, Part
from lnattn.rotary.weights import RelativeFirstLayer
from lnattn.stats import blocks, spearman

#: The middle 95 % of tokens.
ENDS = (0.025, 0.5, 0.975)
#: Tokens that occur more seldom say little of frequency.
SEEN = 10


def sigma(evidence: Evidence) -> Part:
    """The divisor of every token: over positions, or, where these are not added, over tokens."""
    return _of_tokens(evidence) if evidence.is_relative else _by_position(evidence)


def _by_position(evidence: Evidence) -> Part:
    inverse = evidence.inverse_sigma
    assert inverse.lower is not None
    assert inverse.upper is not None
    middle = 1 / inverse.mean
    low = 1 / inverse.upper
    high = 1 / inverse.lower
    rest = slice(1, None) if len(middle) > 1 else slice(None)
    usual = float(np.median(middle[rest]))
    spread = float(np.median(high[rest] / low[rest]))
    largest = int(np.argmax(middle))
    sentences = [
        f"At most positions σ is about {usual:.3g}, and from the smallest to the largest of 95 % "
        f"of tokens it grows by a factor of {spread:.2g}.",
        f"At position 0 it is {middle[0]:.3g}, {middle[0] / usual:.2g} times as much; the largest, "
        f"{middle[largest]:.3g}, is at position {largest}.",
    ]
    drawing = band(middle, low, high, "position", "σ", "σ over positions with the band of tokens")
    return Part(
        name="sigma",
        title="σ and its spread",
        sentences=sentences,
        figures=[
            Figure(
                drawing,
                "σ(e + p) at every position: the harmonic mean over all tokens, and the middle 95 "
                "% of them. A token with half the σ counts twice in every score.",
            )
        ],
        numbers={"mean": middle, "low": low, "high": high, "spread": spread},
    )


def norm_of_tokens(evidence: Evidence) -> Float[np.ndarray, "vocab"]:
    """σ or ρ of every token of a model without added positions.

    Raises `ShapeError` where no norm stands before attention.
    """
    model = evidence.model
    assert isinstance(model, RelativeFirstLayer)
    folded = evidence.folded_relative
    if folded.divisor == "none":
        raise ShapeError("no norm stands before attention in this model, so there is no σ.")
    size = model.embeddings.vocab_size
    norms = torch.empty(size, dtype=torch.float64)
    for rows in blocks(size, model.embeddings.d_model):
        norms[rows] = folded.norm_scale(model.embeddings.rows(rows)).double()
    return norms.numpy()


def _of_tokens(evidence: Evidence) -> Part:
    norms = norm_of_tokens(evidence)
    name = "σ" if evidence.folded_relative.divisor == "sigma" else "ρ"
    low, middle, high = np.quantile(norms, ENDS)
    sentences = [
        f"{name} of the middle 95 % of tokens runs from {low:.3g} to {high:.3g}, a factor of "
        f"{high / low:.2g}; the median is {middle:.3g}."
    ]
    numbers: dict[str, object] = {
        "quantiles": dict(zip(("low", "median", "high"), (low, middle, high), strict=True))
    }
    if evidence.counts is not None:
        counts, words = evidence.counts
        often = np.flatnonzero(counts.unigrams >= SEEN)
        if len(often) > SEEN:
            known = spearman(norms[often], counts.unigrams[often])
            sentences.append(
                f"Its rank correlation with how often a token occurs in {words} is {known}."
            )
            numbers["frequency"] = {"rho": known.rho, "low": known.low, "high": known.high}
    ordered = np.sort(norms)
    shown = ordered[np.linspace(0, len(ordered) - 1, min(len(ordered), 400)).astype(int)]
    drawing = band(shown, shown, shown, "tokens, by rising " + name, name, f"{name} of all tokens")
    return Part(
        name="sigma",
        title=f"{name} and its spread",
        sentences=sentences,
        figures=[Figure(drawing, f"{name} of every token of the vocabulary, the smallest first.")],
        numbers=numbers,
    )
