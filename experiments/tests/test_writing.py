"""Energy along a direction of the stream: its value, its null, and why training leaves 1 alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from experiments.nobody_reads_one.writing import along, chance, writing_matrices
from lnattn.errors import ShapeError

D = 12


def randomised(model: torch.nn.Module) -> torch.nn.Module:
    """Every parameter random, gains and biases too: at 1 and 0 half of the identity is idle."""
    generator = torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model.double()


def centred() -> GPT2LMHeadModel:
    config = GPT2Config(
        n_layer=2, n_embd=D, n_head=2, vocab_size=17, n_positions=9, tie_word_embeddings=False
    )
    return randomised(GPT2LMHeadModel(config).eval())


def gradients_along_1(model: torch.nn.Module) -> dict[tuple[str, int], float]:
    """Largest |gradient · 1/√d| over the rows of each writer, relative to the largest gradient."""
    ids = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
    model.zero_grad()
    model(ids, labels=ids).loss.backward()
    state = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {
        key: float((G.sum(-1) / math.sqrt(D)).abs().max() / G.abs().max())
        for key, G in writing_matrices(state).items()
    }


def test_energy_along_a_direction():
    W = torch.randn(5, 3, D, dtype=torch.float64)
    u = torch.randn(4, D, dtype=torch.float64)
    direct = [D * ((W @ (v / v.norm())) ** 2).sum() / (W**2).sum() for v in u]
    torch.testing.assert_close(along(W, u), torch.stack(direct))
    torch.testing.assert_close(along(W, 7 * u), along(W, u))
    whole = along(W, torch.eye(D, dtype=torch.float64))
    assert whole.mean().item() == pytest.approx(1)  # chance, exactly, over a basis
    for bad in (torch.ones(D - 1).double(), torch.zeros(D).double()):
        with pytest.raises(ShapeError):
            along(W, bad)


@pytest.mark.parametrize("rows", [D // 2, 40])  # below and above the width
def test_random_signs_are_the_null(rows):
    """Quantiles of all 2^d directions of signs, in both ways in which they are computed."""
    generator = torch.Generator().manual_seed(1)
    W = torch.randn(rows, D, generator=generator, dtype=torch.float64)
    W *= torch.linspace(0.2, 3, D)
    every = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * D).double()
    exact = torch.quantile(along(W, every), torch.tensor([0.025, 0.975]).double())
    assert along(W, every).mean().item() == pytest.approx(1)
    np.testing.assert_allclose(chance(W, draws=20_000), exact.numpy(), rtol=0.03)


def test_no_gradient_along_what_no_reader_sees():
    energies = gradients_along_1(centred())
    assert set(energies) == {
        *((kind, layer) for kind in ("attention", "FFN") for layer in (0, 1)),
        *(("tokens", -1), ("positions", -1)),
    }
    assert max(energies.values()) < 1e-12


@pytest.mark.parametrize("reader", ["ln_1", "ln_2", "ln_f"])
def test_one_reader_that_does_not_centre_is_enough(reader):
    model = centred()
    place = model.transformer if reader == "ln_f" else model.transformer.h[1]
    setattr(place, reader, randomised(LlamaRMSNorm(D)))
    seen = gradients_along_1(model)
    # What is written after the last such reader stays unseen; all that is written before is seen.
    after = {"ln_1": 2, "ln_2": 1, "ln_f": 0}[reader]
    written = [("tokens", -1), ("positions", -1), ("attention", 0), ("FFN", 0)]
    written += [("attention", 1), ("FFN", 1)]
    for place, key in enumerate(written):
        assert (seen[key] > 1e-4) == (place < len(written) - after)


def test_a_model_with_rmsnorm_sees_everything():
    config = LlamaConfig(
        hidden_size=D,
        intermediate_size=20,
        num_hidden_layers=2,
        num_attention_heads=2,
        vocab_size=17,
    )
    assert min(gradients_along_1(randomised(LlamaForCausalLM(config).eval())).values()) > 1e-4


def test_adams_first_step_along_what_it_does_not_see():
    """Signs of Gaussian rows that sum to zero: 1 − 2/π of chance along 1."""
    W = torch.nn.Parameter(torch.zeros(4000, 64, dtype=torch.float64))
    optimiser = torch.optim.Adam([W], lr=1.0)
    gradient = torch.randn(W.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    W.grad = gradient - gradient.mean(1, keepdim=True)
    assert along(W.grad, torch.ones(64).double()) < 1e-20
    optimiser.step()
    assert along(W.detach(), torch.ones(64).double()).item() == pytest.approx(
        1 - 2 / math.pi, abs=0.02
    )
