"""Rotary models that chapter 13 reads where it runs: of the cache, or named by a reader."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int

from lnattn.attention.folding import fold
from lnattn.attention.relative import mean_vectors
from lnattn.book.rotary import known_pairs
from lnattn.claims.verdicts import listed_words
from lnattn.errors import CheckpointError, HubError
from lnattn.models.checkpoints import load_first_layer
from lnattn.models.choice import rotary_models
from lnattn.relative import RelativeFirstLayer
from lnattn.studies.affinity.at_distance import vectors_at_distance
from lnattn.studies.affinity.topk import partners
from lnattn.studies.affinity.vectors import ranks

#: Names that are looked up in a model, and the keys that are shown of each.
_NAMES, _KEYS = 6, 3


def rotary_at_hand() -> tuple[list[RelativeFirstLayer], list[str]]:
    """The first layers of `rotary_models` that can be read, and in words why others cannot."""
    found, missing, absent = [], [], []
    for name in rotary_models():
        try:
            model = load_first_layer(name)
        except HubError:
            missing.append(name)
        except CheckpointError as error:
            absent.append(str(error).rstrip("."))
        else:
            if isinstance(model, RelativeFirstLayer):
                found.append(model)
            else:
                absent.append(f"{name} adds its positions to its input")
    if missing:
        absent.insert(0, f"neither the cache nor a network had {listed_words(missing)}")
    return found, absent


def names_one_apart(model: RelativeFirstLayer, unigrams: Int[np.ndarray, "vocab"]) -> pd.DataFrame:
    """Known names one token apart: where the first word ranks for the second, and what is liked.

    The first few of `NAMES` whose words are tokens of the model, each in the head that ranks its
    first word highest; beside it the best rank that the word gets from a wrong query. unigrams: how
    often each token occurs, the weights of q₀ and k₀. Raises `ResultError` where no name is known.
    """
    folded, embeddings = fold(model.attention), model.embeddings
    words, ids = known_pairs(model)
    asked, looked_for = zip(*ids[:_NAMES], strict=True)
    means = mean_vectors(folded, embeddings, torch.from_numpy(unigrams))
    vectors = vectors_at_distance(folded, embeddings, 1, means, asked)
    found = ranks(vectors, asked, looked_for).numpy()
    wrong = ranks(vectors, np.roll(asked, 1).tolist(), looked_for).numpy()
    liked = partners(vectors, asked, _KEYS).ids
    rows = [
        {
            "name": " ".join(words[row]),
            "head": head,
            "rank": found[row, head],
            "from a wrong query": wrong[row].min(),
            "keys liked best there": ", ".join(
                repr(model.tokenizer.decode([token])) for token in liked[head, row].tolist()
            ),
        }
        for row, head in enumerate(found.argmin(axis=1).tolist())
    ]
    return pd.DataFrame(rows).set_index("name")
