"""The compiled kernels for models of width 8 against torch's own loss and attention in float64."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from experiments.book_model import narrow_attention, narrow_loss
from experiments.book_model.forward import training_loss
from experiments.book_model.plan import TrainingPlan
from experiments.unselectable_lm.small_models import remove_from_layer_norm
from lnattn_book.language_models import ARMS


def with_gradients(
    function: Callable[..., Tensor], *inputs: Tensor, weight: Tensor
) -> list[Tensor]:
    """The value, and the gradients of the sum of weight times value."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    value = function(*leaves)
    (value * weight.to(value.dtype)).sum().backward()
    return [value.detach(), *(leaf.grad for leaf in leaves)]


def agree(
    found: list[Tensor], expected: list[Tensor], tolerance: float = 1e-4, size: float = 1.0
) -> None:
    """In the norm of each array: the parts that cancel have no relative precision of their own.

    size: of the scores, to whose rounding a gradient that cancels altogether comes down.
    """
    for ours, oracle in zip(found, expected, strict=True):
        error = (ours.double() - oracle).norm()
        assert ours.isfinite().all()
        assert error <= tolerance * oracle.norm() + 1e-6 * (10 + 4 * size), (
            ours.shape,
            float(error),
        )


def losses(
    n: int, vocab: int, size: float, seed: int = 0, equal: bool = False
) -> tuple[list[Tensor], list[Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 8, generator=generator)
    W = torch.randn(1 if equal else vocab, 8, generator=generator).expand(vocab, 8)
    x, W = (t * (size / (x @ W.T).abs().max()).sqrt() for t in (x, W))
    targets, weight = torch.randint(vocab, (n,), generator=generator), torch.tensor(2.5)
    found = with_gradients(lambda x, W: narrow_loss.narrow_loss(x, W, targets), x, W, weight=weight)
    expected = with_gradients(
        lambda x, W: cross_entropy(x @ W.T, targets), x.double(), W.double(), weight=weight
    )
    return found, expected


@settings(deadline=None, max_examples=30)
@given(
    st.integers(1, 13), st.integers(1, 70), st.sampled_from([0.1, 4, 80, 400]), st.booleans(),
    st.integers(0, 99),
)  # fmt: skip
def test_the_loss_and_its_gradients_are_torch_s(n, vocab, size, equal, seed):
    """Any number of rows and tokens, equal scores, and scores beyond where exponentials end."""
    agree(*losses(n, vocab, size, seed, equal), size=size)


def attentions(n: int, size: float, seed: int, equal: bool = False) -> tuple[list, list]:
    generator = torch.Generator().manual_seed(seed)
    q, k, v, weight = torch.randn(4, 2, 3, n, 2, generator=generator)
    k = k[:, :, :1].expand_as(k) if equal else k
    q = q * (size / (q @ k.mT).abs().max())
    found = with_gradients(
        lambda *qkv: narrow_attention.narrow_attention(*qkv, 0.7),
        q,
        k,
        v,
        weight=weight.transpose(1, 2),
    )
    expected = with_gradients(
        lambda *qkv: scaled_dot_product_attention(*qkv, is_causal=True, scale=0.7).transpose(1, 2),
        *(x.double() for x in (q, k, v)),
        weight=weight.transpose(1, 2),
    )
    return found, expected


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 70), st.sampled_from([0.1, 4, 80, 400]), st.integers(0, 99), st.booleans())
def test_attention_and_its_gradients_are_torch_s(n, size, seed, equal):
    agree(*attentions(n, size, seed, equal), size=size)


@pytest.mark.parametrize("arm", ARMS)
def test_a_step_of_each_arm_has_the_loss_and_gradients_of_the_general_path(arm):
    """In float64 a model takes the general path, which has tests of its own."""
    plan = TrainingPlan(layers=2, d_model=8, heads=4, context=40, vocab_size=300, dropout=0.0)
    torch.manual_seed(1)
    model = plan.new_model(0)
    remove_from_layer_norm(model, arm)
    with torch.no_grad():  # scores that differ, as in a trained model
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(10)
    rows = torch.randint(300, (3, 41))
    assert "NarrowLoss" in repr(training_loss(model, "float32")(rows).grad_fn)
    found = []
    for one in (model, copy.deepcopy(model).double()):
        one.zero_grad()
        loss = training_loss(one, "float32")(rows)
        loss.backward()
        grads = {n: p.grad.clone() for n, p in one.named_parameters() if p.grad is not None}
        found.append((loss.detach(), grads))
    (loss, ours), (exact, oracle) = found
    assert loss.item() == pytest.approx(exact.item(), rel=1e-6)
    assert ours.keys() == oracle.keys()
    agree(list(ours.values()), list(oracle.values()))
