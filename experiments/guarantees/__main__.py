"""Freeze what a first layer's heads guarantee over all texts of 64 tokens."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from experiments.command import frozen, main, new_parser
from lnattn.affinity.subwords import PIECE_RULES, continuation_pieces, token_classes
from lnattn.attention.nulls import permuted_weights
from lnattn.guarantees import EveryText
from lnattn.models.checkpoints import load_first_layer
from lnattn.paths import data_folder
from lnattn.rotary.weights import AnyFirstLayer
from lnattn.storage import provenance
from lnattn.text.counts import Counts
from lnattn_book.studies.guaranteed import LENGTH, NEAR, VOCABULARIES, Guaranteed
from lnattn_book.studies.samples import token_counts

#: Vocabularies up to this size are asked whole; of others so many queries of a kind.
SMALL, QUERIES = 10_000, 500
#: Draws of heads in random order, with so many queries; draws for G4; counts of written tokens.
NULLS, NULL_QUERIES, NEVER_NULLS, WRITTEN = 20, 100, 3, 5


class Asked(NamedTuple):
    """Query tokens and their main predecessors: [kind token] each."""

    queries: Int[np.ndarray, "kind token"]
    keys: Int[np.ndarray, "kind token"]


class Found(NamedTuple):
    """Of one head: [kind token], and [token] of wrong predecessors."""

    least: Float[np.ndarray, "kind token"]
    greatest: Float[np.ndarray, "kind token"]
    near: Float[np.ndarray, "kind token"]
    wrong: Float[np.ndarray, "token"]


def asked_of(model: AnyFirstLayer, counts: Counts) -> Asked:
    """Pieces and as many whole words, drawn where there are too many."""
    classes = token_classes(model.tokenizer, model.embeddings.vocab_size)
    rule = PIECE_RULES["wordpiece" if classes.wordpiece else "byte-level"]
    pieces = continuation_pieces(counts, classes, rule)
    before = counts.by_next
    total = np.asarray(before.sum(axis=0)).ravel()
    main_key = np.asarray(before.argmax(axis=0)).ravel()
    words = np.flatnonzero(classes.word & classes.letters[main_key] & (total >= rule.min_count))
    number = min(len(pieces), len(words))
    if model.embeddings.vocab_size > SMALL:
        number = min(number, QUERIES)
    generator = np.random.default_rng(0)
    queries = [
        np.sort(generator.choice(tokens, number, replace=False))
        for tokens in (pieces.queries, words)
    ]
    return Asked(np.stack(queries), np.stack([main_key[tokens] for tokens in queries]))


def texts_of(model: AnyFirstLayer, head: int, vocabulary: np.ndarray | None) -> EveryText:
    """All texts of 64 tokens, the query last; of an encoder, framed, with the query inside."""
    place = None
    fixed = None
    if not model.attention.causal:
        place = LENGTH // 2
        fixed = {0: model.tokenizer.cls_token_id, LENGTH - 1: model.tokenizer.sep_token_id}
    tokens = None if vocabulary is None else torch.from_numpy(vocabulary)
    return EveryText(model, head=head, length=LENGTH, place=place, vocabulary=tokens, fixed=fixed)


def found_in(texts: EveryText, asked: Asked) -> Found:
    """What one head guarantees."""
    least = []
    greatest = []
    near = []
    wrong = np.empty(0)
    nearest = sorted(range(texts.length), key=lambda place: abs(texts.place - place))
    nearest = [place for place in nearest if texts.seen[place]][:NEAR]
    far = [place for place in range(texts.length) if place not in nearest]
    for queries, keys in zip(*map(torch.from_numpy, asked), strict=True):
        ends = texts.ends(queries)
        low, high = texts.attention_to_each(queries, texts.place - 1, keys, ends)
        least.append(low.numpy())
        greatest.append(high.numpy())
        near_low = ends.low[:, nearest].logsumexp(1) - ends.high[:, far].logsumexp(1)
        near.append(torch.sigmoid(near_low).numpy())
        if not len(wrong):
            order = np.random.default_rng(1).permutation(len(keys))
            wrong = texts.attention_to_each(queries, texts.place - 1, keys[order], ends)[0].numpy()
    return Found(np.stack(least), np.stack(greatest), np.stack(near), wrong)


def never_in(model: AnyFirstLayer, head: int) -> Float[np.ndarray, "what"]:
    """Shares of keys that never get more than half, and that never come first."""
    begun = time.perf_counter()
    never = texts_of(model, head, None).never()
    print(f"{model.name}, head {head}: {time.perf_counter() - begun:.0f} s", flush=True)
    return np.array([float(never.half.double().mean()), float(never.first.double().mean())])


def written(model: AnyFirstLayer, counts: Counts) -> np.ndarray:
    """Tokens that are seen in text and are not special."""
    often = counts.unigrams >= WRITTEN
    often[[token for token in model.tokenizer.all_special_ids if token < len(often)]] = False
    return np.flatnonzero(often)


def study(model: AnyFirstLayer, counts: Counts, counted: str, nulls: int) -> Guaranteed:
    """G1 to G3 of a model."""
    begun = time.perf_counter()
    asked = asked_of(model, counts)
    heads = range(model.attention.n_heads)
    vocabularies = (None, written(model, counts))
    by_vocabulary = []
    for vocabulary in vocabularies:
        by_vocabulary.append([found_in(texts_of(model, head, vocabulary), asked) for head in heads])
        print(f"{model.name}: {time.perf_counter() - begun:.0f} s", flush=True)
    few = Asked(*(side[:, :: max(1, side.shape[1] // NULL_QUERIES)] for side in asked))
    few = Asked(*(side[:, :NULL_QUERIES] for side in few))
    by_chance = []
    for seed in range(nulls):
        null = permuted_weights(model, seed, heads_only=True)
        by_chance.append([found_in(texts_of(null, head, None), few) for head in heads])
    print(f"{model.name}: {time.perf_counter() - begun:.0f} s with nulls", flush=True)

    def stacked(rows: list[list[Found]], name: str) -> np.ndarray:
        """[vocabulary or draw, kind, head, token]."""
        return np.stack([np.stack([getattr(f, name) for f in row], axis=-2) for row in rows])

    named = ("weights_sha256", "revision", "metadata")
    return Guaranteed(
        queries=asked.queries,
        keys=asked.keys,
        least=stacked(by_vocabulary, "least"),
        greatest=stacked(by_vocabulary, "greatest"),
        wrong=stacked(by_vocabulary, "wrong"),
        near=stacked(by_vocabulary, "near"),
        null_least=stacked(by_chance, "least"),
        null_greatest=stacked(by_chance, "greatest"),
        null_near=stacked(by_chance, "near"),
        never=np.empty((2, 0)),
        null_never=np.empty((0, 2, 0)),
        record=provenance(
            what="least and greatest attention over all texts of 64 tokens",
            model=model.name,
            counts=counted,
            length=LENGTH,
            near=NEAR,
            vocabularies=list(VOCABULARIES),
            written=len(vocabularies[1]),
            nulls=nulls,
            seconds=round(time.perf_counter() - begun, 1),
            **{name: model.provenance.get(name) for name in named},
        ),
    )


def heads_asked(n_heads: int, most: int | None) -> list[int]:
    """All heads, or as many as there is time for, in an order drawn with seed 0."""
    if most is None or most >= n_heads:
        return list(range(n_heads))
    return [int(head) for head in np.random.default_rng(0).permutation(n_heads)[:most]]


def with_never(
    guaranteed: Guaranteed, model: AnyFirstLayer, draws: int, most: int | None
) -> Iterator[Guaranteed]:
    """The same with G4 asked, of the model and of one draw of heads in random order, two, …"""
    heads = heads_asked(model.attention.n_heads, most)

    def table(asked: AnyFirstLayer) -> Float[np.ndarray, "what head"]:
        return np.stack([never_in(asked, head) for head in heads], axis=-1)

    never = table(model)
    drawn: list[np.ndarray] = []
    record = {**guaranteed.record, "never_heads": heads}
    for seed in range(draws):
        drawn.append(table(permuted_weights(model, seed, heads_only=True)))
        yield replace(guaranteed, never=never, null_never=np.stack(drawn), record=record)


def run(args: argparse.Namespace) -> None:
    for name in args.model:
        model = load_first_layer(name)
        out = args.out / (args.named or name)
        if args.never:
            for guaranteed in with_never(
                Guaranteed.read(out), model, min(args.nulls, NEVER_NULLS), args.heads
            ):
                frozen(
                    guaranteed.write(out), "guarantees", "guarantees MODELS, then --never MODELS"
                )
            continue
        counts, counted = token_counts(model)
        if args.counts:
            counts = Counts.load(args.counts)
            counted = f"{counts.record['documents']} Wikipedia articles, {counts.sha256}"
        guaranteed = study(model, counts, counted, args.nulls)
        frozen(guaranteed.write(out), "guarantees", "guarantees MODELS")


def parser() -> argparse.ArgumentParser:
    whole = new_parser("guarantees", __doc__)
    whole.add_argument("model", nargs="+", help="a folder, or a name")
    whole.add_argument("--as", dest="named", help="folder of the result, for one model")
    whole.add_argument("--nulls", type=int, default=NULLS, help="draws of heads in random order")
    whole.add_argument("--counts", type=Path, help="counts of pairs in its tokens")
    whole.add_argument("--never", action="store_true", help="add G4 to what is frozen, no more")
    whole.add_argument("--heads", type=int, help="of so many heads alone, with --never")
    whole.add_argument("--out", type=Path, default=data_folder() / "results")
    return whole


if __name__ == "__main__":
    sys.exit(main(parser(), run))
