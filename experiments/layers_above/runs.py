"""Models that were trained here, with learned or with rotary positions, over their seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import GPT2Model

from experiments.book_model.forward import ATTENTION, rotary_tables
from experiments.book_model.snapshots import Snapshot, snapshot_after
from experiments.layers_above.lone_tokens import LayerVectors, vectors_of_layers
from experiments.layers_above.measure import ask, joined, shuffled, some_pieces
from lnattn.attention.vectors import TokenVectors
from lnattn.rotary.weights import AnyFirstLayer, apply_rotary
from lnattn.storage import provenance
from lnattn_book.claims import by_seed
from lnattn_book.claims.nulls import write_nulls
from lnattn_book.studies.layers_above import LayersAbove

#: What makes the measures of null models again, those of named models with them.
COMMAND = "python -m experiments.layers_above MODELS"


class RotaryGPT2(GPT2Model):
    """A GPT-2 whose own attention is the one that turns queries and keys."""

    def set_attn_implementation(self, name: Any, *more: Any, **named: Any) -> None:
        """Eager attention is the kind that the model was trained with."""
        kind = ATTENTION["rotary"] if name == "eager" else name
        super().set_attn_implementation(kind, *more, **named)


@dataclass(frozen=True, eq=False)
class Trained:
    """A whole model, its first layer, and what makes the queries and keys of its layers."""

    whole: Any
    first: AnyFirstLayer
    vectors: Any

    @classmethod
    def of(cls, snapshot: Snapshot) -> Trained:
        """A snapshot, ready to be asked."""
        whole: Any = snapshot.whole()
        if snapshot.plan.attention != "rotary":
            return cls(whole, snapshot.model, vectors_of_layers)
        config = whole.config
        del config.positions  # it says that a GPT-2's own code would not turn anything
        inner = RotaryGPT2(config).eval()
        inner.load_state_dict(whole.transformer.state_dict())
        return cls(inner, snapshot.model, turned_vectors)


def turned_vectors(model: Any, query_ids: Any) -> list[LayerVectors]:
    """As `vectors_of_layers`, of a GPT-2 that turns them: the query at position 1, the key at 0."""
    layers = vectors_of_layers(model, query_ids)

    def turn(x: Tensor) -> Tensor:
        tables = rotary_tables(torch.tensor([1]), x.shape[-1])
        return apply_rotary(x, *(table.expand(x.shape[-2], -1) for table in tables))

    return [
        LayerVectors(
            TokenVectors(turn(layer.vectors.queries), layer.vectors.keys, layer.vectors.tokens),
            turn(layer.mean_query),
        )
        for layer in layers
    ]


def dealt(trained: Trained, tables: LayersAbove, seed: int) -> LayersAbove:
    """The same model's tables, the weights of each block in random order."""
    pieces, _ = some_pieces(trained.first)
    of_null: dict[str, Any] = joined(shuffled(trained.whole, seed), pieces, trained.vectors)
    return replace(tables, **of_null)


def asked(folder: Path, tokens: int | None) -> tuple[Trained, LayersAbove]:
    """A run's model and its tables."""
    snapshot = snapshot_after(folder, tokens)
    trained = Trained.of(snapshot)
    tables = ask(trained.whole, trained.first, trained.vectors)
    about: Mapping[str, Any] = {
        "model": snapshot.model.name,
        "weights_sha256": snapshot.model.provenance["weights_sha256"],
        "tokens_trained": snapshot.tokens,
    }
    return trained, replace(tables, record=provenance(**about, **tables.record))


def freeze_nulls(
    name: str, trained: Sequence[Trained], tables: Sequence[LayersAbove], deals: int
) -> list[Path]:
    """Freeze the measures of what learnt nothing, over seeds, by the claims' own rules."""
    both = list(zip(trained, tables, strict=True))
    of_deals: list[Mapping[str, Any]] = [
        by_seed.joins_above.measures([dealt(*pair, seed) for pair in both]) for seed in range(deals)
    ]
    others = by_seed.alone_of([(table.far_other, table.spread) for table in tables])
    return [
        write_nulls("S13", name, of_deals, COMMAND),
        write_nulls("S14", name, [others], COMMAND),
    ]
