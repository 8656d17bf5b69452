"""Circuits and the residual stream: how exact the sums are, and which heads could read which.

The errors of identities are measured in double precision, relative to the largest entry where that
is not a probability.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from lnattn.attention.circuits import Composition, Kind, ov_circuit, qk_circuit
from lnattn.attention.folding import fold, softmax_over_keys
from lnattn.attention.forward import multi_head_attention, pre_ln_layer
from lnattn.attention.layernorm import divide_by_sigma, layer_norm
from lnattn.attention.nulls import random_baseline, rotation_z
from lnattn.attention.residual import decompose
from lnattn.composition import CompositionStudy, exceedances, pair_table
from lnattn.errors import ResultError
from lnattn.models.reference import load_reference_model
from lnattn.transformer import Block, Transformer
from lnattn.weights import AttentionLayer
from lnattn_book.claims.verdicts import Record
from lnattn_book.page import Check, says
from lnattn_book.studies import identities
from lnattn_book.studies.head_paths import two_layer_paths

KINDS = ("Q", "K", "V")


# ---- Two matrices and two vectors ----------------------------------------------------------------


class CircuitErrors(NamedTuple):
    """A block computed from its two circuits, against the block as it is written.

    attention: largest error of a weight; without_bias: the same where b_QK is left out, as the
    slides do; output: of what the block adds, relative.
    """

    attention: float
    without_bias: float
    output: float


def circuit_errors(layer: AttentionLayer, x: Float[Tensor, "n d_model"]) -> CircuitErrors:
    """How far a causal block's QK and OV circuits are from its attention and its output."""
    folded = fold(layer)
    u = divide_by_sigma(x, layer.ln.eps)
    compare = qk_circuit(folded).apply(u) @ u.T
    assertion = (folded.b_QK @ u.T)[:, None, :]
    alpha = softmax_over_keys(compare + assertion, folded.scale, causal=layer.causal)
    without = softmax_over_keys(compare, folded.scale, causal=layer.causal)
    usual = identities.original_attention(layer, x)
    output, _ = multi_head_attention(layer_norm(x, layer.ln), layer)
    written = (alpha @ ov_circuit(folded).apply(u)).sum(dim=0) + folded.b_VO
    return CircuitErrors(
        attention=float((alpha - usual).abs().max()),
        without_bias=float((without - usual).abs().max()),
        output=float((written - output).abs().max() / output.abs().max()),
    )


# ---- Which head could read which -----------------------------------------------------------------


def usable_and_impossible(
    composition: Composition, shares: Sequence[float], draws: int = 2000, seed: int = 0
) -> pd.DataFrame:
    """How many usable pairs of heads there are for each impossible one among the highest scores.

    Counted for each two layers by themselves, among the highest share of both kinds together. One
    row for each kind and share: usable, impossible, ratio, and its 95 % interval, low to high, from
    drawing *layers*: the pairs of layers share them and are not independent.
    """
    layers = composition.scores.shape[1]
    if layers < 2:
        raise ResultError("a model of one layer has no head that could read another.")
    drawn = np.random.default_rng(seed).multinomial(layers, np.full(layers, 1 / layers), size=draws)
    first, second = np.triu_indices(layers, k=1)
    weights = drawn[:, first] * drawn[:, second]  # [draw pair]
    rows = []
    for share in shares:
        counts = exceedances(composition, share)  # [kind side pair]
        for kind, (usable, impossible) in zip(KINDS, counts, strict=True):
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = (weights @ usable) / (weights @ impossible)
                ratio = usable.sum() / impossible.sum()
            low, high = np.nanquantile(ratios, (0.025, 0.975), method="nearest")
            rows.append((kind, share, usable.sum(), impossible.sum(), ratio, low, high))
    columns = ["kind", "share", "usable", "impossible", "ratio", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def beyond_rotations(composition: Composition, kind: Kind, z: float = 4.0) -> float:
    """Share of the usable pairs whose squared score is z deviations above random rotations."""
    return float((rotation_z(composition, kind)[composition.possible()] > z).double().mean())


def strongest_pairs(study: CompositionStudy, count: int = 3) -> pd.DataFrame:
    """The highest scores of each kind among pairs that the model can use.

    Raises `ResultError` for a model of one layer, in which no head reads another.
    """
    if not study.raw.possible().any():
        raise ResultError(f"{study.name} has one layer, so no head reads another.")
    kinds: tuple[Kind, ...] = ("K", "Q", "V")
    tables = [
        pair_table(study.raw, kind).query("possible").assign(kind=kind).head(count)
        for kind in kinds
    ]
    columns = ["kind", "writer", "reader", "score", "z", "impossible_share", "special"]
    return pd.concat(tables, ignore_index=True)[columns]


# ---- Sums ----------------------------------------------------------------------------------------


@torch.no_grad()
def sum_errors(model: Transformer, name: str, ids: Sequence[int]) -> dict[torch.dtype, float]:
    """Logits as a sum over parts against those of the whole model's last state, by dtype.

    name: what Hugging Face's model is loaded by; it is gone before the sum is made, since each of
    them takes a gigabyte in double precision. The parts are added one after another: the logits of
    all at once would take more.
    """
    states = _last_states(load_reference_model(name), ids)
    return {dtype: _sum_error(model.to(dtype), last, ids) for dtype, last in states.items()}


def _sum_error(
    model: Transformer, last: Float[Tensor, "query d_model"], ids: Sequence[int]
) -> float:
    """The largest difference of a logit, beside the largest one; last: the reference's state."""
    logits = last @ model.W_U
    parts = decompose(model, [*ids])
    summed = parts.readout.bias.repeat(len(ids), 1)
    for part in parts.stream():
        summed += parts.readout.logits(part)
    return float((summed - logits).abs().max() / logits.abs().max())


@torch.no_grad()
def _last_states(
    reference: PreTrainedModel, ids: Sequence[int]
) -> dict[torch.dtype, Float[Tensor, "query d_model"]]:
    """The last hidden state of a text in single and in double precision."""
    return {
        dtype: reference.to(dtype)(torch.tensor([[*ids]])).last_hidden_state[0]
        for dtype in (torch.float32, torch.float64)
    }


class PathLosses(NamedTuple):
    """Losses of documents where groups of paths are left out.

    sums: [document kind], the first kind with nothing left out; tokens: [document], how many
    losses are in a sum.
    """

    sums: Float[np.ndarray, "document kind"]
    tokens: Float[np.ndarray, "document"]

    def rises(self) -> Float[np.ndarray, "kind"]:
        """By how much the loss rises without each group, in nats a token."""
        per_token = self.sums.sum(axis=0) / self.tokens.sum()
        return per_token[1:] - per_token[0]


def path_losses(
    model: Transformer, documents: Sequence[Sequence[int]], left_out: Mapping[str, Sequence[str]]
) -> PathLosses:
    """The loss of each document from all paths of a model of two layers, and without some.

    left_out: name → groups of paths (`lnattn_book.studies.head_paths`).
    """
    sums = []
    for ids in documents:
        paths = two_layer_paths(model, [*ids])
        without = ((), *left_out.values())
        sums.append([float(paths.loss_without([*ids], *names).sum()) for names in without])
    return PathLosses(np.array(sums), np.array([len(ids) - 1.0 for ids in documents]))


class PathErrors(NamedTuple):
    """Logits summed over paths against those of the model: without its FFNs, and whole."""

    attention_only: float
    whole: float


def path_errors(model: Transformer, ids: Sequence[int] | Int[Tensor, "n"]) -> PathErrors:
    """How far the sum over all paths of a model of two layers is from its logits, relative."""
    model = model.to(torch.float64)
    ids = torch.as_tensor(ids)
    attention_alone = tuple(Block(block.attention) for block in model.blocks)
    bare = type(model)(model.embeddings, attention_alone, model.ln_f, model.W_U)
    stream = bare.embeddings.tokens()[ids] + bare.embeddings.W_P[: len(ids)]
    for block in bare.blocks:
        stream, _ = pre_ln_layer(stream, block)
    exact = layer_norm(stream, bare.ln_f) @ bare.W_U
    return PathErrors(
        attention_only=_relative(two_layer_paths(bare, ids).logits(), exact),
        whole=_relative(two_layer_paths(model, ids).logits(), decompose(model, ids).logits()),
    )


def _relative(values: Tensor, exact: Tensor) -> float:
    return float((values - exact).abs().max() / exact.abs().max())


# ---- What the page says --------------------------------------------------------------------------


def checks_of_scores(
    pairs: pd.DataFrame,
    counted: pd.DataFrame,
    stand_out: Mapping[Kind, float],
    previous: Float[Tensor, "layer head"],
) -> Iterator[Check]:
    """What the page says of GPT-2's pairs of heads.

    pairs: usable ones for keys, by writer and reader; counted: of `usable_and_impossible`;
    stand_out: of `beyond_rotations`; previous: attention on the previous token by position alone.
    """
    table = counted.set_index(["kind", "share"])
    ratio = table["ratio"]
    tenths = ratio.loc[["K", "Q"], [0.1]].to_numpy()
    hundredths = ratio.loc[["K", "Q"], [0.01]].to_numpy()
    of_impossible = 1 / (1 + np.concatenate([tenths, hundredths]))
    known = pairs.loc[[("4.11", "5.5"), ("4.11", "6.9")]]
    times = known["score"] / random_baseline(768)
    interval = table.loc["K", 0.01]

    yield says(
        "for keys and queries a quarter of the highest belong to pairs that cannot read each other",
        of_impossible > 0.2,
        of_impossible < 0.27,
        found=of_impossible,
    )
    yield says("for GPT-2 0.036", random_baseline(768))
    yield says(
        "Both pairs score nearly three times the baseline", times > 2.6, times < 3, found=times
    )
    yield says(
        "For keys and queries more than half of all usable pairs stand out",
        stand_out["K"] > 0.5,
        stand_out["Q"] > 0.5,
        found=[stand_out["K"], stand_out["Q"]],
    )
    yield says(
        "Among the highest tenth usable pairs are more than three times as many",
        tenths > 3,
        tenths < 3.6,
        found=tenths,
    )
    values = ratio["V", 0.1]
    yield says("for values there are as many of either kind", 0.9 < values < 1.1, found=values)
    yield says(
        "In the highest hundredth, where one looks for circuits, the ratio is the same",
        hundredths > 3,
        hundredths < 3.6,
        found=hundredths,
    )
    yield says("it may be anything from 1.1 to 34 for keys", interval["low"], interval["high"])
    places = known["special"].map(lambda special: 1 + (pairs["special"] > special).sum())
    yield says(
        "*4.11* with *6.9* comes first of nine and a half thousand pairs",
        places["4.11", "6.9"] == 1,
        9_400 < len(pairs) < 9_600,
        found=len(pairs),
    )
    yield says("*4.11* with *5.5* fifth", places["4.11", "5.5"] == 5)
    of_writer = previous[4, 11]
    more = float((previous > of_writer).double().mean())
    yield says(
        "*4.11* gives the previous token 2 % of its attention, and a fifth of all heads give it "
        "more",
        of_writer,
        0.18 < more < 0.22,
    )
    yield says(
        "of the same two layers about a third as often",
        1 / tenths > 0.27,
        1 / tenths < 0.4,
        found=1 / tenths,
    )


def checks_of_sums(
    errors: CircuitErrors,
    of_sum: Mapping[torch.dtype, float],
    losses: PathLosses,
    of_paths: PathErrors,
    ensemble: Record,
) -> Iterator[Check]:
    """What the page says of its sums: of a block, of all parts, of the paths of two layers.

    losses: without one path of one head, of two, of FFNs, of the first FFN and then a head;
    ensemble: the record of R7.
    """
    one_head, two_heads, direct, then_a_head = losses.rises()
    yield says(
        "without b^{QK} its attention is another",
        errors.without_bias > 1e-6,
        found=errors.without_bias,
    )
    yield says(
        "With both, the identity is exact",
        errors.attention < 1e-8,
        errors.output < 1e-8,
        found=[errors.attention, errors.output],
    )
    yield says(
        "The whole sum equals Hugging Face's logits to rounding",
        of_sum[torch.float64] < 1e-8,
        found=of_sum[torch.float64],
    )
    yield says("the sum stays exact", max(of_paths) < 1e-8, found=[*of_paths])
    yield says("are worth more than about 0.01 nats", round(max(abs(one_head), abs(two_heads)), 2))
    yield says("these documents cannot tell the two apart", ensemble.verdict == "undecided")
    yield says("What FFNs add directly is worth 3.2 nats", direct)
    yield says("what passes the first FFN and then a head 1.0", then_a_head)
