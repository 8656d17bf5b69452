"""What is asked of whole models on the text that ships with the book: ablations, keys by layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from lnattn.affinity.subwords import TokenClasses, token_classes
from lnattn.attention.folding import fold
from lnattn.attention.terms import PairTerms, six_terms
from lnattn.errors import ResultError
from lnattn.models.attending import keys_of_layers, patched
from lnattn.models.reference import load_reference_model
from lnattn.paths import data_folder
from lnattn.rotary.fold import fold_relative, mean_vectors
from lnattn.rotary.terms import distance_terms
from lnattn.rotary.weights import AnyFirstLayer, RelativeFirstLayer
from lnattn.storage import sha256_of_file
from lnattn_book.studies.ablation.losses import Ablations, ablations
from lnattn_book.studies.detokenization import AffinityResult
from lnattn_book.studies.distance_terms import RotaryStudy
from lnattn_book.studies.keys_by_layer import LayerVerdicts, decide_layers
from lnattn_book.studies.samples import (
    sample_file,
    sample_tokens,
    sample_windows,
    token_counts,
    token_names,
    tokenizer_of,
)

#: The longest window whose keys are decided, and how many windows.
_MOST_KEYS, _WINDOWS = 1000, 16


def token_classes_of(model: AnyFirstLayer) -> TokenClasses:
    """Which of the model's tokens continue a word, begin one, or begin with a capital."""
    return token_classes(tokenizer_of(model), len(token_names(model)))


def ablation_study(model: AnyFirstLayer, name: str) -> Ablations:
    """`ablations` of a whole model on the sample, in windows of 256 tokens at most.

    Minutes for the embedded models, hours for GPT-2 on one core. model: its first layer; name: what
    the whole model is loaded by. Raises `ResultError` for a model that sees what follows, and what
    loaders raise.
    """
    if not model.attention.causal:
        raise ResultError(f"{model.name} sees what follows a token, so it does not predict it.")
    whole = load_reference_model(name, head=True)
    classes = token_classes_of(model)
    documents = sample_tokens(model)
    counts, words = token_counts(model)
    context = 256
    terms_of: Callable[..., PairTerms]
    if isinstance(model, RelativeFirstLayer):
        turned = fold_relative(model.attention)
        tokens = model.embeddings
        means = mean_vectors(turned, tokens, torch.from_numpy(counts.unigrams))
        terms_of = partial(distance_terms, turned, tokens, constants=means)
    else:
        terms_of = partial(six_terms, fold(model.attention), model.embeddings)
        context = model.embeddings.n_positions
    return ablations(
        whole,
        terms_of,
        documents,
        classes,
        counts.bigrams,
        window=min(256, context),
        first=model.tokenizer.bos_token_id,
        source={
            "what": "losses of a model without parts of its first layer's scores",
            **_source(model),
            "counts": words,
            "counts_sha256": counts.sha256,
        },
    )


def layers_study(model: AnyFirstLayer, name: str) -> LayerVerdicts:
    """`decide_layers` of a whole model, on windows of the sample as the model expects to read them.

    As long as its context, at most 1,000 tokens. Arguments and errors as in `ablation_study`.
    """
    tokenizer = tokenizer_of(model)
    whole = load_reference_model(name)
    context = (
        model.context if isinstance(model, RelativeFirstLayer) else model.embeddings.n_positions
    )
    begin = tokenizer.cls_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    end = [] if tokenizer.sep_token_id is None else [tokenizer.sep_token_id]
    length = min(_MOST_KEYS, context or _MOST_KEYS)
    cut, words = sample_windows(model, length - len(end), begin)
    windows = np.array([[*ids, *end] for ids in cut[:_WINDOWS]])
    counts, _ = token_counts(model)

    def keys_of(ids: np.ndarray) -> list[np.ndarray]:
        return [keys.numpy() for keys in keys_of_layers(whole, torch.from_numpy(ids))]

    with patched(whole):
        source = {"what": "keys of every head of every layer", **_source(model), "cut": words}
        return decide_layers(keys_of, windows, counts.unigrams, source=source)


def _source(model: AnyFirstLayer) -> dict[str, Any]:
    """What a record says of model and text."""
    return {
        "model": model.name,
        "weights_sha256": model.provenance.get("weights_sha256"),
        "texts": "data/text/sample.jsonl",
        "texts_sha256": sha256_of_file(sample_file()),
    }


def weight_predictors(name: str, ablations: Ablations) -> pd.DataFrame:
    """What foretells a head's part, a row a head, from the frozen studies of the model.

    auroc: T^ee against bigrams; specific auroc: less that of a wrong query; divergence: how far
    attention moves without T^ee, in nats, on the texts of the ablations.
    """
    folder = data_folder() / "results" / name
    if (folder / "rotary.json").is_file():
        study = RotaryStudy.read(folder)
        auroc = study.grid.own[0, 0].mean(axis=1)
        specific = study.grid.query_specific_auroc[0, 0]
    else:
        other = AffinityResult.read(folder)
        auroc = other.mean_auroc()
        specific = other.skill[:, 0]
    return pd.DataFrame(
        {
            "auroc": auroc,
            "specific auroc": specific,
            "divergence": ablations.moved[ablations.of("ee")],
        },
        index=pd.RangeIndex(ablations.n_heads, name="head"),
    )
