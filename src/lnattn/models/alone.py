"""A token alone in the layers above the first: what arrives there where nothing else can be read.

A text of one token attends to itself alone, with weight 1: attention is then exactly its value
path, whatever queries and keys say. What reaches layer L depends on the token and its position, so
it is to that layer what embeddings are to the first, with no text and no average over texts.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lnattn.errors import CheckpointError, ShapeError
from lnattn.ids import TokenIds, whole_ids
from lnattn.inputs import whole_number
from lnattn.models.architectures import BERT
from lnattn.models.modules import family_of_module, unwrapped
from lnattn.models.reference import load_reference_model
from lnattn.models.verification import evaluating, part_of
from lnattn.weights import Embeddings

#: Texts of one token that run at once.
_BATCH = 2048
#: The queries and the keys of one layer, [token head width] both.
QueriesAndKeys = tuple[Tensor, Tensor]


def context_free(
    model: Any,
    layer: int,
    token_ids: TokenIds | None = None,
    positions: Sequence[int] = (0,),
) -> Float[Tensor, "position token d_model"]:
    """What arrives at a layer of texts that are one token each, at each of several positions.

    model: a Hugging Face model of any family that `first_layer` reads, with its blocks, or a name
    or folder of a complete one. layer: from 0, the embeddings themselves, to the last. token_ids:
    all of the vocabulary unless given. positions: counted from 0; the rotary and relative families
    give the same at each, since a token's distance to itself is 0.

    [position token d_model], in the model's own dtype: the residual that the block's norm reads,
    or, where norms stand after the blocks (BERT), what has gone through that norm. A decoder that
    also reads an encoder (Whisper) runs without one. Raises `ShapeError` for a layer or position
    and `TokenError` for a token that the model does not have, `CheckpointError` as `first_layer`.

    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> config = GPT2Config(n_embd=24, n_head=3, n_layer=2, vocab_size=50, n_positions=20)
    >>> tuple(context_free(GPT2LMHeadModel(config), 1, [5, 7, 9], positions=(0, 10)).shape)
    (2, 3, 24)
    """
    whole = whole_model(model)
    whole_number(layer, "layer", least=0, most=whole.n_layers - 1)
    ids = whole.checked_tokens(token_ids)
    places = whole.checked_positions(positions)
    with evaluating(whole.model), torch.inference_mode():
        return torch.stack(
            [torch.cat([states[layer] for states in whole.states(ids, place)]) for place in places]
        )


@dataclass(frozen=True)
class WholeModel:
    """A model in memory with what is known of its inputs.

    part: the stack of blocks that is run; first_position: what its code calls position 0;
    n_positions: None where any position will do.
    """

    model: Any
    part: Any
    n_layers: int
    vocab_size: int
    n_positions: int | None
    first_position: int

    def checked_tokens(self, token_ids: Any) -> Int[Tensor, "token"]:
        """The token ids as a tensor, all of the vocabulary where none are given.

        Raises `TokenError` for what is no list of the model's tokens.
        """
        if token_ids is None:
            return torch.arange(self.vocab_size)
        return torch.from_numpy(whole_ids(token_ids, self.vocab_size))

    def checked_positions(self, positions: Sequence[int]) -> list[int]:
        """The positions, each one that the model has.

        Raises `ShapeError` where there is none.
        """
        if len(positions) == 0:
            raise ShapeError("positions is empty; give one position or more, such as (0,).")
        most = None if self.n_positions is None else self.n_positions - 1
        return [whole_number(position, "positions", least=0, most=most) for position in positions]

    def states(
        self, ids: Int[Tensor, "token"], position: int | Int[Tensor, "token"]
    ) -> Iterator[list[Float[Tensor, "token d_model"]]]:
        """What arrives at each layer, for one batch of tokens after another.

        position: of every token, or of each. To be called with gradients off, the model in
        evaluation mode. Raises `CheckpointError` for a model that does not report its states.
        """
        places = torch.as_tensor(position).expand(len(ids))
        for begin in range(0, len(ids), _BATCH):
            batch = slice(begin, begin + _BATCH)
            out = self.run(ids[batch], places[batch], output_hidden_states=True)
            if out.hidden_states is None:
                raise CheckpointError(
                    f"a {type(self.model).__name__} does not report what its layers are given."
                )
            yield [state[:, 0].cpu() for state in out.hidden_states[: self.n_layers]]

    def run(self, ids: Tensor, places: Tensor, **more: Any) -> Any:
        """The model's output of texts of one token."""
        device = self.model.device
        known = inspect.signature(self.part.forward).parameters
        if "position_ids" in known:
            more["position_ids"] = (places[:, None] + self.first_position).to(device)
        if "use_cache" in known:
            more["use_cache"] = False
        column = ids[:, None].to(device)
        return self.part(column, attention_mask=torch.ones_like(column), **more)

    def queries_and_keys(
        self, ids: Int[Tensor, "token"], position: int
    ) -> Iterator[list[QueriesAndKeys]]:
        """Each layer's queries and keys of texts of one token, for one batch after another.

        [token head width], with their bias, turned as at their position. The model is in `patched`.
        Raises `CheckpointError` where a model computes its attention in code of its own.
        """
        for begin in range(0, len(ids), _BATCH):
            batch = ids[begin : begin + _BATCH]
            noted: dict[int, QueriesAndKeys] = {}

            def note(layer: int, query: Tensor, key: Tensor, noted: Any = noted) -> None:
                noted[layer] = (query[:, :, 0].cpu(), key[:, :, 0].cpu())

            self.run(batch, torch.as_tensor(position).expand(len(batch)), attend=note)
            if not noted:
                raise CheckpointError(
                    f"a {type(self.model).__name__} computes its attention in code of its own, so "
                    "it cannot be asked for its queries and keys."
                )
            yield [noted[layer] for layer in sorted(noted)]


def whole_model(model: Any) -> WholeModel:
    """A model in memory, or the complete one behind a name, ready to run on single tokens.

    Raises `CheckpointError` as `first_layer` and `load_reference_model` do.
    """
    inner: Any = unwrapped(model if isinstance(model, nn.Module) else load_reference_model(model))
    family = family_of_module(inner)
    embeddings = family.embeddings()
    learned = isinstance(embeddings, Embeddings)
    return WholeModel(
        model=inner,
        part=part_of(inner, family),
        n_layers=family.n_layers,
        vocab_size=embeddings.vocab_size,
        n_positions=embeddings.n_positions if learned else None,
        first_position=family.offset if isinstance(family, BERT) else 0,
    )
