"""The book on paper: what LaTeX has to be told beside what Sphinx tells it.

Mathematics in the chapters uses a few macros that MathJax is given in `_config.yml`; LaTeX gets the
same. Its text font lacks some signs in bold, which are set in the upright cut instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

#: Signs of the verdicts; FreeSerif, the font that Sphinx sets, has them in its upright cut only.
UPRIGHT = "◐○✓✗"


def preamble(macros: Mapping[str, Sequence[Any]]) -> str:
    """LaTeX for MathJax's macros, each [replacement, number of arguments], and for the signs."""
    lines = []
    for name, (replacement, arguments) in macros.items():
        count = f"[{arguments}]" if arguments else ""
        lines.append(f"\\providecommand{{\\{name}}}{count}{{}}")
        lines.append(f"\\renewcommand{{\\{name}}}{count}{{{replacement}}}")
    lines.append("\\usepackage{newunicodechar}")
    for sign in UPRIGHT:
        upright = f'\\textnormal{{\\mdseries\\symbol{{"{ord(sign):X}}}}}'
        lines.append(f"\\newunicodechar{{{sign}}}{{{upright}}}")
    # Citations are links within roles, and in a caption what is not protected breaks.
    lines.append("\\usepackage{etoolbox}")
    lines.append("\\AtBeginDocument{\\robustify{\\hyperlink}\\robustify{\\DUrole}}")
    return "\n".join(lines)


def tell_latex(app: Sphinx, config: Config) -> None:
    """Add the preamble to the book's own settings."""
    macros = (config.mathjax3_config or {}).get("tex", {}).get("macros", {})
    before = config.latex_elements.get("preamble", "")
    config.latex_elements = {
        **config.latex_elements,
        "preamble": f"{before}\n{preamble(macros)}",
    }


def setup(app: Sphinx) -> None:
    app.connect("config-inited", tell_latex)
