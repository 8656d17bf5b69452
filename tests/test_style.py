"""The book's figures are the book's, whatever a reader's matplotlibrc says; palettes agree."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from lnattn_book.claims.verdicts import VERDICTS
from lnattn_book.page import style
from lnattn_book.page.places import repository

CODE = """
import matplotlib
from lnattn_book.page.style import use_style
assert matplotlib.rcParams["axes.linewidth"] == 6  # the reader's file was read
use_style()
print(matplotlib.rcParams["axes.linewidth"], matplotlib.rcParams["text.usetex"])
"""


def test_a_readers_matplotlibrc_does_not_reach_the_figures(tmp_path):
    settings = tmp_path / "matplotlibrc"
    settings.write_text("axes.linewidth: 6\ntext.usetex: True\n")
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**os.environ, "MATPLOTLIBRC": str(settings)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    linewidth, usetex = done.stdout.split()
    assert float(linewidth) < 2
    assert usetex == "False"


def test_figures_and_the_claims_page_have_one_palette_of_verdicts() -> None:
    css = (repository() / "src/booksite/assets/claims.css").read_text("utf-8")
    for verdict, colour in style.VERDICT_COLOURS.items():
        name = verdict.replace(" ", "-")
        rule = re.search(rf"verdict-{name} \{{ background: (#\w+); \}}", css)
        assert (rule[1] if rule else ground_of_signs(css)) == colour, verdict
    assert set(style.VERDICT_COLOURS) == set(VERDICTS)


def ground_of_signs(css: str) -> str:
    """The colour of a sign whose verdict has no rule of its own."""
    return re.search(r"\.claims-all \.sign \{\s+color: #111;\s+background: (#\w+);", css)[1]
