"""One layer of a transformer: what its sums run over, and what happens where they run otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from lnattn.attention.forward import (
    both_ln_layer,
    causal_mask,
    post_ln_layer,
    pre_ln_layer,
    project,
)
from lnattn.attention.layernorm import layer_norm, standardise
from lnattn.transformer import Block, Transformer
from lnattn.weights import LayerNorm
from lnattn_book.claims.intervals import Interval
from lnattn_book.studies.depth import ORDERS, Depth, through_depth
from lnattn_book.studies.torch_blocks import block_of_encoder_layer


class Moved(NamedTuple):
    """How far the first query moves when only the last token of a text changes."""

    over_sequence: float
    over_features: float


def moved_by_another_token(tokens: int = 5, features: int = 8, seed: int = 0) -> Moved:
    """A query map contracted over the sequence, as the notes write it, and over features."""
    generator = torch.Generator().manual_seed(seed)
    text, other = torch.randn(2, tokens, features, generator=generator)
    other[:-1] = text[:-1]
    over_sequence = torch.randn(tokens, tokens, generator=generator)
    over_features = torch.randn(features, features, generator=generator)
    change = other - text
    return Moved(
        float((over_sequence @ change)[0].abs().max()),
        float((change @ over_features)[0].abs().max()),
    )


def growth_of_products(widths: Sequence[int], draws: int = 2000, seed: int = 0) -> dict[str, float]:
    """The power of the width with which q·k of Gaussian vectors spreads, before division by its
    root and after it."""
    generator = torch.Generator().manual_seed(seed)
    spreads = []
    for width in widths:
        q, k = torch.randn(2, draws, width, generator=generator)
        spreads.append(float((q * k).sum(dim=1).std()))
    before = np.array(spreads)
    after = np.array(spreads) / np.sqrt(widths)
    curves = {"before": before, "after": after}
    return {
        name: float(np.polyfit(np.log(widths), np.log(curve), 1)[0])
        for name, curve in curves.items()
    }


class OffOne(NamedTuple):
    """How far sums of weights are from one: over the keys of a query, over the queries of a key."""

    over_keys: float
    over_queries: float


def sums_of(weights: Float[Tensor, "query key"]) -> OffOne:
    """How far the rows and the columns of attention weights are from summing to one."""
    rows = weights.sum(dim=1)
    columns = weights.sum(dim=0)
    return OffOne(float((rows - 1).abs().max()), float((columns - 1).abs().max()))


def mean_error(weights: Float[Tensor, "query key"], values: Float[Tensor, "key feature"]) -> float:
    """Outputs as means of values, summed one by one, against one matrix product."""
    outputs = [sum(a * v for a, v in zip(row, values, strict=True)) for row in weights]
    return float((torch.stack(outputs) - weights @ values).abs().max())


def asymmetry(scores: Float[Tensor, "query key"]) -> float:
    """How far scores are from symmetric: 0 where s_ij = s_ji."""
    return float((scores - scores.T).norm() / scores.norm())


class MaskReadings(NamedTuple):
    """Whether a mask is causal if its first index is the query's, and if it is the key's."""

    query_first: bool
    key_first: bool


def readings_of(mask: Bool[Tensor, "i j"]) -> MaskReadings:
    """How a mask may be read so that no query sees a later key."""
    causal = causal_mask(*mask.shape)
    return MaskReadings(mask.equal(causal), mask.T.equal(causal))


class LayerErrors(NamedTuple):
    """The three orders of LayerNorm and stage against other people's code, in double precision."""

    pre: float
    post: float
    both: float


@torch.no_grad()
def layer_errors(
    model: Transformer, reference: PreTrainedModel, ids: Int[Tensor, "n"]
) -> LayerErrors:
    """pre: all layers of a GPT-2 against Hugging Face's last state, relative; post and both:
    random layers against torch's own encoder layer and its parts."""
    last = reference.double()(ids[None], output_hidden_states=True).hidden_states
    stream = last[0][0]
    for block in model.blocks:
        stream, _ = pre_ln_layer(stream, block.to(torch.float64))
    stream = layer_norm(stream, model.ln_f.to(torch.float64))
    pre = float((stream - last[-1][0]).abs().max() / last[-1][0].abs().max())
    return LayerErrors(pre, *_encoder_errors())


def _encoder_errors() -> tuple[float, float]:
    torch.manual_seed(0)
    encoder = torch.nn.TransformerEncoderLayer(
        24, 3, 40, dropout=0.0, activation="gelu", batch_first=True, norm_first=False
    ).double()
    block = block_of_encoder_layer(encoder)
    x = torch.randn(7, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    norms = [torch.nn.LayerNorm(24).double() for _ in range(2)]
    for norm in norms:
        torch.nn.init.normal_(norm.weight)
        torch.nn.init.normal_(norm.bias)
    copies = [LayerNorm(norm.weight, norm.bias, norm.eps) for norm in norms]
    post = float((post_ln_layer(x, block) - encoder(x[None])[0]).abs().max())
    exact = _both_by_modules(encoder, norms, x)
    return post, float((both_ln_layer(x, block, (copies[0], copies[1])) - exact).abs().max())


def _both_by_modules(encoder: Any, norms: Sequence[Any], x: Tensor) -> Tensor:
    """LayerNorm before and after each stage, by torch's own modules."""
    before = encoder.norm1(x)
    middle = norms[0](x + encoder.self_attn(before, before, before)[0])
    wide = torch.nn.functional.gelu(encoder.linear1(encoder.norm2(middle)))
    return norms[1](middle + encoder.linear2(wide))


class Stacks(NamedTuple):
    """Random stacks of several depths, by depth and then by the order of LayerNorm and stage."""

    of: dict[int, dict[str, list[Depth]]]

    def last_gradients(self) -> pd.DataFrame:
        """Median over seeds of the gradient of the last layer's weights: order by depth."""
        rows = {
            order: {
                f"{depth} layers": float(
                    np.median([float(stack.gradient[-1]) for stack in by[order]])
                )
                for depth, by in self.of.items()
            }
            for order in ORDERS
        }
        return pd.DataFrame(rows).T.rename_axis("LayerNorm")

    def unevenness(self, depth: int) -> dict[str, Interval]:
        """Within one stack, the largest gradient of a layer over the smallest, over seeds."""
        ratios = {
            order: np.array(
                [float(stack.gradient.max() / stack.gradient.min()) for stack in stacks]
            )
            for order, stacks in self.of[depth].items()
        }
        return {order: Interval.bootstrap_median(values) for order, values in ratios.items()}

    def likeness(self, depth: int, order: str) -> float:
        """Median cosine between the last layer's input and output."""
        return float(np.median([float(stack.likeness[-1]) for stack in self.of[depth][order]]))


def random_stacks(depths: Sequence[int], seeds: int = 5) -> Stacks:
    """Gradients and likeness along random stacks at initialisation."""
    return Stacks(
        {
            depth: {
                order: [through_depth(order, depth, seed=seed) for seed in range(seeds)]
                for order in ORDERS
            }
            for depth in depths
        }
    )


def moved_features() -> float:
    """Change one feature of a token: by how much LayerNorm moves each other one, at least."""
    token = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    changed = token.clone()
    changed[0, 0] = 9.0
    return float((standardise(token) - standardise(changed))[0, 1:].abs().min())


def queries_and_keys(
    u: Float[Tensor, "n d_model"], block: Block, head: int
) -> tuple[Tensor, Tensor]:
    """Queries and keys of one head, [n d_head] each."""
    attention = block.attention
    queries = project(u, attention.W_Q, attention.b_Q)[head]
    keys = project(u, attention.W_K, attention.b_K)[head]
    return queries, keys
