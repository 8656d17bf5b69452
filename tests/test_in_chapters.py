"""What the widgets in chapters draw is what the package and the frozen results say."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from javascript import in_node

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")

from booksite.explorer import in_chapters, publishing
from booksite.explorer.in_chapters import UNIT
from lnattn.attention.folding import fold
from lnattn.attention.layernorm import center, standardise
from lnattn.models.checkpoints import load_first_layer
from lnattn.paths import data_folder
from lnattn.position.measured import near_share
from lnattn.position.sigma import InverseSigma, assumed_inverse_sigma, variances
from lnattn.position.without_tokens import PositionOnly
from lnattn_book.chapters import layernorm, position
from lnattn_book.chapters.pairs_first import Snapshots
from lnattn_book.studies.by_place import ByPlace, PublishedSigma, by_place
from lnattn_book.studies.first_token import switch_by_place
from lnattn_book.studies.small_models import read_looks

GPT2 = data_folder() / "results" / "gpt2"
TRAININGS = data_folder() / "results" / "early-and-late-2-layers"


@pytest.fixture(scope="module")
def bias():
    return ByPlace.read(GPT2).bias(PositionOnly.read(GPT2))


def test_the_widget_of_chapter_3_opens_with_the_chapters_sentence() -> None:
    chapter = data_folder().parent / "notebooks" / "03-six-terms.md"
    assert f'text = "{publishing.PAIR}"' in chapter.read_text("utf-8")


def test_slopes_and_waves_are_gpt2s(bias) -> None:
    written = in_chapters.by_place()
    assert written["queries"] == [50, 500, 1000]
    for name, term in (("slope", bias.term_p()), ("wave", bias.term_pp())):
        curves = np.cumsum(written[name], axis=-1) * UNIT
        np.testing.assert_allclose(curves, term.mean / bias.scale, atol=0.51 * UNIT)


@pytest.mark.parametrize(("head", "row"), [(7, 2), (5, 0), (11, 1), (0, 2)])
def test_the_page_sees_by_place_what_the_package_sees(bias, head, row) -> None:
    expression = "lnattnPlace.seen(data.numbers, data.head, data.row)"
    data = {"numbers": in_chapters.by_place(), "head": head, "row": row}
    seen = in_node(expression, data, "drawn.js", "place.js")
    query = bias.queries[row]
    curves = position.one_head(bias, head, query)
    np.testing.assert_allclose(seen["attention"], curves.attention, atol=0.003)
    shares = near_share(bias.attention(), bias.queries, bias.causal)
    np.testing.assert_allclose(seen["near"], shares[head, row], atol=0.003)
    assert query - seen["crest"] == position.crest(curves).before


ATTENTION = "data.values.map((value) => lnattnFirstPlace.attention(data.numbers, value))"


def test_a_turned_sigma_gives_what_the_frozen_switch_has_at_its_ends() -> None:
    place = ByPlace.read(GPT2)
    numbers = in_chapters.first_place()
    values = [numbers["sigma"]["own"], numbers["sigma"]["ordinary"]]
    shares = in_node(
        ATTENTION, {"numbers": numbers, "values": values}, "drawn.js", "first-place.js"
    )
    np.testing.assert_allclose(shares[0], place.own.mean(axis=1), rtol=2e-3)
    np.testing.assert_allclose(shares[1], place.ordinary.mean(axis=1), rtol=2e-3)


def test_a_turned_sigma_gives_what_the_package_computes_between() -> None:
    """Of book-gpt2, whose weights are here, with σ_0 halved, tripled and in between."""
    layer = load_first_layer("book-gpt2").to(torch.float64)
    W_P = layer.embeddings.W_P
    folded = fold(layer.attention)
    elsewhere = float(np.sqrt(2 * np.median(variances(W_P))))
    place = by_place(layer, PublishedSigma(first=0.0, elsewhere=elsewhere))
    inverse = assumed_inverse_sigma(W_P, float(place.token_variance), folded.eps)
    own = 1 / inverse.mean[0]
    values = [0.5 * own, 0.8 * own, 3 * own]
    data = {"numbers": in_chapters.log_odds(place), "values": values}
    for value, shares in zip(
        values, in_node(ATTENTION, data, "drawn.js", "first-place.js"), strict=True
    ):
        turned = inverse.mean.copy()
        turned[0] = 1 / value
        switch = switch_by_place(folded, W_P, InverseSigma(turned, None, None))
        np.testing.assert_allclose(shares, switch.true[0, :, :-1].mean(axis=1), rtol=5e-3)


def test_the_trainings_are_the_frozen_snapshots() -> None:
    written = in_chapters.training()
    runs = Snapshots.read(TRAININGS).table
    looks = read_looks(TRAININGS, "looks")[0]
    for training, (seed, run) in zip(written["trainings"], runs.groupby("seed"), strict=True):
        assert written["tokens"] == run["tokens"].tolist()
        for part in ("pairs", "positions", "found", "chance"):
            np.testing.assert_allclose(training[part], run[part], atol=5.1e-5)
        steps = run.index.get_level_values("step")
        for step, heads in zip(steps, training["previous"], strict=True):
            rows = looks[(looks["seed"] == seed) & (looks["step"] == step) & (looks["head"] >= 0)]
            np.testing.assert_allclose(heads, rows.sort_values("head")["previous"], atol=5.1e-5)
        np.testing.assert_allclose(
            np.max(training["previous"], axis=1), run["previous"], atol=5.1e-5
        )


def test_points_of_space_are_centred_and_scaled_by_the_package() -> None:
    written = in_chapters.norm()
    clouds = [layernorm.points_in_space(), layernorm.half_plane(1), layernorm.half_plane(-1)]
    for stages, x in zip(written["points"] + written["plane"], clouds, strict=True):
        for shown, points in zip(stages, (x, center(x), standardise(x)), strict=True):
            np.testing.assert_allclose(shown, points, atol=5.1e-5)


def test_what_is_said_of_points_is_measured() -> None:
    x = layernorm.points_in_space()
    (stages,) = in_chapters.norm()["points"]
    expression = "[0, 0.5, 2].map((at) => lnattnNorm.measured(lnattnNorm.between(data, at)))"
    given, half, scaled = in_node(expression, stages, "drawn.js", "norm.js")
    along = (x.sum(dim=1) / np.sqrt(3)).abs().max()
    np.testing.assert_allclose(given["along"], along, atol=1e-4)
    np.testing.assert_allclose(half["along"], along / 2, atol=1e-4)
    np.testing.assert_allclose(given["longest"], x.norm(dim=1).max(), atol=1e-4)
    np.testing.assert_allclose(list(scaled.values()), [0, np.sqrt(3), np.sqrt(3)], atol=2e-4)
