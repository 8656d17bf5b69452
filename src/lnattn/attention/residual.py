"""A prediction as an exact sum over the parts of the model.

Elhage et al. 2021; Ferrando et al. 2024, §2.2. Every attention head and every FFN of a pre-LN
transformer *adds* to the residual stream, so::

    logits = LN_f(e + p + Σ_layers (Σ_h head_h + b_VO + FFN)) W_U .

The final LayerNorm is x C diag(γ)/σ(x) + β: linear, once σ is the number that this input gave.
C diag(γ) is folded into W_U, and each summand is divided by the same realised σ. So the sum is
exact, but 'without this head' is another prediction than the sum without its row.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lnattn.attention.folding import FoldedAttention, fold
from lnattn.attention.forward import feed_forward
from lnattn.attention.layernorm import divide_by_sigma, layer_norm, sigma
from lnattn.attention.terms import check_indices, input_rows
from lnattn.errors import TokenError
from lnattn.inputs import require
from lnattn.transformer import Transformer
from lnattn.weights import LayerNorm


@dataclass(frozen=True, eq=False)
class Readout:
    """The last step, from residual stream to logits, made linear by the realised σ.

    W_U: [d_model vocab], C diag(γ) W_U; bias: [vocab], β W_U; sigma: [query].
    """

    W_U: Float[Tensor, "d_model vocab"]
    bias: Float[Tensor, "vocab"]
    sigma: Float[Tensor, "query"]

    def logits(self, part: Float[Tensor, "*any query d_model"]) -> Tensor:
        """What a summand of the stream adds to every logit: `[*any query vocab]`. No bias."""
        return (part / self.sigma[:, None]) @ self.W_U

    def logit_of(
        self, part: Float[Tensor, "*any query d_model"], tokens: Int[Tensor, "query"]
    ) -> Float[Tensor, "*any query"]:
        """What a summand adds to the logit of one token per query. No bias."""
        return ((part / self.sigma[:, None]) * self.W_U[:, tokens].T).sum(-1)


def unembedding(
    ln_f: LayerNorm, W_U: Float[Tensor, "d_model vocab"]
) -> tuple[Float[Tensor, "d_model vocab"], Float[Tensor, "vocab"]]:
    """Fold the final LayerNorm into the unembedding: C diag(γ) W_U and β W_U."""
    scaled = ln_f.gamma[:, None] * W_U
    scaled -= scaled.mean(dim=0)  # in place: a second copy of W_U would be held beside it
    return scaled, ln_f.beta @ W_U


@dataclass(frozen=True, eq=False)
class LogitDecomposition:
    """The summands of the final residual stream of one sequence, made by `decompose`.

    direct: e + p; heads: without biases; biases: the attention blocks' b_VO; mlps: zero where a
    block has no FFN; attention: the patterns that occurred.
    """

    direct: Float[Tensor, "query d_model"]
    heads: Float[Tensor, "layer head query d_model"]
    biases: Float[Tensor, "layer d_model"]
    mlps: Float[Tensor, "layer query d_model"]
    attention: Float[Tensor, "layer head query key"]
    readout: Readout

    def names(self) -> list[str]:
        """Names of the rows of `stream` and `logit_of`, in order."""
        layers, heads = self.heads.shape[:2]
        return [
            "direct path",
            *(f"head {layer}.{head}" for layer in range(layers) for head in range(heads)),
            *(f"attention bias {layer}" for layer in range(layers)),
            *(f"FFN {layer}" for layer in range(layers)),
        ]

    def stream(self) -> Float[Tensor, "part query d_model"]:
        """All summands; they add up to the residual stream before the final LayerNorm."""
        queries = len(self.direct)
        biases = self.biases[:, None].expand(-1, queries, -1)
        return torch.cat((self.direct[None], self.heads.flatten(0, 1), biases, self.mlps))

    def logits(self) -> Float[Tensor, "query vocab"]:
        """The sum of all summands' logits and the final bias: the model's logits."""
        return self.readout.logits(self.stream().sum(0)) + self.readout.bias

    def logit_of(
        self, tokens: Int[Tensor, "query"] | list[int], against: list[int] | None = None
    ) -> pd.DataFrame:
        """Each part's summand in the logit of one token per query.

        One row a part (the last row is 'final bias', β W_U), one column a query. With `against`,
        the difference from the logit of a second token per query, in which what the softmax ignores
        cancels. Raises `TokenError` for ids outside the vocabulary, or not one a query.
        """
        rows = self._rows(tokens)
        if against is not None:
            rows = rows - self._rows(against)
        return pd.DataFrame(rows.double().numpy(), index=[*self.names(), "final bias"])

    def _rows(self, tokens: Int[Tensor, "query"] | list[int]) -> Float[Tensor, "part query"]:
        ids = check_indices(tokens, len(self.readout.bias), "token id", "the vocabulary")
        if len(ids) != len(self.direct):
            raise TokenError(
                f"one token id a query is needed, {len(self.direct)} in all, not {len(ids)}."
            )
        return torch.cat((self.readout.logit_of(self.stream(), ids), self.readout.bias[ids][None]))


def attend(
    alpha: Float[Tensor, "head query key"],
    source: Float[Tensor, "*any key d_model"],
    folded: FoldedAttention,
) -> Float[Tensor, "*any head query d_model"]:
    """Σ_j α_hij source_j W_VO for every head: what heads move, with the pattern held fixed."""
    return alpha @ (source.unsqueeze(-3) @ folded.W_V) @ folded.W_O


def decompose(
    model: Transformer, token_ids: Int[Tensor, "query"] | list[int]
) -> LogitDecomposition:
    """Run the model once and keep every summand of its final residual stream.

    token_ids: [query]. Computed in the dtype of the weights; memory is layers · heads · query ·
    d_model numbers. Elhage et al. 2021. Raises `TokenError` for ids outside the vocabulary or more
    tokens than positions, `ShapeError` for anything but a whole `Transformer`.

    >>> import lnattn
    >>> model = lnattn.load_transformer("book-gpt2")
    >>> parts = decompose(model, [464, 3290, 318])
    >>> tuple(parts.heads.shape)  # layer, head, query, d_model
    (2, 8, 3, 256)
    """
    require(model, Transformer, "model")
    tokens, positions = input_rows(model.embeddings, token_ids)
    direct = tokens + positions
    x = direct
    heads = []
    biases = []
    mlps = []
    patterns = []
    for block in model.blocks:
        folded = fold(block.attention)
        alpha = folded.attention(x)
        update = attend(alpha, divide_by_sigma(x, folded.eps), folded)
        heads.append(update)
        biases.append(folded.b_VO)
        patterns.append(alpha)
        x = x + update.sum(0) + folded.b_VO
        if block.mlp is None:
            written = torch.zeros_like(x)
        else:
            written = feed_forward(layer_norm(x, block.mlp.ln), block.mlp)
        mlps.append(written)
        x = x + written
    W_U, bias = unembedding(model.ln_f, model.W_U)
    readout = Readout(W_U, bias, sigma(x, model.ln_f.eps))
    return LogitDecomposition(
        direct=direct,
        heads=torch.stack(heads),
        biases=torch.stack(biases),
        mlps=torch.stack(mlps),
        attention=torch.stack(patterns),
        readout=readout,
    )
