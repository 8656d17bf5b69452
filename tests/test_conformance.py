"""The conformance suite: what its table says is stored, its oracle is plain.py's, it notices."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from conformance import check, make, oracle, record, witness
from conformance.broken import broken
from conformance.cases import CASES, ROPES, SEQUENCES
from lnattn import plain
from lnattn.models.architectures import FAMILIES

HERE = Path(check.__file__).parent
CHECK = HERE / "check.py"
NOTICED = 1e-3


def layer_of(name: str, exactly: bool = False) -> oracle.FirstLayer:
    folder = make.FOLDER / name
    config = json.loads((folder / "config.json").read_text())
    return oracle.read(config, load_file(folder / "model.safetensors"), exactly)


def right_of(name: str) -> dict[str, np.ndarray]:
    return load_file(make.FOLDER / name / "expected.safetensors")


def test_every_family_that_is_read_has_a_case():
    assert {case.model_type for case in CASES.values()} == set(FAMILIES)
    assert {folder.name for folder in make.FOLDER.iterdir()} == set(CASES)


def test_every_rotary_scheme_of_transformers_has_a_case():
    assert set(ROPES) == {"default", *ROPE_INIT_FUNCTIONS}


def test_sizes():
    sizes = {path: path.stat().st_size for path in make.FOLDER.rglob("*") if path.is_file()}
    assert sum(sizes.values()) < 3_000_000
    for folder in make.FOLDER.iterdir():
        checkpoint = sizes[folder / "config.json"] + sizes[folder / "model.safetensors"]
        assert checkpoint < 30_000, folder.name


@pytest.mark.parametrize("name", CASES)
def test_the_command_writes_what_is_stored_byte_for_byte(name, tmp_path):
    make.write(name, tmp_path / name)
    for path in sorted((make.FOLDER / name).iterdir()):
        assert (tmp_path / name / path.name).read_bytes() == path.read_bytes(), path.name


# ---- The oracle --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_double_precision_gives_the_same_as_fifty_digits(name):
    layer = layer_of(name)
    right = right_of(name)
    for text, ids in enumerate(SEQUENCES):
        for what, values in oracle.expected(layer, ids).items():
            assert np.abs(values - right[f"{text}.{what}"]).max() < 1e-12, what


@pytest.mark.parametrize("name", CASES)
def test_the_formulas_are_those_of_plain(name):
    """plain.py's own functions, on the same numbers: norms, folding, rotation, terms, softmax."""
    layer = layer_of(name)
    ids = list(SEQUENCES[1])
    here = oracle.expected(layer, ids)
    by_plain = plain_six(layer, ids) if layer.positions is not None else plain_four(layer, ids)
    assert set(by_plain) == set(here) - {"scores", "attention"}
    for term, values in by_plain.items():
        assert np.abs(values - here[term]).max() < 1e-12, term
    if layer.window is None and layer.cap is None:
        scores = sum(by_plain.values())
        alpha = plain.attend(scores, layer.scale, layer.causal, layer.sinks)
        assert np.abs(alpha - here["attention"]).max() < 1e-12


def plain_six(layer, ids):
    d_model, d_head = layer.W_Q.shape[1:]
    heads = len(layer.W_Q)
    folded = plain.fold(
        plain.Layer(
            gamma=layer.norm.gamma, beta=layer.norm.beta, eps=layer.norm.eps,
            W_Q=layer.W_Q, W_K=layer.W_K, W_V=np.zeros_like(layer.W_Q),
            W_O=np.zeros((heads, d_head, d_model)), b_Q=layer.b_Q, b_K=layer.b_K,
            b_V=np.zeros((heads, d_head)), b_O=np.zeros(d_model), scale=layer.scale,
        )
    )  # fmt: skip
    return plain.six_terms(layer.tokens[ids], layer.positions[: len(ids)], folded)


def plain_four(layer, ids):
    x = layer.rows()
    norm = layer.norm
    if norm is not None and norm.centred:
        x = plain.layer_norm(x, norm.gamma, norm.beta, norm.eps)
    elif norm is not None:
        x = plain.rms_norm(x, norm.gamma, norm.eps)

    def of_heads(W, b, head_norm):
        vectors = x @ W + b[:, None]
        if layer.clip is not None:
            vectors = vectors.clip(-layer.clip, layer.clip)
        return vectors if head_norm is None else head_norm(vectors)

    times = len(layer.W_Q) // len(layer.W_K)
    q = of_heads(layer.W_Q, layer.b_Q, layer.norm_Q)
    k = of_heads(layer.W_K, layer.b_K, layer.norm_K).repeat(times, axis=0)
    n, d_head = len(ids), q.shape[2]
    R = np.tile(np.eye(d_head), (n, n, 1, 1))
    stretch = 1.0
    if layer.rotation is not None:
        speeds, stretch = layer.rotation.speeds(n).astype(float), layer.rotation.factor
        for i in range(n):
            for j in range(n):
                R[i, j] = plain.rotation(i - j, speeds, d_head, layer.rotation.interleaved)
        # The schemes for long texts stretch what turns of queries and of keys.
        turned = np.ones(d_head)
        turned[: 2 * len(speeds)] = stretch
        R = turned[:, None] * R * turned
    distance = np.arange(n)[:, None] - np.arange(n)
    bias = 0.0 if layer.penalty is None else layer.penalty(distance) * layer.scale
    return plain.distance_terms(q[:, ids], k[:, ids], q.mean(axis=1), k.mean(axis=1), R, bias)


@pytest.mark.parametrize("name", CASES)
def test_what_the_terms_add_up_to(name):
    layer = layer_of(name)
    right = right_of(name)
    for text in range(len(SEQUENCES)):
        terms = oracle.SIX if layer.positions is not None else oracle.FOUR
        total = sum(right[f"{text}.{term}"] for term in terms) / layer.scale
        if layer.cap is not None:
            total = layer.cap * np.tanh(total / layer.cap)
        away = right[f"{text}.scores"] - total
        if layer.positions is not None:  # but for one number a query, which the softmax ignores
            away = away - away[..., :1]
        assert np.abs(away).max() < 1e-12


@pytest.mark.parametrize("name", CASES)
def test_transformers_eager_attention_agrees_in_double_precision(name):
    assert record.exact_difference(make.FOLDER / name) < 1e-10


# ---- A case notices its ingredients --------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_case_notices_each_of_its_ingredients(name):
    layer = layer_of(name)
    right = right_of(name)
    names = []
    for ingredient, mistaken in broken(layer):
        pairs = enumerate(SEQUENCES)
        attention = {text: oracle.expected(mistaken, ids)["attention"] for text, ids in pairs}
        moved = max(np.abs(a - right[f"{text}.attention"]).max() for text, a in attention.items())
        assert moved > NOTICED, ingredient
        names.append(ingredient)
    assert len(set(names)) == len(names) >= 4


def test_every_ingredient_is_in_some_case():
    """Sinks, caps, clips, penalties and the rest: what no case has, nothing would notice."""
    ingredients = {name.split(":")[0] for case in CASES for name, _ in broken(layer_of(case))}
    assert ingredients == {
        *("scale", "mask", "window", "norm", "norm of tokens", "factor of tokens"),
        *("offset of positions", "bias of queries", "bias of keys", "groups"),
        *("norm of queries", "norm of keys", "clip", "soft cap", "sinks", "penalty by distance"),
        *("penalty", "rotation"),
    }


# ---- The check ---------------------------------------------------------------------------------


def run_check(adapter: str, *cases: str, folder: Path) -> subprocess.CompletedProcess:
    path = folder / "my_adapter.py"
    path.write_text(adapter)
    command = [sys.executable, str(CHECK), str(path), *cases]
    return subprocess.run(command, capture_output=True, text=True, check=False)


STORED = """
from pathlib import Path
from safetensors.numpy import load_file
def attention(folder, ids):
    found = load_file(Path(folder) / "expected.safetensors")[f"{int(len(ids) > 5)}.attention"]
"""


def test_what_is_right_passes_and_what_is_wrong_is_told_by_its_row(tmp_path):
    done = run_check(STORED + "    return found\n", "gpt2", "t5", folder=tmp_path)
    assert (done.returncode, done.stdout.count("right")) == (0, 2)
    moved = "    if len(ids) > 5:\n        found[1, 6] = found[1, 6][::-1]\n    return found\n"
    done = run_check(STORED + moved, "gpt2", folder=tmp_path)
    assert done.returncode == 1
    assert "wrong    text 1, head 1, query 6" in done.stdout


@pytest.mark.parametrize(
    ("adapter", "case", "words"),
    [
        ("import no_such_library\n", "gpt2", "No module named 'no_such_library'"),
        ("def attend(folder, ids):\n    pass\n", "gpt2", "KeyError: 'attention'"),
        (STORED + "    return found\n", "gpt3", "gpt3"),
    ],
)
def test_what_cannot_be_asked_is_skipped_in_one_line(adapter, case, words, tmp_path):
    done = run_check(adapter, case, folder=tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert words in line
    assert "nothing was checked" in line


def test_what_is_not_read_is_no_failure_and_an_error_is_one(tmp_path):
    refuses = "def attention(folder, ids):\n    raise NotImplementedError('no such family')\n"
    done = run_check(refuses, "gpt2", folder=tmp_path)
    assert done.returncode == 0
    assert "not read no such family" in done.stdout
    done = run_check("def attention(folder, ids):\n    return 1 / 0\n", "gpt2", folder=tmp_path)
    assert done.returncode == 1
    assert "error    ZeroDivisionError" in done.stdout


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        (lambda a: a[:, :-1], "wrong"),
        (lambda a: a * np.nan, "wrong"),
        (lambda a: a + 1e-7, "right"),
    ],
)
def test_shapes_and_numbers(given, verdict):
    right = right_of("gpt2")
    texts = {len(ids): right[f"{text}.attention"] for text, ids in enumerate(SEQUENCES)}
    found = check.judge(lambda _, ids: given(texts[len(ids)]), make.FOLDER / "gpt2")
    assert found[2] == verdict


def test_files_of_another_format_are_not_judged(tmp_path):
    (tmp_path / "case.json").write_text(json.dumps({"format": check.FORMAT + 1}))
    assert "format" in check.judge(None, tmp_path)[3]
    assert make.FORMAT == check.FORMAT


def test_the_check_is_short_and_needs_numpy_and_safetensors_alone():
    lines = CHECK.read_text().splitlines()
    assert len(lines) <= 60
    imported = {
        line.split()[1].split(".")[0] for line in lines if line.startswith(("import", "from"))
    }
    assert imported <= {"runpy", "json", "sys", "pathlib", "numpy", "safetensors"}


# ---- What libraries compute --------------------------------------------------------------------


@pytest.mark.parametrize("adapter", ["lnattn_terms", "transformers_eager"])
def test_libraries_that_compute_every_case_right(adapter):
    found = record.verdicts(record.adapter(adapter))
    assert {verdict for verdict, _, _ in found.values()} == {"right"}
    assert max(largest for _, largest, _ in found.values()) < 1e-6


def test_falcon_looks_ahead_where_sdpa_is_asked_for_its_attentions():
    """An upstream error: where this test fails, transformers has mended it; see falcon.md."""
    attention = record.adapter("transformers_sdpa_asked")
    folder = make.FOLDER / "falcon"
    assert check.judge(attention, folder)[2] == "wrong"
    assert record.explanation(attention, folder) == "mask: added to the scores as 0 and 1"
    assert witness.moved("sdpa", asked=True) > 0.1
    assert witness.moved("sdpa", asked=False) == witness.moved("eager", asked=True) == 0
    assert witness.above_the_diagonal("eager") == 0


def test_what_a_kernel_weighs_by_is_caught():
    """The identity in place of values: SDPA's own weights, which it does not report."""
    found = [check.judge(record.adapter("transformers_sdpa"), make.FOLDER / name)
             for name in ("falcon", "gemma3", "t5", "bert-decoder")]  # fmt: skip
    assert [row[2] for row in found] == ["right"] * 4


def test_a_layer_is_explained_only_by_its_own_mistake():
    right = layer_of("llama-yarn")
    folder = make.FOLDER / "llama-yarn"

    def explained(layer):
        return record.explanation(lambda _, ids: oracle.expected(layer, ids)["attention"], folder)

    assert (
        explained(replace(right, rotation=replace(right.rotation, factor=1))) == "rotation: factor"
    )
    assert explained(replace(right, scale=right.scale * 3)) == ""
