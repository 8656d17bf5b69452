"""All scripts of one model, by the kind of its positions, and what the page must know of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from booksite.explorer.data import explore, strongest_view
from booksite.explorer.first_layer import TOLERANCE, layer_scripts
from booksite.explorer.rotary_layer import rotary_scripts
from booksite.explorer.scripts import scripts, sentence_script
from booksite.explorer.texts import script, token_texts, value_of
from booksite.explorer.views import view_scripts
from lnattn.attention.folding import fold
from lnattn.book.affinity import affinity_study, counts_and_source
from lnattn.book.style import model_name
from lnattn.errors import ResultError
from lnattn.relative import AnyFirstLayer, RelativeFirstLayer
from lnattn.studies.affinity.vectors import token_vectors
from lnattn.weights import FirstLayer

# Texts of scripts by file name, and facts for the page: heads, tolerance.
Written = tuple[dict[str, str], dict[str, Any]]


def learned(
    model: FirstLayer, name: str, named: Sequence[str], examples: Sequence[str], computed: bool
) -> Written:
    """A model with learned positions: partners of tokens, sentences by six terms, curves.

    named: tokens shown in full however rare they are; examples: sentences; computed: whether the
    browser gets the layer, and computes partners and sentences itself.
    """
    counts, source = counts_and_source(model)
    vectors = token_vectors(fold(model.attention), model.embeddings)
    study, _ = affinity_study(vectors, model.embeddings, counts, source)
    explored = explore(model, counts, study, listed=not computed, always=named)
    about = {
        "name": model_name(model.name),
        "weights": str(model.provenance.get("weights_sha256") or "")[:12],
        "counts": str(study.record["counts"]),
        "counted": counts.tokens,
    }
    found = dict(scripts(explored, name, about))
    found |= dict(view_scripts(model, explored, name, [] if computed else examples))
    if computed:
        found |= dict(layer_scripts(model, name))
        found["opening.js"] = sentence_script(strongest_view(model, examples), f"{name}/opening")
    return found, {"heads": explored.folded.n_heads, "tolerance": TOLERANCE}


def rotary(model: AnyFirstLayer, name: str) -> Written:
    """A model with rotary positions, whose layer the browser gets: four terms of any text.

    Raises `ResultError` for a model with other positions.
    """
    if not isinstance(model, RelativeFirstLayer):
        raise ResultError(f"the positions of {model.name} are not rotary; show its six terms.")
    counts, _ = counts_and_source(model)
    found = dict(rotary_scripts(model, counts.unigrams, name))
    texts = token_texts(model.tokenizer, model.embeddings.vocab_size)
    found["tokens.js"] = script(f"{name}/tokens", texts)
    _, layer = value_of(found["layer.js"])
    return found, {name: layer[name] for name in ("heads", "tolerance")}
