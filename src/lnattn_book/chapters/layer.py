"""One layer of a transformer: what its sums run over, and what happens where they run otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
)
from lnattn.attention.layernorm import layer_norm, standardise
from lnattn.transformer import Transformer
from lnattn.weights import LayerNorm
from lnattn_book.claims.intervals import Interval
from lnattn_book.page import Check, says
from lnattn_book.studies.depth import ORDERS, Depth, through_depth, turned_by_steps
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


def asymmetry(scores: Float[Tensor, "query key"]) -> float:
    """How far scores are from symmetric: 0 where s_ij = s_ji."""
    return float((scores - scores.T).norm() / scores.norm())


def asymmetries(
    Q: Float[Tensor, "token d_head"], K: Float[Tensor, "token d_head"], scale: float
) -> dict[str, float]:
    """How far from symmetric scores of one map and of two are, and the weights of one map."""
    of_one_map = Q @ Q.T
    return {
        "one map": asymmetry(of_one_map),
        "two maps": asymmetry(Q @ K.T),
        "one map, softmax": asymmetry((of_one_map / scale).softmax(dim=1)),
    }


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


#: What `Stacks.behaviour` says of the deepest stacks.
UNEVEN = "largest gradient of a layer over the smallest"
ALIKE = "cosine of the last layer's input and output"


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

    def behaviour(self) -> pd.DataFrame:
        """`last_gradients`, and what the deepest stacks do: a row for each order."""
        deepest = max(self.of)
        table = self.last_gradients()
        table[f"{deepest} layers, {UNEVEN}"] = {
            order: ratio.value for order, ratio in self.unevenness(deepest).items()
        }
        table[f"{deepest} layers, {ALIKE}"] = {
            order: self.likeness(deepest, order) for order in ORDERS
        }
        return table

    def likenesses(self, depth: int, order: str) -> Float[np.ndarray, "seed"]:
        """Cosine between the last layer's input and output, by seed."""
        return np.array([float(stack.likeness[-1]) for stack in self.of[depth][order]])

    def likeness(self, depth: int, order: str) -> float:
        """Its median over seeds."""
        return float(np.median(self.likenesses(depth, order)))


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


class AtTheirWord(NamedTuple):
    """What becomes of the notes' statements where each is taken as it is written.

    moved: by a map over the sequence; sums: of weights that are normalised over columns; mask: its
    readings; most: what one of many tokens gets at most by a softmax of a softmax; feature: how
    far LayerNorm moves each other feature, at least, where one is changed.
    """

    moved: Moved
    sums: OffOne
    mask: MaskReadings
    most: float
    feature: float


def at_their_word(
    scores: Float[Tensor, "query key"], mask: Bool[Tensor, "i j"], tokens: int = 100
) -> AtTheirWord:
    """Take five statements of the notes at their word.

    scores: over their scale; tokens: of a text whose scores went through a softmax before.
    """
    return AtTheirWord(
        moved=moved_by_another_token(),
        sums=sums_of(scores.softmax(dim=0)),
        mask=readings_of(mask),
        most=float(np.e / (tokens - 1 + np.e)),  # one score of 1, the others 0
        feature=moved_features(),
    )


def checks(
    powers: Mapping[str, float],
    weights: Float[Tensor, "query key"],
    asymmetry: Mapping[str, float],
    errors: LayerErrors,
    behaviour: pd.DataFrame,
    taken: AtTheirWord,
) -> Iterator[Check]:
    """What the page says of its numbers.

    powers: as from `growth_of_products`; weights: of one head; asymmetry: of scores from one map
    and from two; behaviour: of random stacks, as from `Stacks.behaviour`.
    """
    before = powers["before"]
    after = powers["after"]
    off = sums_of(weights).over_keys
    of_one_map = asymmetry["one map"]
    of_two_maps = asymmetry["two maps"]
    yield says("the root of their length", abs(before - 0.5) < 0.05, found=before)
    yield says("they do not any more", abs(after) < 0.05, found=after)
    yield says("It is the row that sums to one", off < 1e-10, weights >= 0, found=off)
    yield says("made by one map", of_one_map < 1e-10, found=of_one_map)
    yield says("on real weights it is not", of_two_maps > 0.01, found=of_two_maps)
    of_weights = asymmetry["one map, softmax"]
    yield says(
        "Its scores are; its weights are not",
        of_one_map < 1e-10,
        of_weights > 0.01,
        found=of_weights,
    )
    yield says("All three agree to rounding", np.array(errors) < 1e-8, found=np.array(errors))
    yield from _checks_of_stacks(behaviour.loc["pre-LN"], behaviour.loc["post-LN"])
    yield from _checks_at_their_word(taken)


def _checks_of_stacks(pre: pd.Series, post: pd.Series) -> Iterator[Check]:
    gradients = pre[[name for name in pre.index if name.endswith(" layers")]].to_numpy()
    yield says("With pre-LN the last gradient shrinks", np.diff(gradients) < 0, found=gradients)
    shallow = post["6 layers"] / pre["6 layers"]
    deep = post["24 layers"] / pre["24 layers"]
    yield says("about twice as large at 6 layers", 6, 1.6 < shallow < 2.4, found=shallow)
    yield says("four times at 24", 24, 3.5 < deep < 5, found=deep)
    uneven = np.array([pre[f"24 layers, {UNEVEN}"], post[f"24 layers, {UNEVEN}"]])
    yield says("Within one stack nothing vanishes with either order", uneven < 10, found=uneven)
    alike = [pre[f"24 layers, {ALIKE}"], post[f"24 layers, {ALIKE}"]]
    by_steps = (1 - 1 / 24) ** 0.5  # of one size, each at right angles to the stream
    yield says("a cosine of 0.98 with pre-LN, of 0.60 with post-LN", alike)
    generator = np.random.default_rng(0)
    by_chance = [turned_by_steps(order, 24, generator) for order in ORDERS]
    yield says("random steps in place of layers give 0.98 and 0.50", by_chance)
    yield says("whatever the layers do", abs(alike[0] - by_steps) < 0.005, found=by_steps)


def _checks_at_their_word(taken: AtTheirWord) -> Iterator[Check]:
    moved = taken.moved
    mask = taken.mask
    yield says(
        "a query would change with its neighbours before any attention",
        moved.over_sequence > 0.1,
        moved.over_features == 0,
        found=moved,
    )
    off = taken.sums.over_keys
    yield says("a row that sums to anything", off > 1e-6, found=off)
    yield says("the same mask is causal", mask.key_first, not mask.query_first)
    yield says("over 100 tokens the best gets 2.7 % at most", 100, taken.most)
    yield says("change one, and every other moves", taken.feature > 0.1, found=taken.feature)
