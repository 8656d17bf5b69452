"""The doors of the science modules: what each refuses, in one sentence, and what it takes.

The table is the contract: function, what is passed, and which error that names what. Under
`shapes_unchecked` the shape checker of the tests stands aside, as it does for a user.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from naming import naming
from random_models import random_gpt2, random_layer, transformer_of
from scipy import sparse
from test_distance import random_relative

import lnattn
from experiments.nobody_reads_one import frequencies
from lnattn import errors, stats
from lnattn.affinity import auroc, subwords, topk
from lnattn.affinity import by_distance as rotary_affinity
from lnattn.affinity.auroc import Neighbours
from lnattn.attention import circuits, factored, forward, head_scores, layernorm, nulls, vectors
from lnattn.composition import study_composition
from lnattn.contribution.additive import additive_kl
from lnattn.contribution.kl import SixTermKL
from lnattn.contribution.study import Convention, kl_of_removal
from lnattn.position import bias, curves, measured, sigma, without_tokens
from lnattn.rotary import fold as rotary_fold
from lnattn.rotary import position as rotary_position
from lnattn.rotary.weights import RelativeFirstLayer, TokenEmbeddings, apply_rotary
from lnattn.selectability.decide import selectability
from lnattn.text.counts import Boundary, Counts
from lnattn.transformer import Block, FeedForward
from lnattn.weights import AttentionLayer, Embeddings, FirstLayer, LayerNorm
from lnattn_book.studies import detokenization as study
from lnattn_book.studies import distance_terms as rotary_study
from lnattn_book.studies import first_token, identities, table1, variance
from lnattn_book.studies import head_paths as paths
from lnattn_book.studies.ablation.losses import ablations, interval, windows_of
from lnattn_book.studies.ablation.parts import deciles_of
from lnattn_book.studies.costs import formulas, profiling
from lnattn_book.studies.majority import encoder as majority_model
from lnattn_book.studies.majority import long_runs as majority_results
from lnattn_book.studies.majority import task
from lnattn_book.studies.majority.train import MajorityPlan

VOCAB, CONTEXT, WIDTH = 12, 16, 8


@cache
def parts() -> SimpleNamespace:
    """A small model of each kind and what is made of it, all random."""
    generator = torch.Generator().manual_seed(0)

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    layer = random_layer(1, WIDTH, heads=2, d_head=4)
    embeddings = Embeddings(noise(VOCAB, WIDTH), noise(CONTEXT, WIDTH))
    folded = lnattn.fold(layer)
    relative, _ = random_relative(VOCAB)
    tokens = TokenEmbeddings(noise(VOCAB, relative.d_model))
    gpt2 = random_gpt2(2, layers=2, d_model=WIDTH, heads=2, vocab=VOCAB, context=CONTEXT)
    model = transformer_of(gpt2.state_dict(), gpt2.config.to_dict())
    stream = np.random.default_rng(0).integers(0, VOCAB, 400)
    counts = Counts.from_documents([stream], VOCAB)
    wide = random_layer(1, WIDTH + 1, heads=2, d_head=4)
    turned = lnattn.fold_relative(relative)
    mlp = FeedForward(
        ln=LayerNorm(noise(WIDTH), noise(WIDTH)),
        W_in=noise(WIDTH, 3),
        b_in=noise(3),
        W_out=noise(3, WIDTH),
        b_out=noise(WIDTH),
    )
    return SimpleNamespace(
        noise=noise,
        layer=layer,
        wide=wide,
        wide_folded=lnattn.fold(wide),
        local=lnattn.fold(replace(layer, window=3)),
        later=lnattn.fold(replace(layer, index=1)),
        embeddings=embeddings,
        partial=Embeddings(None, embeddings.W_P),
        folded=folded,
        terms=lnattn.six_terms(folded, embeddings, [1]),
        bands=sigma.inverse_sigma_bands(embeddings, 1e-5),
        first=FirstLayer(embeddings, layer),
        vectors=lnattn.token_vectors(folded, embeddings),
        relative=relative,
        turned=turned,
        distances=lnattn.distance_terms(turned, tokens, [1]),
        tokens=tokens,
        rotary=RelativeFirstLayer(tokens, relative),
        model=model,
        mlp=mlp,
        counts=counts,
        before=Neighbours.before(counts.bigrams),
        three_by_three=sparse.csr_array(np.ones((3, 3), int)),
        bias=lnattn.position_bias(folded, embeddings.W_P, [3, 9]),
        x=noise(5, WIDTH),
    )


def layer_with(**change: Any) -> AttentionLayer:
    return replace(parts().layer, **change)


def swapped_tokens(p: SimpleNamespace) -> None:
    table1.table1_ranks(p.folded, None)


def documents_counted(documents: Any, vocab: Any, _: Any, **options: Any) -> Counts:
    return Counts.from_documents(documents, vocab, **options)


def model_named(name: Any, _: Any) -> Any:
    return lnattn.load_first_layer(name)


CHECKPOINT = errors.CheckpointError
SHAPE = errors.ShapeError
TOKEN = errors.TokenError
CORPUS = errors.CorpusError
RESULT = errors.ResultError
TERM = errors.TermError

#: What is called, with the parts above; the error; what its sentence names, in pieces.
REFUSED: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    # ---- weights
    (lambda p: layer_with(ln=p.wide.ln), SHAPE, "AttentionLayer.ln"),
    (lambda p: layer_with(ln=LayerNorm(torch.ones(1), torch.ones(1))), SHAPE, "AttentionLayer.ln"),
    (lambda p: layer_with(ln=None), SHAPE, "LayerNorm"),
    (lambda p: layer_with(scale=-1.0), SHAPE, "scale"),
    (lambda p: layer_with(window=3, causal=False), SHAPE, "window"),
    (lambda p: layer_with(window=1.5), SHAPE, "window"),
    (lambda p: layer_with(b_O=[0.0] * WIDTH), SHAPE, "b_O"),
    (lambda p: layer_with(b_O=torch.zeros(WIDTH).to_sparse()), SHAPE, "to_dense"),
    (lambda p: layer_with(b_O=torch.zeros(WIDTH, device="meta")), SHAPE, "meta"),
    (lambda p: LayerNorm(torch.ones(3), torch.ones(4)), SHAPE, "beta"),
    (lambda p: LayerNorm(torch.ones(3), torch.ones(3), eps=-1e-5), SHAPE, "eps"),
    (lambda p: Embeddings(p.noise(3, 4), p.noise(3, 5)), SHAPE, "d_model"),
    (lambda p: FirstLayer(p.embeddings, p.wide), SHAPE, "same model"),
    (lambda p: FirstLayer(p.embeddings, p.relative), SHAPE, "rotary"),
    (
        lambda p: RelativeFirstLayer(TokenEmbeddings(p.noise(3, 5)), p.relative),
        SHAPE,
        "same model",
    ),
    (
        lambda p: replace(
            p.relative,
            W_K=p.noise(3, p.relative.d_model, p.relative.d_head),
            b_K=p.noise(3, p.relative.d_head),
        ),
        SHAPE,
        "evenly",
    ),
    (lambda p: replace(p.relative, soft_cap=0.0), SHAPE, "soft_cap"),
    (lambda p: apply_rotary(p.x, p.noise(5, 3), p.noise(5, 3)), SHAPE, "in pairs"),
    (lambda p: replace(p.mlp, activation="swish"), SHAPE, "gelu_new"),
    (lambda p: replace(p.mlp, ln=p.wide.ln), SHAPE, "FeedForward.ln"),
    (lambda p: Block(p.wide, p.mlp), SHAPE, "Block.mlp"),
    (lambda p: replace(p.model, blocks=()), SHAPE, "one block"),
    (lambda p: replace(p.model, blocks=(Block(p.wide),)), SHAPE, "widths"),
    (lambda p: replace(p.model, W_U=p.noise(WIDTH, 5)), SHAPE, "W_U"),
    (lambda p: replace(p.model, embeddings=p.partial), SHAPE, "token embeddings"),
    # ---- attention
    (lambda p: lnattn.fold(p.first), SHAPE, "`attention`"),
    (lambda p: lnattn.fold(p.folded), SHAPE, "AttentionLayer"),
    (lambda p: lnattn.fold(p.relative), SHAPE, "fold_relative"),
    (lambda p: p.folded.attention(p.noise(5, WIDTH + 1)), SHAPE, "x must"),
    (lambda p: p.folded.output(p.x.float()), SHAPE, "use .to"),
    (lambda p: p.folded.scores(p.noise(0, WIDTH)), SHAPE, "n ≥ 1"),
    (
        lambda p: p.folded.attention(p.x, torch.ones(1, dtype=torch.bool)),
        SHAPE,
        "mask … [5] … [1]",
    ),
    (lambda p: lnattn.six_terms(p.first, p.embeddings, [1]), SHAPE, "lnattn.fold"),
    (lambda p: lnattn.six_terms(p.layer, p.embeddings, [1]), SHAPE, "lnattn.fold"),
    (lambda p: lnattn.six_terms(p.folded, p.first, [1]), SHAPE, "embeddings"),
    (lambda p: lnattn.six_terms(p.turned, p.embeddings, [1]), SHAPE, "distance_terms"),
    (lambda p: lnattn.six_terms(p.later, p.embeddings, [1]), SHAPE, "block 1"),
    (lambda p: lnattn.token_vectors(p.later, p.embeddings), SHAPE, "block 1"),
    (lambda p: lnattn.position_bias(p.later, p.embeddings.W_P, [3]), SHAPE, "block 1"),
    (lambda p: SixTermKL(p.later, p.embeddings), SHAPE, "block 1"),
    (lambda p: layer_with(index=-1), SHAPE, "AttentionLayer.index"),
    (
        lambda p: lnattn.six_terms(p.wide_folded, p.embeddings, [1]),
        SHAPE,
        "one model",
    ),
    (lambda p: p.terms["x"], TERM, "ee, ep, pe"),
    (lambda p: p.terms.attention(without="x"), TERM, "'x'"),
    (lambda p: p.terms.scores("x"), TERM, "'x'"),
    (lambda p: lnattn.sigma_of_pairs(p.embeddings, [1], [0], eps=-1), SHAPE, "eps"),
    (lambda p: lnattn.sigma_of_pairs(p.tokens, [1], [0], eps=1e-5), SHAPE, "rotary"),
    (lambda p: lnattn.decompose(p.first, [1]), SHAPE, "load_transformer"),
    (lambda p: lnattn.decompose(p.model, [1, 2]).logit_of([1]), TOKEN, "a query"),
    (
        lambda p: paths.two_layer_paths(replace(p.model, blocks=p.model.blocks[:1]), [1]),
        SHAPE,
        "two layers",
    ),
    (
        lambda p: paths.two_layer_paths(p.model, [1, 2]).loss_without([1]),
        TOKEN,
        "the text",
    ),
    (
        lambda p: paths.two_layer_paths(p.model, [1, 2]).loss_without([1, 2], "heads"),
        SHAPE,
        "direct path",
    ),
    (lambda p: forward.causal_mask(2, 3, window=0), SHAPE, "window"),
    (
        lambda p: forward.attention_pattern(
            p.noise(2, 3, 4), p.noise(2, 5, 4), 2.0, torch.ones(1, 5, dtype=torch.bool)
        ),
        SHAPE,
        "mask",
    ),
    (lambda p: forward.multi_head_attention(p.noise(3, 5), p.layer), SHAPE, "W_Q reads 8"),
    (lambda p: layernorm.layer_norm(p.noise(3, 5), p.layer.ln), SHAPE, "LayerNorm … 8"),
    (lambda p: factored.FactoredMatrix(p.noise(2, 3), p.noise(4, 5)), SHAPE, "the factors"),
    (lambda p: circuits.composition_scores(p.layer, p.layer, "X"), SHAPE, "'Q', 'K' or 'V'"),
    (lambda p: circuits.composition_scores(p.layer, p.wide, "Q"), SHAPE, "same model"),
    (lambda p: circuits.composition_scores(p.first, p.layer, "Q"), SHAPE, "earlier"),
    (lambda p: circuits.model_composition([]), SHAPE, "layers"),
    (lambda p: circuits.model_composition([p.layer, p.wide]), SHAPE, "of 2 shapes"),
    (lambda p: circuits.model_composition([p.layer]).of("X"), SHAPE, "kind"),
    (
        lambda p: head_scores.previous_token_score(p.folded, p.noise(1, WIDTH)),
        SHAPE,
        "two positions",
    ),
    (
        lambda p: head_scores.previous_token_score(p.folded, p.noise(4, 5)),
        SHAPE,
        "W_P",
    ),
    (lambda p: nulls.random_baseline(0), SHAPE, "d_model"),
    (lambda p: nulls.rotation_moments(p.noise(1), p.noise(1), 1), SHAPE, "d_model"),
    (lambda p: nulls.permuted_weights(p.layer, 0), SHAPE, "first layer"),
    # ---- statistics
    (lambda p: stats.bootstrap_means(np.ones((1, 4)), level=95), RESULT, "level"),
    (lambda p: stats.bootstrap_means(np.ones((1, 4)), draws=0), RESULT, "draws"),
    (lambda p: stats.bootstrap_means(np.ones((1, 0))), RESULT, "values a row"),
    (lambda p: stats.resampled_counts(0, 10), RESULT, "draw from"),
    (lambda p: stats.resampled_ratios(np.ones(3), np.ones(2)), RESULT, "paired"),
    (lambda p: stats.spearman(np.arange(3), np.arange(3)), SHAPE, "four or more"),
    # ---- position
    (lambda p: lnattn.position_bias(p.folded, p.embeddings.W_P, [1.9]), TOKEN, "whole"),
    (lambda p: lnattn.position_bias(p.folded, p.embeddings.W_P, [True]), TOKEN, "whole"),
    (lambda p: lnattn.position_bias(p.folded, p.embeddings.W_P, []), TOKEN, "non-empty"),
    (lambda p: lnattn.position_bias(p.folded, p.embeddings.W_P, [CONTEXT]), TOKEN, "use 0 to 15"),
    (lambda p: lnattn.position_bias(p.first, p.embeddings.W_P, [1]), SHAPE, "lnattn.fold"),
    (lambda p: lnattn.position_bias(p.folded, p.noise(4, 5), [1]), SHAPE, "W_P"),
    (
        lambda p: lnattn.position_bias(p.folded, p.embeddings.W_P[:4], [1], p.bands),
        SHAPE,
        "1/σ covers 16",
    ),
    (
        lambda p: lnattn.position_bias(p.folded, p.embeddings.W_P, [1], torch.ones(CONTEXT)),
        SHAPE,
        "not a Tensor; make one with inverse_sigma_bands",
    ),
    (lambda p: lnattn.position_bias(p.local, p.embeddings.W_P, [1]), SHAPE, "the last 3"),
    (lambda p: bias.share_of_context(0), SHAPE, "n_positions"),
    (lambda p: sigma.inverse_sigma_bands(p.embeddings, 1e-5, block=0), SHAPE, "block"),
    (lambda p: sigma.inverse_sigma_bands(p.partial, 1e-5), TOKEN, "token embeddings"),
    (lambda p: sigma.assumed_inverse_sigma(p.embeddings.W_P, -1.0, 1e-5), SHAPE, "token_variance"),
    (lambda p: sigma.assumed_inverse_sigma(torch.ones(3, 4), 0.0, 0.0), SHAPE, "σ is zero"),
    (lambda p: curves.nearness(p.folded, p.embeddings.W_P, window=0), SHAPE, "window"),
    (lambda p: curves.last_rows(p.folded, p.embeddings.W_P, count=1), SHAPE, "count"),
    (lambda p: curves.last_rows(p.folded, p.embeddings.W_P, count=99), SHAPE, "count"),
    (lambda p: curves.trend(np.arange(4.0)), SHAPE, "fewer than 3"),
    (lambda p: curves.dominant_wave(np.arange(9.0)), SHAPE, "straight line"),
    (
        lambda p: first_token.first_token_switch(p.folded, p.embeddings, np.ones((2, 1), int)),
        SHAPE,
        "two tokens",
    ),
    (
        lambda p: first_token.switch_by_place(p.folded, p.embeddings.W_P[:4], p.bands),
        SHAPE,
        "1/σ covers 16",
    ),
    (lambda p: measured.windows([[1, 2]], 1, first=0), CORPUS, "no room"),
    (lambda p: measured.windows([[1, 2]], 0), CORPUS, "length"),
    (
        lambda p: measured.measured_attention(
            p.folded, p.embeddings, np.ones((2, 12), int), [1, 2], p.bias
        ),
        SHAPE,
        "other queries",
    ),
    (
        lambda p: measured.measured_attention(p.folded, p.embeddings, np.ones((0, 12), int), [1]),
        SHAPE,
        "windows",
    ),
    (lambda p: variance.variance_of_inputs(p.embeddings, -1.0), SHAPE, "eps"),
    (lambda p: variance.outliers_of(np.arange(1.0, 5.0)), SHAPE, "five positions"),
    (lambda p: variance.outliers_of(np.arange(6.0)), SHAPE, "constant"),
    (lambda p: variance.token_norms(torch.ones(3, 4), 0.0), SHAPE, "σ is zero"),
    (
        lambda p: variance.frequency_study(
            p.folded, p.embeddings, variance.variance_of_inputs(p.embeddings, 1e-5), np.ones(3, int)
        ),
        SHAPE,
        "counts of 3 tokens",
    ),
    (lambda p: variance.information_gain(np.ones((3, 3), int)), CORPUS, "sparse"),
    (
        lambda p: variance.information_gain(sparse.csr_array(np.ones((3, 3)))),
        CORPUS,
        "whole",
    ),
    (lambda p: without_tokens.position_only(p.rotary), SHAPE, "rotary"),
    # ---- affinity
    (lambda p: lnattn.token_vectors(p.first, p.embeddings), SHAPE, "lnattn.fold"),
    (lambda p: lnattn.token_vectors(p.wide_folded, p.embeddings), SHAPE, "W_E"),
    (lambda p: lnattn.token_vectors(p.folded, p.embeddings.to(torch.float32)), SHAPE, "use .to"),
    (lambda p: lnattn.token_vectors(p.folded, p.partial), TOKEN, "token embeddings"),
    (lambda p: lnattn.token_vectors(p.folded, p.embeddings, torch.zeros(VOCAB)), SHAPE, "positive"),
    (lambda p: vectors.TokenVectors(p.noise(2, 5, 3), p.noise(2, 5, 4)), SHAPE, "do not fit"),
    (
        lambda p: vectors.TokenVectors(torch.full((1, 3, 2), 1e25), torch.full((1, 3, 2), 1e25)),
        SHAPE,
        "overflow",
    ),
    (lambda p: vectors.cosine_vectors(p.folded), SHAPE, "embeddings"),
    (lambda p: vectors.ranks(p.vectors, [1, 2], [1]), TOKEN, "paired"),
    (lambda p: vectors.ranks(p.embeddings, [1], [1]), SHAPE, "token_vectors"),
    (lambda p: vectors.diagonal_z(torch.ones(1, 2, 2)), SHAPE, "n ≥ 3"),
    (
        lambda p: topk.partners(p.vectors, [1], k=VOCAB + 1),
        TOKEN,
        "k … 1 to 12",
    ),
    (lambda p: topk.partners(p.vectors, [1], k="3"), TOKEN, "k must be"),
    (lambda p: topk.partners(p.vectors, [1], k=1.5), TOKEN, "k must be"),
    (lambda p: topk.partners(p.vectors, [1], side="both"), TOKEN, "'keys', 'queries'"),
    (lambda p: topk.strongest_pairs(p.vectors, k=VOCAB), TOKEN, "from 1 to 11"),
    (lambda p: Neighbours.before(np.ones((3, 3), int)), CORPUS, "sparse"),
    (
        lambda p: Neighbours.after(sparse.csr_array(np.ones((3, 4), int))),
        CORPUS,
        "sparse",
    ),
    (lambda p: p.before.of(VOCAB), TOKEN, "from 0 to 11"),
    (
        lambda p: auroc.head_auroc(p.vectors, Neighbours.before(p.three_by_three)),
        CORPUS,
        "its own tokenizer",
    ),
    (lambda p: auroc.head_auroc(p.vectors, p.counts), SHAPE, "Neighbours.before"),
    (lambda p: auroc.wrong_queries(p.vectors, p.before, np.arange(3), draws=0), RESULT, "draws"),
    (
        lambda p: study.detokenization(p.vectors, p.embeddings, Counts.from_documents([[1, 2]], 5)),
        CORPUS,
        "own tokenizer",
    ),
    (
        lambda p: study.detokenization(
            p.vectors, p.embeddings, p.counts, heat_tokens=VOCAB + 1, pairs=2
        ),
        CORPUS,
        "too few",
    ),
    (lambda p: subwords.PieceRule(0, 0.5), SHAPE, "min_count"),
    (lambda p: subwords.PieceRule(5, 50), SHAPE, "min_share"),
    (lambda p: subwords.PieceRule(5, 0.0), SHAPE, "above 0"),
    (lambda p: subwords.token_classes(None, VOCAB), TOKEN, "tokenizer"),
    (
        lambda p: subwords.continuation_pieces(
            p.counts,
            subwords.TokenClasses(np.ones(3, bool), np.zeros(3, bool), np.zeros(3, bool)),
            subwords.PieceRule(1, 0.5),
        ),
        CORPUS,
        "over 12 tokens",
    ),
    (swapped_tokens, SHAPE, "token_vectors"),
    # ---- contributions
    (lambda p: lnattn.contributions(p.first, p.embeddings, [[1, 2]]), SHAPE, "lnattn.fold"),
    (lambda p: lnattn.contributions(p.folded, p.embeddings, [1, 2]), CORPUS, "[ids]"),
    (lambda p: lnattn.contributions(p.folded, p.embeddings, []), CORPUS, "no document"),
    (
        lambda p: lnattn.contributions(p.folded, p.embeddings, [[1]], convention="text"),
        SHAPE,
        "Convention",
    ),
    (lambda p: lnattn.contributions(p.local, p.embeddings, [[1]]), SHAPE, "the last 3"),
    (
        lambda p: lnattn.contributions(p.folded, p.embeddings, None),
        CORPUS,
        "NoneType",
    ),
    (lambda p: Convention("x", True, False, "low", True), SHAPE, "floor"),
    (lambda p: SixTermKL(p.folded, p.embeddings, scale=-1), SHAPE, "scale"),
    (lambda p: SixTermKL(p.wide_folded, p.embeddings), SHAPE, "same model"),
    (lambda p: kl_of_removal(p.noise(3, 4), p.noise(1, 4)), SHAPE, "one shape"),
    (lambda p: additive_kl(p.folded), SHAPE, "terms"),
    # ---- ablation, composition, costs, identities
    (
        lambda p: subwords.TokenClasses(np.ones(3, bool), np.ones(3, bool), np.ones(2, bool)),
        SHAPE,
        "one length",
    ),
    (lambda p: deciles_of(np.arange(3), np.zeros(3, bool)), SHAPE, "chosen"),
    (lambda p: windows_of([[1, 2, 3]], 2, 0), CORPUS, "window"),
    (lambda p: interval(np.ones(1)), RESULT, "one resample"),
    (lambda p: ablations(None, None, [[1]], None, np.ones((3, 3), int)), CORPUS, "sparse"),
    (lambda p: study_composition([], p.embeddings.W_P, {}), SHAPE, "layers"),
    (lambda p: formulas.LayerSize(4, 3, 8, 2, 16), SHAPE, "keys ≥ queries"),
    (lambda p: formulas.LayerSize(1, 3, 8, 3, 16), SHAPE, "divide d_model"),
    (lambda p: formulas.LayerSize(1, 3, 0, 1, 16), SHAPE, "LayerSize.d_model"),
    (lambda p: profiling.profile_layer(Block(p.layer), p.x), SHAPE, "FFN"),
    (lambda p: identities.random_gpt2(0, 8, 3), SHAPE, "do not divide"),
    (lambda p: identities.block_of(random_gpt2(0), 1), SHAPE, "layer"),
    # ---- rotary
    (lambda p: lnattn.fold_relative(p.layer), SHAPE, "RelativeAttention"),
    (lambda p: lnattn.fold_relative(p.rotary), SHAPE, "RelativeAttention"),
    (lambda p: lnattn.distance_terms(p.relative, p.tokens, [1]), SHAPE, "fold_relative"),
    (lambda p: lnattn.distance_terms(p.folded, p.embeddings, [1]), SHAPE, "fold_relative"),
    (
        lambda p: lnattn.distance_terms(
            p.turned, p.tokens, [1], constants=rotary_fold.MeanVectors(p.noise(1, 2), p.noise(1, 2))
        ),
        SHAPE,
        "mean_vectors",
    ),
    (lambda p: p.distances.attention("ep"), TERM, "ee, ed, e, d"),
    (
        lambda p: rotary_fold.mean_vectors(p.turned, p.tokens, torch.zeros(VOCAB)),
        SHAPE,
        "not all 0",
    ),
    (lambda p: rotary_fold.mean_vectors(p.folded, p.embeddings), SHAPE, "fold_relative"),
    (lambda p: rotary_affinity.vectors_at_distance(p.turned, p.tokens, 1.5), TOKEN, "distance"),
    (lambda p: rotary_affinity.vectors_at_distance(p.folded, p.embeddings), SHAPE, "fold_relative"),
    (lambda p: rotary_affinity.distance_grid({}, {}), SHAPE, "one offset"),
    (lambda p: rotary_affinity.sample_queries(np.ones(5, int), 3), CORPUS, "10 times"),
    (lambda p: rotary_affinity.sample_queries(np.full(5, 99), 0), SHAPE, "number"),
    (
        lambda p: frequencies.spectrum(p.turned, p.noise(1, 2), p.noise(1, 2)),
        SHAPE,
        "shapes",
    ),
    (
        lambda p: rotary_position.distance_variance(p.turned, p.tokens, np.ones(VOCAB, int), [-1]),
        SHAPE,
        "≥ 0",
    ),
    (
        lambda p: rotary_position.by_distance(p.first, np.ones(VOCAB, int)),
        SHAPE,
        "RelativeFirstLayer",
    ),
    (
        lambda p: rotary_study.rotary_study(p.rotary, {1: p.counts}, [[1]]),
        CORPUS,
        "counts of pairs",
    ),
    # ---- majority: plans and data
    (
        lambda p: MajorityPlan(epochs=8, decay_epochs=3),
        SHAPE,
        "negative … decay_epochs ≥ epochs",
    ),
    (lambda p: MajorityPlan(scheme="unifrom"), SHAPE, "'uniform', 'authors'"),
    (lambda p: MajorityPlan(batch=0), SHAPE, "MajorityPlan.batch"),
    (lambda p: MajorityPlan(classes=1), SHAPE, "classes"),
    (lambda p: task.majority_data(10, scheme="unifrom"), SHAPE, "scheme"),
    (lambda p: task.majority_data(10, test_share=1.5), SHAPE, "test_share"),
    (lambda p: task.majority_data(10, test_share=0.01), SHAPE, "empty"),
    (lambda p: task.majority_data(10, margin=0), SHAPE, "margin"),
    (lambda p: task.majority_data(10, length=256), SHAPE, "length"),
    (lambda p: majority_model.arm("layernrom"), SHAPE, "arm … 'layernorm'"),
    (lambda p: majority_model.Variant("x", "x", True, "l2"), SHAPE, "Variant.norm"),
    (
        lambda p: majority_model.Variant("x", "x", True, "sqrt", direction="up"),
        SHAPE,
        "Variant.direction",
    ),
    (lambda p: majority_model.initial_parameters(0, d_model=1), SHAPE, "d_model"),
    (lambda p: majority_results.ratio_of_medians(np.ones(3), np.ones(2)), RESULT, "seed"),
    # ---- ids, counts, models, keys
    (
        lambda p: lnattn.six_terms(
            p.folded, p.embeddings, torch.ones(2, dtype=torch.long, device="meta")
        ),
        TOKEN,
        "tensor",
    ),
    (
        lambda p: lnattn.six_terms(p.folded, p.embeddings, torch.ones(2).long().to_sparse()),
        TOKEN,
        "dense",
    ),
    (lambda p: selectability(p.x.to_sparse()), SHAPE, "to_dense"),
    (lambda p: selectability(p.x.to("meta")), SHAPE, "'meta'"),
    (lambda p: Counts(np.ones(3, np.int64), np.ones((3, 3), np.int64)), CORPUS, "csr_array"),
    (lambda p: Counts(p.counts.unigrams, p.counts.bigrams.tocsc()), CORPUS, "CSR array"),
    *(
        (partial(documents_counted, [[1]], vocab), TOKEN, "vocab_size")
        for vocab in (None, "3", 1.5, True, 2**63, 0)
    ),
    *(
        (partial(documents_counted, [[1]], 5, skip=skip), TOKEN, "skip is")
        for skip in (None, "1", 1.5, True, 0)
    ),
    (partial(documents_counted, [[1]], 5, boundary=3), TOKEN, "a Boundary"),
    (lambda p: documents_counted([[1]], 5, p, boundary=Boundary(1.5)), TOKEN, "1.5"),
    (partial(documents_counted, 5, 5), TOKEN, "[ids]"),
    (partial(documents_counted, [1, 2], 5), TOKEN, "[ids]"),
    *((partial(model_named, name), CHECKPOINT, "Path") for name in (None, 5, b"gpt2", [])),
    (lambda p: lnattn.verify([1]), CHECKPOINT, "Path"),
    (lambda p: majority_results.median(np.ones(0)), RESULT, "runs"),
]


@pytest.mark.parametrize(
    ("call", "error", "words"), [pytest.param(*row, id=row[2]) for row in REFUSED]
)
def test_a_door_refuses_in_one_sentence(
    call: Callable[[Any], Any], error: type[Exception], words: str, shapes_unchecked: None
) -> None:
    with pytest.raises(error, match=naming(*words.split(" … "))) as caught:
        call(parts())
    assert isinstance(caught.value, errors.LnattnError)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    assert len(sentence) < 300


# ---- what is taken, though torch's own functions would not


HALVES = [torch.bfloat16, torch.float16]


def as_learnt(layer: AttentionLayer) -> AttentionLayer:
    """The same block, its weights as `nn.Parameter`s that want gradients."""
    names = ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O")
    return replace(layer, **{name: torch.nn.Parameter(getattr(layer, name)) for name in names})


def test_parameters_of_a_model_in_training_give_the_same_numbers() -> None:
    p = parts()
    embeddings = Embeddings(
        torch.nn.Parameter(p.embeddings.W_E), torch.nn.Parameter(p.embeddings.W_P)
    )
    folded = lnattn.fold(as_learnt(p.layer))
    found = lnattn.token_vectors(folded, embeddings)
    assert not folded.W_Q.requires_grad
    np.testing.assert_array_equal(
        topk.partners(found, [1], k=3).ids, topk.partners(p.vectors, [1], k=3).ids
    )
    np.testing.assert_array_equal(
        vectors.ranks(found, [1], [2]).numpy(), vectors.ranks(p.vectors, [1], [2]).numpy()
    )
    neighbours = Neighbours.before(p.counts.bigrams)
    np.testing.assert_array_equal(
        auroc.head_auroc(found, neighbours).values, auroc.head_auroc(p.vectors, neighbours).values
    )
    learnt_x = torch.nn.Parameter(p.x)
    torch.testing.assert_close(folded.attention(learnt_x), p.folded.attention(p.x))
    learnt_positions = torch.nn.Parameter(p.embeddings.W_P)
    np.testing.assert_array_equal(
        lnattn.position_bias(folded, learnt_positions, [3]).comparison,
        lnattn.position_bias(p.folded, p.embeddings.W_P, [3]).comparison,
    )
    found = vectors.TokenVectors(torch.nn.Parameter(p.vectors.queries), p.vectors.keys)
    assert not found.queries.requires_grad


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_half_precision_is_computed_in_float32(half: torch.dtype) -> None:
    p = parts()
    layer = p.layer.to(half)
    embeddings = p.embeddings.to(half)
    assert layer.W_Q.dtype == layer.ln.gamma.dtype == embeddings.W_E.dtype == torch.float32
    assert torch.equal(layer.W_Q, p.layer.W_Q.to(half).float())
    folded = lnattn.fold(layer)
    terms_of_text = lnattn.six_terms(folded, embeddings, [1, 2, 3])
    assert terms_of_text.ee.dtype == torch.float32
    found = vectors.TokenVectors(p.vectors.queries.to(half), p.vectors.keys.to(half))
    assert topk.partners(found, [1], k=2).scores.dtype == np.float32
    assert np.isfinite(auroc.head_auroc(found, Neighbours.before(p.counts.bigrams)).values).any()
    # A table of embeddings of a rotary model stays narrow; its rows are widened when they are read.
    tokens = TokenEmbeddings(torch.nn.Parameter(p.tokens.W_E.to(half)))
    assert tokens.W_E.dtype == half
    assert tokens.rows(torch.tensor([1])).dtype == torch.float32


def test_ids_may_be_of_any_whole_kind(shapes_unchecked: None) -> None:
    p = parts()
    expected = lnattn.six_terms(p.folded, p.embeddings, [1, 2]).pp
    for ids in (torch.tensor([1, 2], dtype=torch.int32), np.array([1, 2], np.uint8), (1, 2)):
        assert torch.equal(lnattn.six_terms(p.folded, p.embeddings, ids).pp, expected)


def test_layers_can_be_copied_and_pickled() -> None:
    for name in ("book-gpt2", "book-llama"):
        first = replace(lnattn.load_first_layer(name), tokenizer=None, provenance={"name": name})
        for again in (copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
            assert torch.equal(again.attention.W_Q, first.attention.W_Q)
            assert again.name == name
    ids = [464, 3290, 318]
    here = lnattn.distance_terms(lnattn.fold_relative(first.attention), first.embeddings, ids)
    there = lnattn.distance_terms(lnattn.fold_relative(again.attention), again.embeddings, ids)
    assert torch.equal(here.attention(), there.attention())


def test_a_mean_that_rounds_the_scores_away_is_told() -> None:
    """Every embedding + 1e4: attention is off by 6e-3 in float32, and right in float64."""
    p = parts()
    single = lnattn.fold(p.layer.to(torch.float32))
    shifted = Embeddings(p.embeddings.W_E + 1e4, p.embeddings.W_P)
    with pytest.warns(UserWarning, match=r"use .to\(torch.float64\)"):
        lnattn.six_terms(single, shifted.to(torch.float32), [1, 2, 3])
    exact = lnattn.six_terms(p.folded, shifted, [1, 2, 3]).attention()
    expected = lnattn.six_terms(p.folded, p.embeddings, [1, 2, 3]).attention()
    torch.testing.assert_close(exact, expected, atol=1e-7, rtol=0)


def test_a_plan_whose_rate_ends_at_zero_is_taken() -> None:
    plan = MajorityPlan(epochs=8)
    steps = 8 * plan.steps_per_epoch()
    assert plan.rate(0) == plan.learning_rate
    assert plan.rate(steps) == 0
    assert plan.rate(steps // 2) == pytest.approx(plan.learning_rate / 2)
    assert replace(plan, decay_epochs=16).rate(steps) == pytest.approx(plan.learning_rate / 2)
