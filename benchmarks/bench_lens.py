"""Composition, folding and the six terms of a document, beside TransformerLens 4.

`pip install transformer-lens` into an environment of its own beside this package; where it is
absent, `run_all.py` leaves this benchmark out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import torch
from common import Timing, ratio, time_side_by_side
from torch import Tensor
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

import lnattn
from lnattn import AttentionLayer, FoldedAttention, SixTerms
from lnattn.attention.circuits import KINDS, model_composition
from lnattn.attention.terms import TERMS
from lnattn.paths import data_folder

#: Layers of GPT-2's width: TransformerLens holds the products of all pairs of heads at once.
LAYERS = 4
#: The largest difference of two results, as a share of the largest value.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Compared:
    """Ways to one result: times by name, ours last, and how far results are `agreeing`."""

    times: dict[str, Timing]
    apart: float

    def ratios(self) -> list[dict[str, Any]]:
        """Each other way beside ours."""
        *others, ours = self.times.values()
        return [ratio(other, ours) for other in others]


def noise_model(layers: int, width: int, heads: int, positions: int) -> GPT2LMHeadModel:
    """A GPT-2 of noise, gains and biases too."""
    torch.manual_seed(0)
    config = GPT2Config(
        n_layer=layers, n_embd=width, n_head=heads, n_positions=positions, vocab_size=8192
    )
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    return model


def bridge_to(model: GPT2LMHeadModel, tokenizer: Any) -> Any:
    """The model in TransformerLens: a copy, since its weights are folded in place."""
    from transformer_lens.model_bridge import TransformerBridge

    return TransformerBridge.boot_transformers(
        "gpt2", hf_model=copy.deepcopy(model), tokenizer=tokenizer, dtype=torch.float32
    )


def composition(lens: str, bridge: Any, blocks: Sequence[AttentionLayer], repeats: int) -> Compared:
    """Q-, K- and V-composition scores of all pairs of heads."""

    def theirs() -> Tensor:
        return torch.stack([bridge.all_composition_scores(kind).scores for kind in KINDS])

    ours = model_composition(blocks)
    possible = ours.possible().expand(ours.scores.shape)
    apart = agreeing([(theirs()[possible], ours.scores[possible])])
    methods = {
        f"{lens}, composition scores": theirs,
        "composition scores of all head pairs": lambda: model_composition(blocks),
    }
    return Compared(time_side_by_side(methods, repeats), apart)


def folding(
    lens: str, bridges: Sequence[Any], blocks: Sequence[AttentionLayer], repeats: int
) -> Compared:
    """LayerNorm folded into the attention of every layer.

    bridges: one for each round, the first for the comparison, since each is folded only once.
    """
    first, *fresh = bridges
    first.enable_compatibility_mode()
    folded = [lnattn.fold(block) for block in blocks]
    pairs = [(getattr(first, name), stacked(folded, name)) for name in ("W_Q", "W_K", "W_V", "b_Q")]
    output = stacked(folded, "b_VO")
    pairs.append((first.b_O, output - output.mean(dim=-1, keepdim=True)))
    by_steps = [folded_by_steps(block) for block in blocks]
    for name in ("W_Q", "W_K", "W_V", "b_Q", "b_VO"):
        pairs.append((torch.stack([step[name] for step in by_steps]), stacked(folded, name)))
    remaining = iter(fresh)
    methods: dict[str, Callable[[], Any]] = {
        f"{lens}, enable_compatibility_mode": lambda: next(remaining).enable_compatibility_mode(),
        f"{lens}, its steps for attention": lambda: [folded_by_steps(block) for block in blocks],
        "folding of all layers' attention": lambda: [lnattn.fold(block) for block in blocks],
    }
    return Compared(time_side_by_side(methods, repeats), agreeing(pairs))


def stacked(folded: Sequence[FoldedAttention], name: str) -> Tensor:
    """A tensor of every folded layer."""
    return torch.stack([getattr(block, name) for block in folded])


def folded_by_steps(block: AttentionLayer) -> dict[str, Tensor]:
    """One block folded by those functions of TransformerLens that fold attention, and no more."""
    from transformer_lens.weight_processing import ProcessWeights

    weights = (block.W_Q, block.W_K, block.W_V)
    biases = (block.b_Q, block.b_K, block.b_V)
    b_Q, _, b_V = ProcessWeights.fold_layer_norm_biases(*weights, *biases, block.ln.beta)
    scaled = ProcessWeights.fold_layer_norm_weights(*weights, block.ln.gamma)
    W_Q, W_K, W_V = ProcessWeights.center_attention_weights(*scaled)
    # As its `fold_value_biases` does, which takes the state of a whole model.
    b_VO = block.b_O + (b_V[:, :, None] * block.W_O).sum([0, 1])
    return {"W_Q": W_Q, "W_K": W_K, "W_V": W_V, "b_Q": b_Q, "b_VO": b_VO}


def six_terms(
    lens: str, bridge: Any, model: lnattn.FirstLayer, ids: Tensor, repeats: int
) -> Compared:
    """The six terms of one document, of folded weights; bridge: in compatibility mode."""
    folded = lnattn.fold(model.attention)
    theirs = terms_by_hooks(bridge, ids)
    ours = lnattn.six_terms(folded, model.embeddings, ids)
    apart = agreeing([(theirs[name].expand_as(ours[name]), ours[name]) for name in TERMS])
    methods = {
        f"{lens}, hooks and weights": lambda: terms_by_hooks(bridge, ids),
        "six terms of a document": lambda: all_terms(
            lnattn.six_terms(folded, model.embeddings, ids)
        ),
    }
    return Compared(time_side_by_side(methods, repeats), apart)


def all_terms(terms: SixTerms) -> list[Tensor]:
    """Each term, which is computed when it is asked for."""
    return [terms[name] for name in TERMS]


def terms_by_hooks(bridge: Any, ids: Tensor) -> dict[str, Tensor]:
    """The six terms as a user of TransformerLens writes them: it has no function for them."""
    tokens = "hook_embed"
    places = "hook_pos_embed"
    scale = "blocks.0.ln1.hook_scale"
    _, cache = bridge.run_with_cache(
        ids[None], names_filter=[tokens, places, scale], stop_at_layer=1
    )
    divisor = cache[scale][0]
    e = cache[tokens][0] / divisor
    p = cache[places][0] / divisor
    W_Q = bridge.W_Q[0]
    W_K = bridge.W_K[0]
    b_Q = bridge.b_Q[0][:, None]
    q = {"e": e @ W_Q, "p": p @ W_Q, "": b_Q}
    k = {"e": e @ W_K, "p": p @ W_K}
    return {name: q[name[:-1]] @ k[name[-1]].mT for name in TERMS}


def agreeing(pairs: Sequence[tuple[Tensor, Tensor]]) -> float:
    """The largest difference of any pair, beside its largest value; an error beyond `TOLERANCE`."""
    apart = max(float((theirs - ours).abs().max() / ours.abs().max()) for theirs, ours in pairs)
    if apart > TOLERANCE:
        raise RuntimeError(f"two results differ by {apart:.1e}; nothing was timed.")
    return apart


@torch.no_grad()
def run(quick: bool = False) -> dict[str, Any]:
    """See benchmarks/README.md."""
    layers, width, heads, length = (2, 32, 2, 32) if quick else (LAYERS, 768, 12, 1024)
    repeats = 1 if quick else 5
    model = noise_model(layers, width, heads, length)
    tokenizer = AutoTokenizer.from_pretrained(str(data_folder() / "book-gpt2"))
    blocks = [lnattn.first_layer(model, tokenizer, layer=i).attention for i in range(layers)]
    first = lnattn.first_layer(model, tokenizer)
    lens = f"TransformerLens {version('transformer-lens')}"
    ids = torch.randint(8192, (length,), generator=torch.Generator().manual_seed(0))

    scores = composition(lens, bridge_to(model, tokenizer), blocks, repeats)
    # Of each round, of the round before the clock runs, and one to compare.
    bridges = [bridge_to(model, tokenizer) for _ in range(repeats + 2)]
    weights = folding(lens, bridges, blocks, repeats)
    terms = six_terms(lens, bridges[0], first, ids, repeats)
    all_compared = [scores, weights, terms]
    return {
        "title": "Beside TransformerLens",
        "what": (
            f"On {layers} layers of noise, of GPT-2 small's width: Q-, K- and V-composition scores "
            "of all heads; LayerNorm folded into the attention of all layers; and the six terms of "
            f"a document of {length:,} tokens in the first layer."
        ),
        "workload": {
            "layers": layers,
            "d_model": width,
            "heads": heads,
            "tokens": length,
            "apart": max(each.apart for each in all_compared),
        },
        "rows": [timing.as_row() for each in all_compared for timing in each.times.values()],
        "ratios": [entry for each in all_compared for entry in each.ratios()],
        "growth": [],
        "notes": [
            "Composition: both from the factors. TransformerLens also computes the pairs that "
            "cannot compose, and sets them to 0; ours also makes the spectra for a null.",
            "Folding: enable_compatibility_mode folds into the MLPs and the unembedding, too, "
            "centres all weights that write to the residual stream and puts them back into the "
            "model, which still runs; ours folds attention and returns new weights. The steps for "
            "attention are its functions for that part alone, on the same tensors; they fold the "
            "keys' bias, too, which changes no attention weight and which ours leaves out.",
            "Six terms: TransformerLens has no function for them. Its hooks give both embeddings "
            "and σ in a run that stops behind the first block, which it computes whole; four "
            "products of its folded weights give the terms. Folding is timed on neither side.",
        ],
    }
