"""A training step of a model of width 8: torch's, ours, and what the arithmetic takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numba
import numpy as np
import torch
from bench_training import model_of, plain_loss, stepper
from common import ratio, time_side_by_side
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

from experiments.book_model.chunked_loss import chunked_loss
from experiments.book_model.forward import training_loss, whole_attention
from experiments.book_model.gradients import share_count
from experiments.book_model.plan import TrainingPlan
from experiments.threads import in_parts
from experiments.unselectable_lm.small_models import remove_from_layer_norm
from experiments.vectorised import FAST, exp2
from lnattn.errors import ResultError
from lnattn_book.language_models import PAPER_SHAPE

PLAIN, CHUNKED, OURS = "plain step", "logits in chunks, attention whole", "our kernels"
FLOOR = "the arithmetic alone"
#: `whole_attention` on heads that it takes for wider ones.
WIDER = "lnattn_bench_whole"


def general_attention(module: Any, query: Any, key: Any, value: Any, *rest: Any, **options: Any):
    """By matrix products, as for wide heads: a third number in each, which is 0."""
    q, k, v = (torch.nn.functional.pad(x, (0, 1)) for x in (query, key, value))
    out, _ = whole_attention(module, q, k, v, *rest, **options)
    return out[..., : query.shape[-1]], None


AttentionInterface.register(WIDER, general_attention)
AttentionMaskInterface.register(WIDER, lambda *_, **__: None)


def chunked(model: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    table = model.get_input_embeddings().weight

    def loss(rows: torch.Tensor) -> torch.Tensor:
        hidden = model.base_model(rows[:, :-1], use_cache=False).last_hidden_state
        return chunked_loss(hidden.flatten(0, 1), table, rows[:, 1:].flatten())

    return loss


def arithmetic(plan: TrainingPlan) -> tuple[int, int]:
    """Multiply-adds and exponentials of a step: of logits and scores, forward and backward.

    A logit takes d multiply-adds, and as many for either gradient. A score takes 2, its value 2,
    and going back it is made anew (2), as is its share of the gradients of weight, query, key and
    value (2 each). Projections and feed-forward networks: 12 d² a layer, three times.
    """
    d, n = plan.d_model, plan.context
    tokens, scores = plan.batch * n, plan.batch * plan.layers * plan.heads * n * (n + 1) // 2
    products = tokens * 3 * (d * plan.vocab_size + plan.layers * 12 * d * d)
    return products + 14 * scores, tokens * plan.vocab_size + 2 * scores


@numba.njit(nogil=True, fastmath=FAST)
def _sum_of_powers(x: np.ndarray, times: int) -> np.float32:
    total = np.float32(0)
    for shift in range(times):
        for i in range(len(x)):
            total += exp2(x[i] - np.float32(shift % 7))
    return total


def floor_of(plan: TrainingPlan) -> Callable[[], None]:
    """As many multiply-adds in products of large matrices, as many exponentials in the cache."""
    products, powers = arithmetic(plan)
    size = min(1024, round(products ** (1 / 3)))
    a, x = torch.randn(size, size), np.linspace(-8, 8, 4096, dtype=np.float32)

    def work() -> None:
        for _ in range(round(products / size**3)):
            a @ a
        in_parts(lambda _, part: _sum_of_powers(x, part.stop - part.start), powers // len(x))

    return work


def run(quick: bool = False) -> dict[str, Any]:
    """See README.md."""
    plan = TrainingPlan(**PAPER_SHAPE)
    if quick:
        plan = replace(plan, batch=2, context=64, vocab_size=300, layers=1)
    methods: dict[str, Callable[[], Any]] = {}
    for name in (PLAIN, CHUNKED, OURS):
        model = model_of(plan, {PLAIN: "sdpa", CHUNKED: WIDER}.get(name))
        remove_from_layer_norm(model, "full")
        losses = {PLAIN: plain_loss, CHUNKED: chunked}
        loss_of = losses[name](model) if name in losses else training_loss(model, "float32")
        shares = share_count(plan, torch.device("cpu")) if name == OURS else 1
        methods[name] = stepper(plan, loss_of, model, shares)
    losses = [step() for step in methods.values()]
    if max(losses) - min(losses) > 1e-4 * losses[0]:
        raise ResultError(f"the steps begin with losses {losses}; not timed.")
    timings = time_side_by_side(methods | {FLOOR: floor_of(plan)}, repeats=1 if quick else 7)
    tokens, (products, powers) = plan.batch * plan.context, arithmetic(plan)
    speeds = [f"{name} {tokens / timing.median:,.0f}" for name, timing in timings.items()]
    return {
        "title": "Training the papers' model of width 8",
        "what": (
            "One step of the optimiser, forward, backward and update, on random tokens in float32. "
            "The plain step is GPT-2 from transformers with torch's fused attention and all logits "
            "at once; the second makes logits in chunks and attention by matrix products; ours "
            "takes one pass over vocabulary and keys, in compiled loops, each core with windows of "
            "its own. The last row is as many "
            "multiply-adds, in products of large matrices, and exponentials as a step has."
        ),
        "workload": {
            "layers": plan.layers,
            "d": plan.d_model,
            "V": plan.vocab_size,
            "P": plan.context,
            "tokens a step": tokens,
        },
        "rows": [timing.as_row() for timing in timings.values()],
        "ratios": [
            ratio(timings[PLAIN], timings[OURS]),
            ratio(timings[CHUNKED], timings[OURS], floor=None if quick else 10.0),
            ratio(timings[OURS], timings[FLOOR]),
        ],
        "growth": [],
        "notes": [
            f"Tokens a second: {'; '.join(speeds)}.",
            f"A step has {products:,} multiply-adds and {powers:,} exponentials.",
        ],
    }
