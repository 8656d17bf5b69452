"""What README.md asks of one whole model: pieces in every layer, and lone tokens beside text."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from experiments.layers_above.lone_tokens import LayerVectors, vectors_of_layers
from lnattn.affinity.subwords import Pieces, continuation_pieces, cycle, subword_ranks
from lnattn.models.alone import WholeModel, whole_model
from lnattn.models.verification import evaluating
from lnattn.rotary.weights import AnyFirstLayer
from lnattn.storage import sha256_of_file
from lnattn.text.counts import Counts
from lnattn_book.claims.ours import piece_rule
from lnattn_book.studies.layers_above import LayersAbove
from lnattn_book.studies.samples import sample_windows, token_counts, tokenizer_of
from lnattn_book.studies.whole_models import token_classes_of

#: Pieces, at most; the rank up to which a predecessor counts as found; permutations of the pieces.
PIECES, RANK, DRAWS = 300, 10, 1000
#: Windows of text and their length; the first place that is compared.
WINDOWS, LENGTH, FIRST = 16, 128, 8
#: A parameter of some block, by its name.
_IN_A_BLOCK = re.compile(r"\.\d+\.")


def some_pieces(first: AnyFirstLayer, counted: Path | None = None) -> tuple[Pieces, str]:
    """Pieces by the rule of S1, at most `PIECES` drawn at random, and in words whose counts.

    counted: a file of counts of this model's tokens; by default what ships for them.
    """
    classes = token_classes_of(first)
    if counted is None:
        counts, words = token_counts(first)
    else:
        counts = Counts.load(counted)
        words = f"counts with sha256 {sha256_of_file(counted)}"
    pieces = continuation_pieces(counts, classes, piece_rule(classes))
    number = min(PIECES, len(pieces))
    chosen = np.sort(np.random.default_rng(0).choice(len(pieces), number, replace=False))
    return Pieces(*(values[chosen] for values in vars(pieces).values())), words


def joined(
    model: Any, pieces: Pieces, vectors: Callable[..., list[LayerVectors]] = vectors_of_layers
) -> dict[str, np.ndarray]:
    """The tables of `LayersAbove` that are about pieces; vectors: what makes each layer's."""
    tables: dict[str, list[list[np.ndarray]]] = {"found": [], "chance": [], "heads": []}
    layers = vectors(model, torch.from_numpy(pieces.queries))
    for kind in ("centred", "vectors"):
        ranks = [subword_ranks(getattr(layer, kind), pieces, draws=DRAWS) for layer in layers]
        tables["found"].append([of_layer.best_rank <= RANK for of_layer in ranks])
        tables["chance"].append([of_layer.chance[1, :, -1] for of_layer in ranks])
        tables["heads"].append([of_layer.heads_of(RANK) for of_layer in ranks])
    return {name: np.array(table) for name, table in tables.items()}


def shuffled(model: Any, seed: int) -> Any:
    """A copy with the entries of each tensor of each block in random order; embeddings stay."""
    dealt = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in dealt.named_parameters():
            if _IN_A_BLOCK.search(name):
                order = torch.randperm(parameter.numel(), generator=generator)
                parameter.copy_(parameter.flatten()[order].view_as(parameter))
    return dealt


def beside_text(model: Any, first: AnyFirstLayer) -> dict[str, np.ndarray]:
    """The tables of `LayersAbove` that are about text."""
    whole = whole_model(model)
    tokenizer = tokenizer_of(first)
    begin = tokenizer.cls_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    texts, _ = sample_windows(first, LENGTH, begin)
    windows = [torch.from_numpy(np.asarray(ids)).long() for ids in texts[:WINDOWS]]
    rng = np.random.default_rng(0)
    with evaluating(whole.model), torch.inference_mode():
        real = torch.stack([in_text(whole, ids) for ids in windows])
        alone = torch.stack([lone(whole, ids) for ids in windows])
        moved = [ids[cycle(len(ids), rng)] for ids in windows]
        other = torch.stack([lone(whole, ids) for ids in moved])
    mean = real.mean(dim=(0, 2), keepdim=True)
    return {
        "far": distance(real, alone),
        "far_other": distance(real, other),
        "spread": distance(real, mean),
    }


def in_text(whole: WholeModel, ids: Tensor) -> Tensor:
    """What reaches each layer of a text, from `FIRST` on: [layer place d_model], of length √d."""
    row = ids[None]
    given = {"attention_mask": torch.ones_like(row), "output_hidden_states": True}
    states = whole.part(row, **given).hidden_states[: whole.n_layers]
    return standard(torch.stack([state[0, FIRST:] for state in states]))


def lone(whole: WholeModel, ids: Tensor) -> Tensor:
    """The same of each token alone at its place."""
    (states,) = whole.states(ids[FIRST:], torch.arange(FIRST, len(ids)))
    return standard(torch.stack(states))


def standard(x: Tensor) -> Tensor:
    """Vectors divided by their root mean square, so that no few large ones decide."""
    return x.double() / x.double().square().mean(dim=-1, keepdim=True).sqrt()


def distance(real: Tensor, other: Tensor) -> np.ndarray:
    """Squared distances [window layer place d_model] -> [window layer], summed."""
    return (real - other).square().sum(dim=(2, 3)).numpy()


def ask(
    model: Any,
    first: AnyFirstLayer,
    vectors: Callable[..., list[LayerVectors]] = vectors_of_layers,
    counted: Path | None = None,
) -> LayersAbove:
    """All tables of a model; vectors: as for `joined`, counted: as for `some_pieces`."""
    pieces, words = some_pieces(first, counted)
    record = {"pieces": len(pieces), "counts": words}
    tables = joined(model, pieces, vectors) | beside_text(model, first)
    return LayersAbove(**tables, record=record)
