"""transformers 5.24: Falcon with rotary positions looks ahead if SDPA is asked for attentions."""

import torch
from transformers import FalconConfig, FalconForCausalLM


@torch.no_grad()
def outputs(last_token: int, kernel: str, asked: bool):
    """What one model gives of a text of three tokens."""
    torch.manual_seed(0)
    config = FalconConfig(
        vocab_size=50, hidden_size=16, num_attention_heads=4, num_hidden_layers=1,
        initializer_range=0.5, attn_implementation=kernel,
    )  # fmt: skip
    model = FalconForCausalLM(config).eval()
    return model(torch.tensor([[7, 5, last_token]]), output_attentions=asked)


def moved(kernel: str, asked: bool) -> float:
    """How far the first logits move with the last token: 0 in a causal model."""
    two = [outputs(last, kernel, asked).logits[0, 0] for last in (9, 30)]
    return float((two[0] - two[1]).abs().max())


def above_the_diagonal(kernel: str) -> float:
    """The largest attention weight on a later token."""
    return float(outputs(9, kernel, asked=True).attentions[0][0].triu(1).max())


if __name__ == "__main__":
    for kernel, asked in (("eager", True), ("sdpa", False), ("sdpa", True)):
        print(f"{kernel:6} output_attentions={asked!s:6} moved by {moved(kernel, asked):.1e}")
    for kernel in ("eager", "sdpa"):
        print(f"{kernel:6} largest weight on a later token: {above_the_diagonal(kernel):.3f}")
