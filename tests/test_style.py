"""The book's figures are the book's, whatever a reader's matplotlibrc says."""

from __future__ import annotations

import os
import subprocess
import sys

CODE = """
import matplotlib
from lnattn_book.style import use_style
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
