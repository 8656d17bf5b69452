"""A small language model whose norms remove one direction, or none, before they scale."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH = 64
HEADS = 4
LAYERS = 2
CONTEXT = 32


class Norm(nn.Module):
    """x ↦ γ ⊙ y / rms(y) + β with y = x − (x·u)u; LayerNorm for u = 1/√d, RMSNorm without u."""

    def __init__(self, u: Tensor | None):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(WIDTH))
        self.beta = nn.Parameter(torch.zeros(WIDTH))
        self.register_buffer("u", u)

    def forward(self, x: Tensor) -> Tensor:
        if self.u is not None:
            x = x - (x @ self.u)[..., None] * self.u
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.gamma + self.beta


class Block(nn.Module):
    """Attention, then an FFN, each behind a norm and added to the stream."""

    def __init__(self, u: Tensor | None):
        super().__init__()
        self.norm_1 = Norm(u)
        self.norm_2 = Norm(u)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)
        for linear in (self.qkv, self.out, self.up, self.down):
            nn.init.normal_(linear.weight, std=0.02)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        batch, n, d = x.shape
        parts = self.qkv(self.norm_1(x)).view(batch, n, 3, HEADS, d // HEADS)
        q, k, v = parts.permute(2, 0, 3, 1, 4)  # [batch head n d_head]
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, n, d))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Model(nn.Module):
    """Embeddings, blocks, a last norm and an unembedding that shares no weight with the tokens."""

    def __init__(self, vocabulary: int, u: Tensor | None):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block(u) for _ in range(LAYERS))
        self.norm = Norm(u)
        self.unembed = nn.Linear(WIDTH, vocabulary, bias=False)
        for module in (self.tokens, self.positions, self.unembed):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits [batch n vocab] of ids [batch n]."""
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.unembed(self.norm(x))

    def writers(self) -> dict[str, nn.Parameter]:
        """The parameters that write to the stream, by name; of Linear layers they are W_ᵀ."""
        weights = {"tokens": self.tokens.weight, "positions": self.positions.weight}
        for layer, block in enumerate(self.blocks):
            weights |= {f"attention {layer}": block.out.weight, f"FFN {layer}": block.down.weight}
        return weights


def rows(name: str, W: Tensor) -> Tensor:
    """What a writer adds to the stream, [.., d_model]: of a Linear layer the transpose."""
    return W if name in ("tokens", "positions") else W.T
