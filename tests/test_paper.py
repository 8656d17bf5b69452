"""What LaTeX is told: the book's own macros and signs, so that `make pdf` needs no hand."""

from __future__ import annotations

import re
from unittest.mock import Mock

import pytest
import yaml

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from sphinx.application import Sphinx
from sphinx.config import Config

from booksite.paper import UPRIGHT, preamble, tell_latex
from lnattn.paths import repository


def told(mathjax: dict | None, elements: dict) -> dict:
    """The settings for LaTeX of a book with these settings."""
    config = Mock(spec=Config, mathjax3_config=mathjax, latex_elements=elements)
    tell_latex(Mock(spec=Sphinx), config)
    return config.latex_elements


def test_every_macro_of_the_book_is_given_to_latex():
    settings = yaml.safe_load((repository() / "_config.yml").read_text(encoding="utf-8"))
    macros = settings["sphinx"]["config"]["mathjax3_config"]["tex"]["macros"]
    elements = told({"tex": {"macros": macros}}, {"papersize": "a4paper", "preamble": "% mine"})
    text = elements["preamble"]
    assert text.startswith("% mine\n")
    assert elements["papersize"] == "a4paper"
    for name, (replacement, _) in macros.items():
        assert f"\\renewcommand{{\\{name}}}{{{replacement}}}" in text
    assert settings["latex"]["latex_engine"] == "xelatex"


def test_macros_with_arguments_and_a_book_without_any():
    assert "\\renewcommand{\\inner}[2]{\\langle #1, #2\\rangle}" in preamble(
        {"inner": ["\\langle #1, #2\\rangle", 2]}
    )
    assert "renewcommand" not in told(None, {})["preamble"]


def test_the_signs_of_verdicts_are_set_upright():
    text = preamble({})
    signs = set(re.findall(r"newunicodechar\{(.)\}", text))
    assert signs == set(UPRIGHT)
    for sign in signs:
        assert f'\\symbol{{"{ord(sign):X}}}' in text
