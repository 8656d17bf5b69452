"""Numbers that the authors of Kamoda et al. 2025 printed: what GPT-2 small itself must reproduce.

Their released notebook prints T^ee of head 7 for the query token 'iens', before the division by
√d_head, with each token's σ averaged over positions and rounded to float16. The rounding moves a
score by up to a thousandth of itself; two parts in a thousand are allowed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lnattn.attention.folding import fold
from lnattn.attention.vectors import token_vectors
from lnattn.errors import TokenError
from lnattn.rotary.weights import AnyFirstLayer
from lnattn.weights import require_absolute

HEAD = 7
QUERY = "iens"
RELATIVE_TOLERANCE = 2e-3

#: Key token, as the vocabulary spells it, and the printed score.
PRINTED = {
    "Al": 41.437702,
    "Ġsap": 41.008968,
    "Ġal": 38.2491,
    "ĠAL": 36.045887,
    "af": 35.321766,
    "ĠAlger": 34.854691,
    "ĠMal": 30.680719,
    "pt": 29.362137,
    "ĠSap": 29.079447,
    "cl": 26.746317,
    "ĠVirgin": 24.795462,
    "ĠAm": 16.197947,
    "ĠW": 12.339346,
    "uring": -15.199899,
    "ĠTY": -42.426086,
}


def differences_from_printed(
    model: AnyFirstLayer,
    printed: Mapping[str, float] = PRINTED,
    *,
    head: int = HEAD,
    query: str = QUERY,
) -> list[str]:
    """The printed scores that a model does not give, in words; also other extremes of the row.

    The keys printed first and last are the highest and the lowest of the whole vocabulary.
    Raises `TokenError` for a model without token embeddings, tokenizer, or one of the tokens.
    """
    if model.tokenizer is None:
        raise TokenError(f"{model.name} has no tokenizer, so the printed tokens cannot be found.")
    vocabulary = model.tokenizer.get_vocab()
    absent = [token for token in (query, *printed) if token not in vocabulary]
    if absent:
        raise TokenError(f"{model.name} has no tokens {', '.join(absent)}; it is not GPT-2.")
    gpt2 = require_absolute(model)
    vectors = token_vectors(fold(gpt2.attention), gpt2.embeddings)
    row = vectors.scores([vocabulary[query]])[head, 0].double().numpy()
    scores = {token: float(row[vocabulary[token]]) for token in printed}
    different = [
        f"T^ee of {query!r} and {token!r} is {scores[token]:.4f}, printed as {value:.4f}"
        for token, value in printed.items()
        if abs(scores[token] - value) > RELATIVE_TOLERANCE * abs(value)
    ]
    first, *_, last = printed
    for token, place, end in (
        (first, int(np.argmax(row)), "highest"),
        (last, int(np.argmin(row)), "lowest"),
    ):
        if place != vocabulary[token]:
            different.append(f"the {end} score is that of token {place}, not of {token!r}")
    return different
