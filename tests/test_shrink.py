"""The site is made small without losing what it shows."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="Pillow, which matplotlib needs, is missing")
pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")

from booksite import shrink  # noqa: E402


def png(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(array).save(out, "PNG")
    return out.getvalue()


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)


@pytest.fixture(scope="module")
def figure() -> bytes:
    """A heat map with axes, as matplotlib writes it: with an opaque alpha channel."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(4, 3), dpi=100)
    FigureCanvasAgg(drawn)
    values = np.random.default_rng(0).standard_normal((80, 80)).cumsum(axis=0)
    drawn.add_subplot().imshow(values, cmap="cividis", interpolation="bilinear")
    out = io.BytesIO()
    drawn.savefig(out, format="png")
    return out.getvalue()


def test_a_figure_gets_smaller_and_looks_the_same(figure):
    small = shrink.smaller_png(figure)
    assert len(small) < 0.9 * len(figure)
    apart = np.abs(pixels(small) - pixels(figure))
    assert pixels(small).shape == pixels(figure).shape
    assert apart.mean() < 6


def test_few_colours_are_kept_exactly():
    array = np.zeros((40, 40, 3), np.uint8)
    array[:20], array[20:, 20:] = (255, 255, 255), (213, 94, 0)
    data = png(array)
    assert (pixels(shrink.smaller_png(data)) == array).all()


def test_the_same_figure_gives_the_same_bytes_and_twice_is_once(figure):
    small = shrink.smaller_png(figure)
    assert shrink.smaller_png(figure) == small
    assert shrink.smaller_png(small) == small


def test_transparency_is_left_alone():
    array = np.zeros((30, 30, 4), np.uint8)
    array[:15, :, 3] = 255
    data = png(array)
    assert shrink.smaller_png(data) == data


def test_a_notebook_keeps_all_but_the_size_of_its_figures(figure):
    encoded = base64.b64encode(figure).decode()
    cell = {
        "cell_type": "code",
        "source": "x",
        "outputs": [
            {"data": {"image/png": [encoded[:9], encoded[9:]], "text/plain": "<Figure>"}},
            {"output_type": "stream", "text": "ü"},
        ],
    }
    before = {"cells": [cell, {"cell_type": "markdown", "source": "# A"}], "nbformat": 4}
    after = json.loads(shrink.smaller_notebook(json.dumps(before)))
    picture = after["cells"][0]["outputs"][0]["data"].pop("image/png")
    assert base64.b64decode(picture) == shrink.smaller_png(figure)
    cell["outputs"][0]["data"].pop("image/png")
    assert after == before


def test_a_site_is_shrunk_in_place(tmp_path, figure):
    for name, data in {
        "_images/a.png": figure,
        "_sources/notebooks/a.ipynb": json.dumps({"cells": []}).encode(),
        "_static/scripts/a.js.map": b"{}",
        "_static/scripts/a.js": b"1",
        "_static/locales/de/x.mo": b"x",
        "_static/vendor/font/a.ttf": b"x",
        "_static/vendor/font/a.woff2": b"x",
        "_static/mathjax/fonts/a.ttf": b"x",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    for _ in range(2):
        shrink.shrink(tmp_path)
        left = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()}
        assert left == {
            "_images/a.png",
            "_sources/notebooks/a.ipynb",
            "_static/scripts/a.js",
            "_static/vendor/font/a.woff2",
            "_static/mathjax/fonts/a.ttf",
        }
        assert (tmp_path / "_images/a.png").read_bytes() == shrink.smaller_png(figure)


def test_source_pages_lose_their_colours_and_keep_their_anchors():
    link = '<a href="x">[docs]</a>'
    body = f'<div class="viewcode-block" id="f">{link}<span class="k">def</span> f</div>'
    context = {"body": body}
    shrink.without_colours(None, "_modules/lnattn/a", "", context, None)
    assert context["body"] == f'<div class="viewcode-block" id="f">{link}def f</div>'
    context = {"body": body}
    shrink.without_colours(None, "notebooks/a", "", context, None)
    assert context["body"] == body
