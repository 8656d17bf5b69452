"""Parts of the first layer's scores taken out of whole models, each step against its definition."""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
import transformers as hf
from families import config_of, in_double_precision, randomise
from random_models import random_gpt2
from scipy import sparse
from torch.nn.functional import cross_entropy

from lnattn import distance_terms, fold, fold_relative, load_first_layer, six_terms
from lnattn.affinity.subwords import TokenClasses
from lnattn.errors import CorpusError, ResultError
from lnattn.freezing import freeze
from lnattn.models.attending import implementation_of, losses, patched
from lnattn.paths import data_folder
from lnattn.storage import read_json
from lnattn_book.claims import ours
from lnattn_book.claims.verdicts import (
    FAILS,
    HOLDS,
    HOLDS_IN_PART,
    NOT_COMPUTABLE,
    UNDECIDED,
)
from lnattn_book.studies import whole_models
from lnattn_book.studies.ablation.losses import Ablations, _read, ablations, interval, windows_of
from lnattn_book.studies.ablation.parts import (
    ablated_losses,
    ablation_names,
    drawn_documents,
    matched_differences,
    removals,
    second_pieces,
    second_words_of_names,
)
from lnattn_book.studies.joining_runs import JoiningRuns

IDS = torch.tensor([3, 17, 9, 9, 30, 2, 21, 5, 11, 8, 13, 1])


@pytest.fixture(params=[(k, d) for k in ("gpt2", "llama-default", "qwen2") for d in (64, 32)])
def tiny(request, tmp_path, monkeypatch):
    """A whole random model of two layers, and what makes the terms of its first."""
    kind, bits = request.param
    dtype = torch.float64 if bits == 64 else torch.float32
    if kind == "gpt2":
        model = random_gpt2(seed=5, layers=2, dtype=dtype)
    else:
        config = config_of(kind)
        if bits == 64:
            in_double_precision(config, monkeypatch)
        model = hf.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        model = randomise(model.to(dtype), seed=4, scale=0.3).eval()
    model.save_pretrained(tmp_path)
    first = load_first_layer(tmp_path)
    make = six_terms if kind == "gpt2" else distance_terms
    folded = (fold if kind == "gpt2" else fold_relative)(first.attention)
    terms_of = partial(make, folded, first.embeddings)
    return model, terms_of, 1e-10 if bits == 64 else 1e-4


def plain_losses(model, ids):
    with torch.inference_mode():
        logits = model(ids[None]).logits[0, :-1]
    return cross_entropy(logits, ids[1:], reduction="none")


def test_a_told_model_is_the_model(tiny):
    """Told what the terms add up to, it predicts as it did; told otherwise, it does not."""
    model, terms_of, tolerance = tiny
    own, terms = plain_losses(model, IDS), terms_of(IDS)
    patterns = torch.stack([terms.attention(), terms.attention(without="ee")])
    with patched(model):
        torch.testing.assert_close(losses(model, IDS)[0], own, atol=tolerance, rtol=0)
        told, without = losses(model, IDS, patterns)
    torch.testing.assert_close(told, own, atol=tolerance, rtol=0)
    assert (without - own).abs().max() > 1e-3
    assert implementation_of(model) == "eager"
    torch.testing.assert_close(plain_losses(model, IDS), own, atol=0, rtol=0)


def test_losses_without_a_term_are_those_of_its_attention_computed_by_hand(tiny):
    """GPT-2's and Llama's own output map, applied by hand to the changed attention of head 1."""
    model, terms_of, tolerance = tiny
    terms, layer = terms_of(IDS), model.base_model
    block = (layer.h if hasattr(layer, "h") else layer.layers)[0]
    attention = block.attn if hasattr(block, "attn") else block.self_attn
    pattern = terms.attention().clone()
    pattern[1] = terms.attention(without="ee")[1]
    seen = []

    def by_hand(_module, inputs):
        [mixed] = inputs
        heads = len(pattern)
        values = seen[-1].reshape(len(IDS), -1, mixed.shape[-1] // heads).transpose(0, 1)
        values = values.repeat_interleave(heads // len(values), dim=0)
        return ((pattern @ values).transpose(0, 1).reshape(mixed.shape),)

    def keep(_module, _inputs, out):
        seen.append(out[0, :, -out.shape[-1] // 3 :] if hasattr(block, "attn") else out[0])

    last = attention.c_proj if hasattr(block, "attn") else attention.o_proj
    first = attention.c_attn if hasattr(block, "attn") else attention.v_proj
    hooks = [first.register_forward_hook(keep), last.register_forward_pre_hook(by_hand)]
    expected = plain_losses(model, IDS)
    for hook in hooks:
        hook.remove()
    counted = torch.zeros(len(IDS), len(IDS), dtype=torch.bool)
    with patched(model):
        rows, moved = ablated_losses(model, terms, IDS, counted)
    names = ablation_names(terms.names, len(pattern))
    assert len(rows) == len(names) + 2
    row = rows[2 + names.index(("ee", 1))]
    torch.testing.assert_close(row, expected, atol=tolerance, rtol=0)
    torch.testing.assert_close(rows[1], rows[0], atol=tolerance, rtol=0)
    # Without any counted pair nothing is taken out.
    torch.testing.assert_close(rows[2 + names.index(("pairs", -1))], rows[1], atol=0, rtol=0)
    before, after = terms.attention(), terms.attention(without="ee")
    kl = torch.where(before > 0, before * (before / after).log(), 0).sum(-1)[:, 1:].mean(-1)
    torch.testing.assert_close(moved[names.index(("ee", -1))], kl, atol=tolerance, rtol=0)


def test_place_and_pairs_are_taken_out_as_they_say():
    first = load_first_layer("book-gpt2")
    terms = six_terms(fold(first.attention), first.embeddings, IDS)
    n = len(IDS)
    seen = torch.ones(n, n, dtype=torch.bool).tril()
    counted = torch.rand(n, n, generator=torch.Generator().manual_seed(0)) < 0.5
    counted[4, :5] = True  # a query that has nothing but pairs
    counted[3, :4] = torch.tensor([True, True, False, True])  # and one that has one other key
    parts = removals(terms, counted, seen)
    assert list(parts) == [*terms.names, "place", "pairs", "tokens", "positions"]
    torch.testing.assert_close(parts["place"], terms.p + terms.pp)
    torch.testing.assert_close(parts["tokens"], terms.ee + terms.ep + terms.pe + terms.e)
    torch.testing.assert_close(parts["positions"], terms.ep + terms.pe + terms.pp + terms.p)
    for head in (0, 3):
        for i in range(n):
            others = [j for j in range(i + 1) if not counted[i, j]]
            for j in range(i + 1):
                mean = np.mean([float(terms.ee[head, i, k]) for k in others]) if others else 0.0
                mine = counted[i, j] and others
                wanted = float(terms.ee[head, i, j]) - mean if mine else 0.0
                assert float(parts["pairs"][head, i, j]) == pytest.approx(wanted, abs=1e-4)
    assert not parts["pairs"][:, 4].any()


#: 0 'the', 1 ' the', 2 ' sap', 3 'iens', 4 ' New', 5 ' York', 6 '.', 7 'Al'.
SPELLING = TokenClasses(
    continuation=np.array([1, 0, 0, 1, 0, 0, 0, 1], dtype=bool),
    word=np.array([0, 1, 1, 0, 1, 1, 0, 0], dtype=bool),
    capital=np.array([0, 0, 0, 0, 1, 1, 0, 1], dtype=bool),
)


def test_which_tokens_finish_what_others_began():
    ids = np.array([1, 2, 3, 3, 1, 4, 5, 1, 6, 4, 5, 1, 4, 5, 3, 1, 4, 5, 5, 6])
    assert np.flatnonzero(second_pieces(SPELLING, ids)).tolist() == [2, 14]
    # Not after a full stop (10), not split (13), not a third word (18).
    assert np.flatnonzero(second_words_of_names(SPELLING, ids)).tolist() == [6, 17]
    for ids in ([1], [1, 4], [1, 4, 5]):
        assert not second_words_of_names(SPELLING, np.array(ids)).any()


def test_matched_change_is_a_weighted_mean():
    """Against loops over documents drawn by hand."""
    rng = np.random.default_rng(0)
    n = 400
    change, document = rng.normal(size=(2, n)), rng.integers(6, size=n)
    kind, cell = rng.integers(3, size=n), rng.integers(5, size=n)
    kind[(cell == 4) & (kind == 1)] = 2  # a cell without others
    taken = drawn_documents(6, 3, seed=1)
    assert taken[0].tolist() == [1] * 6
    assert (taken.sum(axis=1) == 6).all()
    means, kept = matched_differences(change, kind == 0, kind == 1, cell, document, taken)
    assert kept == ((kind == 0) & (cell < 4)).sum()
    for draw, times in enumerate(taken):
        repeat = times[document]
        for row in range(2):
            own, other = [], []
            for k in range(4):
                mine, its = (kind == 0) & (cell == k), (kind == 1) & (cell == k)
                weight = repeat[mine].sum()
                own.append((change[row, mine] * repeat[mine]).sum())
                other.append(weight * np.average(change[row, its], weights=repeat[its]))
                total = repeat[(kind == 0) & (cell < 4)].sum()
            assert means[draw, row] == pytest.approx([sum(own) / total, sum(other) / total])


def texts(number=5, length=70):
    rng = np.random.default_rng(2)
    return [rng.integers(40, size=length + 9 * k).tolist() for k in range(number)]


def parts_of_gpt2(tmp_path):
    model = random_gpt2(seed=5, layers=2, dtype=torch.float32)
    model.save_pretrained(tmp_path / "model")
    first = load_first_layer(tmp_path / "model")
    flags = np.random.default_rng(1).random((3, 40)) < 0.4
    classes = TokenClasses(flags[0] & ~flags[1], flags[1], flags[2])
    bigrams = sparse.csr_array(np.random.default_rng(3).integers(2, size=(40, 40)))
    make = partial(six_terms, fold(first.attention), first.embeddings)
    return model, make, texts(), classes, bigrams


def test_the_study_measures_where_it_says(tmp_path):
    """The change after second pieces without T^ee of head 2, and that on all tokens, by hand."""
    parts = parts_of_gpt2(tmp_path)
    found = ablations(*parts, window=32, first=0, draws=20)
    assert 0 < found.record["largest_change_by_nothing"] < 1e-4
    assert found.record["windows"] == sum(len(t) // 31 for t in texts())
    model, make, documents, classes, bigrams = parts
    after, everywhere, shifts = [], [], []
    for text in documents:
        for begin in range(0, len(text), 31):
            ids = torch.tensor([0, *text[begin : begin + 31]])
            if len(ids) < 32:
                continue
            terms = make(ids)
            pattern = terms.attention().clone()
            without = terms.attention(without="ee")
            pattern[2] = without[2]
            before = terms.attention()
            kl = torch.where(before > 0, before * (before / without).log(), 0.0).sum(dim=-1)
            shifts.append(kl[:, 1:].mean(dim=-1).numpy())
            with patched(model):
                [change] = losses(model, ids, pattern[None]) - losses(model, ids)
            everywhere.append(change.numpy())
            after.append(change.numpy()[second_pieces(classes, ids.numpy())[:-1]])
    counted = {name: found.record[name] for name in ("window", "documents", "draws", "predictions")}
    predictions = len(np.concatenate(everywhere))
    assert counted == {"window": 32, "documents": 5, "draws": 20, "predictions": predictions}
    place = found.of("ee", 2)
    assert found.everywhere[0, place] == pytest.approx(np.concatenate(everywhere).mean(), abs=1e-5)
    # Windows count alike; of 'ee' in all heads, which comes first.
    assert (found.n_heads, found.what[0], found.head[0]) == (3, "ee", -1)
    np.testing.assert_allclose(found.moved[0], np.mean(shifts, axis=0), rtol=1e-4, atol=1e-6)
    assert found.tokens[0, 0, 0] == len(np.concatenate(after))
    assert found.excess("ee", 2)[0] == pytest.approx(-np.diff(found.at[0, place, 0, 0])[0])
    assert found.by_head("ee").shape == (21, 3)
    assert np.array_equal(found.by_head("ee")[:, 2], found.excess("ee", 2))
    value, low, high = interval(found.excess("ee"))
    assert value == pytest.approx(found.excess("ee")[0])
    assert low == pytest.approx(np.quantile(found.excess("ee")[1:], 0.025))
    assert high == pytest.approx(np.quantile(found.excess("ee")[1:], 0.975))
    found.write(tmp_path)
    np.testing.assert_array_equal(Ablations.read(tmp_path).at, found.at)
    frozen = read_json(data_folder() / "results" / "book-gpt2" / "ablation.json")
    assert inspect.signature(ablations).parameters["window"].default == frozen["window"] == 256
    with pytest.raises(ResultError, match="'xx'"):
        found.of("xx")
    with pytest.raises(CorpusError, match="32"):
        ablations(model, make, [[1, 2]], classes, bigrams)


def test_the_book_freezes_it_for_models_that_predict(tmp_path, monkeypatch):
    """Both embedded models on two short texts; a model that reads both ways is refused."""
    file = tmp_path / "texts.jsonl"
    sentence = "He met Michelle Obama by the old castle near Hogmanay on a rainy day. "
    file.write_text("".join(f'{{"text": "{sentence * n}"}}\n' for n in (2, 3)))
    for module in (
        "lnattn_book.studies.whole_models",
        "lnattn_book.studies.samples",
        "lnattn.reporting.shipped",
    ):
        monkeypatch.setattr(f"{module}.sample_file", lambda: file)
    for name in ("book-gpt2", "book-llama"):
        [done] = freeze(name, tmp_path / name, ["ablation"])
        found = Ablations.read(done.path.parent)
        assert found.record["model"] == name
        assert found.record["largest_change_by_nothing"] < 1e-4
        assert found.tokens[:, 0, 0].min() >= 5  # 'Hogmanay' is no word of theirs
        told = whole_models.weight_predictors(name, found)
        assert list(told.columns) == ["auroc", "specific auroc", "divergence"]
        assert told.notna().all().all()
    with pytest.raises(ResultError, match="minilm"):
        list(freeze("minilm", tmp_path, ["ablation"]))


def made(excess, heads=4, tokens=500):
    """An `Ablations` whose excess after second pieces is given by (what, head)."""
    names = [(w, -1) for w in ("ee", "place", "pairs")] + [("ee", h) for h in range(heads)]
    at = np.zeros((201, len(names), 2, 2, 2))
    noise = np.random.default_rng(0).normal(scale=0.01, size=201)
    noise[0] = 0
    for place, name in enumerate(names):
        at[:, place, :, :, 0] = (excess.get(name, 0.0) + noise)[:, None, None] + 0.5
    at[..., 1] = 0.5
    return Ablations(
        what=np.array([w for w, _ in names]), head=np.array([h for _, h in names]),
        everywhere=np.zeros((201, len(names))), at=at, loss=np.zeros((2, 2, 2)),
        tokens=np.full((2, 2, 3), tokens), moved=np.zeros((3, heads)), record={},
    )  # fmt: skip


def test_what_is_lost_decides_whether_it_is_used():
    specific = np.array([0.0, 0.1, 0.3, 0.2])

    def verdict(whole, alone, **more):
        found = made({("ee", -1): whole, ("ee", 2): alone}, **more)
        return ours.s7(found, specific, model="any").verdict

    assert verdict(0.3, 0.1) == HOLDS
    assert verdict(0.3, -0.1) == HOLDS_IN_PART  # not in the head that the weights name
    assert verdict(0.3, 0.0) == UNDECIDED  # an interval that holds 0 leaves that open
    assert verdict(0.0, 0.1) == UNDECIDED
    assert verdict(-0.3, 0.1) == FAILS
    assert verdict(0.3, 0.1, tokens=99) == NOT_COMPUTABLE


def test_a_joining_layer_is_used_where_three_seeds_lose_without_it():
    """Seed 2 joins at step 128 only, and is displaced; head 1 joins most; t over three seeds."""

    def verdict(values, alone=0.05, found=0.2):
        looks, lost = [], []
        for seed, value in enumerate(values):
            for step, joined in ((64, 0.1), (128, found), (256, 0.05 if seed == 2 else 0.0)):
                about = {"seed": seed, "step": step, "tokens trained": 9 * step}
                for head, share in ((-1, joined), (0, 0.01), (1, joined)):
                    here = {"head": head, "found": share, "chance": 0.04, "chance high": 0.06}
                    looks.append({**about, **here})
                for head, here in ((-1, value), (0, -1.0), (1, alone)):
                    here = here if step == 128 else 9.0
                    row = {"measure": "after", "removed": "ee", "head": head, "value": here}
                    lost.append({**about, **row, "low": here - 0.01, "high": here + 0.01})
        made = JoiningRuns(pd.DataFrame(looks), pd.DataFrame(lost), {})
        return ours.s11(made, model="three seeds"), made

    record, made = verdict([0.1, 0.11, 0.12])
    assert record.verdict == HOLDS
    assert made.peaks().loc[2].tolist() == [128, 32, 256, 1, True]
    half = 6.205347 * 0.01 / np.sqrt(3)  # 97.5 %
    assert record.interval == pytest.approx((0.11 - half, 0.11 + half))
    assert verdict([0.01, 0.011, 0.012])[0].verdict == HOLDS_IN_PART  # less than 0.02 nats
    assert verdict([0.1, 0.11, 0.12], alone=0.0)[0].verdict == HOLDS_IN_PART
    assert verdict([-0.01, 0.0, 0.01])[0].verdict == UNDECIDED
    assert verdict([-0.001, 0.0, 0.001])[0].verdict == FAILS
    assert verdict([0.1, 0.11, 0.12], found=0.05)[0].verdict == HOLDS  # the peak is at step 64
    assert verdict([0.1])[0].verdict == NOT_COMPUTABLE


def test_tokens_are_matched_by_frequency_and_difficulty_by_hand():
    """A loop over classes, cells and tokens: what `Ablations.at`, `loss` and `tokens` hold."""
    rng = np.random.default_rng(8)
    ids = [torch.from_numpy(rng.integers(30, size=200)) for _ in range(3)]
    kinds = rng.integers(3, size=30)
    classes = TokenClasses(kinds == 1, kinds == 2, rng.random(30) < 0.5)
    unigrams = rng.integers(1, 1000, size=30)
    losses_of_rows = rng.normal(size=(4, 3 * 199))  # as it is, told itself, two ablations
    found = _read(losses_of_rows, list(enumerate(ids)), classes, unigrams, draws=5)
    base = losses_of_rows[1]
    changes = losses_of_rows[2:] - base
    np.testing.assert_allclose(found["everywhere"][0], changes.mean(axis=1), atol=1e-6)
    flags = [second_pieces(classes, text.numpy()) for text in ids]
    names = [second_words_of_names(classes, text.numpy()) for text in ids]
    for reading, part in enumerate((slice(None, -1), slice(1, None))):
        token = np.concatenate([text[part].numpy() for text in ids])
        chosen = np.concatenate([flag[part] for flag in flags])
        other_class = np.concatenate([flag[part] for flag in names])
        others = (classes.continuation | classes.word)[token] & ~chosen & ~other_class
        cells = []
        for values in (unigrams[token], base):
            edges = np.quantile(values[chosen], np.arange(1, 10) / 10)
            cells.append([sum(value >= edge for edge in edges) for value in values])
        cell = list(zip(*cells, strict=True))
        matched = [
            t
            for t in np.flatnonzero(chosen)
            if any(cell[t] == cell[o] for o in np.flatnonzero(others))
        ]
        assert 0 < len(matched) < chosen.sum()  # some have no match, and are left out
        assert found["tokens"][reading, 0].tolist() == [chosen.sum(), len(matched), others.sum()]
        rows = np.concatenate([changes, base[None]])
        beside = []
        for t in matched:
            same = [o for o in np.flatnonzero(others) if cell[o] == cell[t]]
            beside.append(rows[:, same].mean(axis=1))
        expected = np.stack([rows[:, matched].mean(axis=1), np.mean(beside, axis=0)], axis=-1)
        np.testing.assert_allclose(found["at"][0, :, reading, 0], expected[:-1], atol=1e-6)
        np.testing.assert_allclose(found["loss"][reading, 0], expected[-1], atol=1e-6)


def test_windows_end_at_the_least_length():
    """32 tokens are a window, 31 are none; documents keep their number."""
    documents = [list(range(40)), list(range(31)), list(range(100, 132)), list(range(40 + 32))]
    found = windows_of(documents, 40, None)
    assert [(number, len(ids)) for number, ids in found] == [(0, 40), (2, 32), (3, 40), (3, 32)]
    begun = windows_of([list(range(80))], 41, 7)
    assert [ids[0].item() for _, ids in begun] == [7, 7]
    assert [len(ids) for _, ids in begun] == [41, 41]


@pytest.mark.parametrize(("length", "first"), [(1, None), (2, 7)])
def test_a_window_has_room_for_two_tokens_beside_its_first(length, first):
    with pytest.raises(CorpusError, match="window"):
        windows_of([list(range(40))], length, first)


def test_an_interval_is_of_the_resamples_alone():
    draws = np.array([100.0, *np.arange(1.0, 42.0)])
    assert interval(draws) == (100.0, 2.0, 40.0)


def test_an_excess_is_of_its_own_class_reading_and_head():
    """Every cell of `at` is another number: 8 · reading + 4 · class + 2 · side, by powers of 3."""
    names = [("ee", -1), ("ee", 0), ("ee", 1)]
    rows, readings, classes, sides = np.ogrid[:3, :2, :2, :2]
    cells = 3.0**rows * (8 * readings + 4 * classes - 2 * sides + 5 * readings * classes * sides)
    at = np.stack([cells, cells + 1, 2 * cells])
    found = replace(
        made({}), what=np.array([what for what, _ in names]), head=np.array([h for _, h in names]),
        everywhere=np.zeros((3, 3)), at=at, moved=np.zeros((3, 2)),
    )  # fmt: skip
    assert (found.of("ee"), found.of("ee", 1), found.n_heads) == (0, 2, 2)
    assert found.excess("ee").tolist() == [2, 2, 4]
    assert found.excess("ee", 0).tolist() == [6, 6, 12]
    both = {"of": "second words of names", "reading": "on"}
    assert found.excess("ee", 1, **both).tolist() == [-27, -27, -54]
    assert found.excess("ee", 1, of="second words of names").tolist() == [18, 18, 36]
    assert found.excess("ee", 1, reading="on").tolist() == [18, 18, 36]
    assert found.by_head("ee").tolist() == [[6, 18], [6, 18], [12, 36]]
    for name, wrong in (("of", "names"), ("reading", "before")):
        with pytest.raises(ResultError, match=name):
            found.excess("ee", **{name: wrong})


def test_documents_are_drawn_anew_and_not_their_windows():
    """Document 0 has two windows, and so always counts twice or not at all."""
    rng = np.random.default_rng(5)
    ids = [(place, torch.from_numpy(rng.integers(30, size=50))) for place in (0, 0, 1, 2)]
    kinds = rng.integers(3, size=30)
    classes = TokenClasses(kinds == 1, kinds == 2, rng.random(30) < 0.5)
    rows = rng.normal(size=(3, 4 * 49))
    found = _read(rows, ids, classes, rng.integers(1, 100, size=30), draws=40)
    change = (rows[2] - rows[1]).reshape(4, 49)
    times = np.random.default_rng(0).multinomial(3, [1 / 3] * 3, size=40)
    for draw, (of_0, of_1, of_2) in enumerate(times, start=1):
        weights = np.array([of_0, of_0, of_1, of_2])
        expected = (weights @ change.sum(axis=1)) / (49 * weights.sum())
        assert found["everywhere"][draw, 0] == pytest.approx(expected, abs=1e-6)


def test_a_class_without_tokens_takes_nothing_from_the_next():
    """No word is continued; names are read all the same, by hand of one cell each."""
    rng = np.random.default_rng(6)
    word = rng.random(30) < 0.9
    classes = TokenClasses(np.zeros(30, dtype=bool), word, rng.random(30) < 0.4)
    ids = torch.from_numpy(rng.integers(30, size=400))
    rows = rng.normal(size=(3, 399))
    found = _read(rows, [(0, ids)], classes, np.ones(30, dtype=int), draws=1)
    assert found["tokens"][:, 0, :2].tolist() == [[0, 0], [0, 0]]
    assert np.isnan(found["at"][:, :, :, 0]).all()
    assert np.isnan(found["loss"][:, 0]).all()
    names = second_words_of_names(classes, ids.numpy())
    for reading, part in enumerate((slice(None, -1), slice(1, None))):
        assert found["tokens"][reading, 1, 0] == names[part].sum() > 10
        assert found["tokens"][reading, 1, 2] == (word[ids[part].numpy()] & ~names[part]).sum()
        assert np.isfinite(found["at"][0, 0, reading, 1]).all()
