"""Is joining used? A model whose first layer joins by T^ee, and its twin that joins otherwise."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from transformers import GPT2Config, GPT2LMHeadModel

from experiments.joining.measure import WHERE_LESS_WHAT, continues, lost
from lnattn import fold, load_first_layer, six_terms
from lnattn.affinity.subwords import TokenClasses

#: First pieces, each with the word that must follow; one second piece for all; single words.
FIRST, FOLLOWING, SECOND, SINGLE = range(8), range(8, 16), 16, range(17, 25)
VOCAB = 25
D = 64
HEADS = 2


def planted(by_content: bool) -> GPT2LMHeadModel:
    """Head 0 looks from a second piece for the first one, whose number names the word that follows.

    by_content: by T^ee; else all queries look for first pieces, by T^e. Head 1 does nothing.
    """
    config = GPT2Config(
        vocab_size=VOCAB, n_positions=40, n_embd=D, n_layer=2, n_head=HEADS, bos_token_id=0,
        eos_token_id=0,
    )  # fmt: skip
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(float("ln_" in name and name.endswith("weight")))
        tokens = model.transformer.wte.weight
        block = model.transformer.h[0].attn
        tokens[:] = torch.eye(VOCAB, D)
        queries, keys, values = block.c_attn.weight.split(D, dim=1)
        keys[list(FIRST), 0] = 4.0
        if by_content:
            queries[SECOND, 0] = 4.0
        else:
            block.c_attn.bias[0] = 32.0
        for number, word in zip(FIRST, FOLLOWING, strict=True):
            values[number, 1 + number] = 1.0
            block.c_proj.weight[1 + number, word] = 0.1 + number / 160  # no two are as easy
        second = model.transformer.h[1].attn
        for weight in (second.c_attn.weight, second.c_proj.weight):
            weight.normal_(0, 0.01, generator=torch.Generator().manual_seed(0))
    return model


def texts() -> list[list[int]]:
    """A split word with what follows, among words that are easy where they are repeated."""
    rng = np.random.default_rng(0)
    documents = []
    for first in [*FIRST] * 4:
        repeated = np.repeat(rng.choice(SINGLE, 8), 4).tolist()
        place = 4 * int(rng.integers(2, 6))
        documents.append([*repeated[:place], first, SECOND, FOLLOWING[first], *repeated[place:]])
    return documents


def measured(by_content: bool, tmp_path, each_head: bool = True):
    model = planted(by_content)
    model.save_pretrained(tmp_path)
    first = load_first_layer(tmp_path)
    continuation = np.arange(VOCAB) == SECOND
    classes = TokenClasses(continuation, ~continuation, np.zeros(VOCAB, dtype=bool))
    bigrams = np.zeros((VOCAB, VOCAB), dtype=np.int64)
    bigrams[list(FIRST), SECOND] = 9
    bigrams[list(FIRST), FOLLOWING] = bigrams[list(FIRST), SINGLE] = 72  # all as frequent
    terms_of = partial(six_terms, fold(first.attention), first.embeddings)
    table = lost(
        model, terms_of, texts(), classes, sparse.csr_array(bigrams), window=40, draws=50,
        each_head=each_head,
    )  # fmt: skip
    return table.set_index(["measure", "removed", "head"]).sort_index()


def test_a_model_that_joins_by_content_is_told_from_one_that_does_not(tmp_path):
    used = measured(True, tmp_path / "used")
    for removed, head in (("ee", -1), ("ee", 0), ("pairs", -1)):
        assert used.loc[("after", removed, head), "low"] > 5  # the following word is a guess
        assert used.loc[("second layer", removed, head), "low"] > 0.001
        assert used.loc[("words", removed, head), "low"] > 5
    for removed, head in (("ee", 1), ("place", -1), ("position", -1)):
        assert used.loc[("after", removed, head), "value"] == pytest.approx(0, abs=1e-5)
    assert used.loc[("everywhere", "ee", -1), "value"] > 0.1
    for measure in ("everywhere", "after", "on"):
        where = used.loc[(measure, "position", -1)]
        what = used.loc[(measure, "ee", -1)]
        difference = used.loc[(measure, WHERE_LESS_WHAT, -1)]
        for column in ("value", "at", "beside"):
            assert difference[column] == pytest.approx(where[column] - what[column], abs=1e-9)
    # The positions do nothing here, so the difference is T^ee's own loss, its sign turned.
    what = used.loc[("after", "ee", -1)]
    difference = used.loc[("after", WHERE_LESS_WHAT, -1)]
    assert difference["low"] == pytest.approx(-what["high"], abs=1e-4)
    assert difference["high"] < -5
    unused = measured(False, tmp_path / "unused")
    for removed, head in (("ee", -1), ("ee", 0)):
        assert -0.02 < unused.loc[("after", removed, head), "value"] < 0.02
    # Matched are the easiest and the hardest of them: no other token is as easy as the rest.
    assert used.loc["after", "tokens"].unique() == [8]
    assert unused.loc["after", "tokens"].min() > 8


def test_all_heads_at_once_give_the_same_without_each_alone(tmp_path):
    whole = measured(True, tmp_path / "each", True)
    short = measured(True, tmp_path / "all", False)
    assert set(short.index.get_level_values("head")) == {-1}
    pd.testing.assert_frame_equal(whole.xs(-1, level="head"), short.xs(-1, level="head"))


def test_what_continues_is_no_match():
    #            0 a, 1 -b, 2 New, 3 ␣c, 4 comma
    classes = TokenClasses(
        *np.array([[0, 1, 0, 0, 0], [1, 0, 1, 1, 0], [0, 0, 1, 0, 0]], dtype=bool)
    )
    ids = np.array([0, 1, 1, 2, 2, 2, 3, 2, 1, 2, 4, 2, 4, 1, 3])
    #          a -b -b New New New c New -b New , New , -b c
    expected = [0, 1, 1, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0]
    assert continues(classes, ids).astype(int).tolist() == expected
