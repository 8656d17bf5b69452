"""Make a new chapter that builds at once: `python tools/new_chapter.py NAME` (`make new-chapter`).

Writes four things and changes nothing that is there: `notebooks/NAME.md`, its module
`src/lnattn_book/chapters/NAME.py`, the module's test, and a line of `_toc.yml`, at the end of the
main path. CONTRIBUTING.md has what comes next.
"""

from __future__ import annotations

import argparse
import keyword
import re
import sys
from pathlib import Path
from string import Template

ROOT = Path(__file__).resolve().parents[1]
#: The line of `_toc.yml` behind which new chapters of the main path stand: the next part's first.
NEXT_PART = "  - caption: Try and check\n"

NOTEBOOK = Template("""\
---
jupytext:
  notebook_metadata_filter: -jupytext.text_representation.jupytext_version
  text_representation:
    extension: .md
    format_name: myst
    format_version: 0.13
kernelspec:
  display_name: Python 3 (ipykernel)
  language: python
  name: python3
---

(ch-$name)=
# $title

:::{opening}
What does this chapter ask?

Its answer, in at most forty words and with its number and unit.

Why a reader should care.
:::

```{code-cell} ipython3
:tags: [parameters]

text = "The cat sat on the mat."
MODEL = None  # a name or a folder; None: the book's choice
```

```{code-cell} ipython3
:tags: [hide-input]

import lnattn
from lnattn_book import page
from lnattn_book.chapters import $module as chapter

choice = page.choose(MODEL)
model = lnattn.load_first_layer(choice)
page.start(model)
```

```{code-cell} ipython3
---
mystnb:
  figure:
    caption: What is drawn, of which model.
    name: fig-$name
  image:
    alt: What one sees, for somebody who does not see it.
tags: [hide-input]
---
norms = chapter.key_norms(model, text)
chapter.draw(norms);
```

{numref}`fig-$name` shows one number a head. The few lines that compute it are visible:

```{code-cell} ipython3
norms = chapter.key_norms(model, text)
print(f"{len(norms)} heads")
```

## What this does not show

- *Anything yet.*

## In short

- *One finding.* In one sentence.

```{code-cell} ipython3
:tags: [hide-cell]

page.table(chapter.checks(model, norms))
```

## Exercises

:::{exercise}
:label: ex-$name-first

A question that a reader can answer with the cells above.
:::

:::{solution} ex-$name-first
:class: dropdown

Its answer.
:::
""")

MODULE = Template('''\
"""What the chapter '$title' states, as functions that its page calls."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from lnattn.selectability.first_layers import first_layer_keys
from lnattn.weights import FirstLayer
from lnattn_book.page import Check, says
from lnattn_book.page.style import BLUE, SINGLE
from lnattn_book.studies.samples import sentence_ids


def key_norms(model: FirstLayer, text: str) -> Float[np.ndarray, "head"]:
    """The mean norm of the keys of a text in every head of the first layer."""
    keys = first_layer_keys(model, sentence_ids(model, text).tolist())["heads"]
    return np.linalg.norm(keys, axis=-1).mean(axis=-1)


def draw(norms: Float[np.ndarray, "head"]) -> Figure:
    """A bar a head."""
    figure, ax = plt.subplots(figsize=SINGLE)
    ax.bar(range(len(norms)), norms, color=BLUE)
    ax.set(xlabel="head", ylabel="mean norm of a key", xticks=range(len(norms)))
    return figure


def checks(model: FirstLayer, norms: Float[np.ndarray, "head"]) -> Iterator[Check]:
    """What the page says of its numbers."""
    yield says("one number a head", len(norms) == len(model.attention.W_Q), found=len(norms))
''')

TEST = Template('''\
"""What the chapter '$title' computes, by hand."""

from __future__ import annotations

import numpy as np

import lnattn
from lnattn_book.chapters import $module as chapter
from lnattn_book.studies.samples import sentence_ids


def test_a_norm_a_head():
    model = lnattn.load_first_layer("book-gpt2")
    norms = chapter.key_norms(model, "A cat.")
    ids = sentence_ids(model, "A cat.")
    x = model.embeddings.W_E[ids] + model.embeddings.W_P[: len(ids)]
    ln, layer = model.attention.ln, model.attention
    normed = (x - x.mean(1, keepdim=True)) / (x.var(1, correction=0, keepdim=True) + ln.eps).sqrt()
    keys = (normed * ln.gamma + ln.beta) @ layer.W_K[3] + layer.b_K[3]
    np.testing.assert_allclose(norms[3], keys.norm(dim=1).mean(), rtol=1e-4)
''')


def new_chapter(name: str, title: str, root: Path = ROOT) -> list[Path]:
    """Write the chapter's files below `root`; the paths that were written or changed.

    Raises `ValueError` for a name that is none, and for one that is taken.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise ValueError(f"{name!r} is no name of a chapter; give words such as two-layers.")
    module = name.replace("-", "_")
    if keyword.iskeyword(module) or module == "__init__":
        raise ValueError(f"{name!r} is a word of Python, and cannot name a module; add a word.")
    words = {"name": name, "module": module, "title": title}
    texts = {
        root / f"notebooks/{name}.md": NOTEBOOK,
        root / f"src/lnattn_book/chapters/{module}.py": MODULE,
        root / f"tests/test_chapter_{module}.py": TEST,
    }
    if taken := [path for path in texts if path.exists()]:
        raise ValueError(f"{taken[0].relative_to(root)} is there already; take another name.")
    toc = root / "_toc.yml"
    before, heading, after = toc.read_text(encoding="utf-8").partition(NEXT_PART)
    if not heading:
        raise ValueError(f"_toc.yml has no line {NEXT_PART.strip()!r}; enter the chapter by hand.")
    for path, template in texts.items():
        path.write_text(template.substitute(words), encoding="utf-8")
    toc.write_text(f"{before}      - file: notebooks/{name}\n{heading}{after}", encoding="utf-8")
    return [*texts, toc]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("name", help="words with hyphens, such as two-layers")
    parser.add_argument("--title", help="the chapter's title (default: from its name)")
    arguments = parser.parse_args()
    title = arguments.title or arguments.name.replace("-", " ").capitalize()
    try:
        paths = new_chapter(arguments.name, title)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{error.filename} cannot be written ({error.strerror}).", file=sys.stderr)
        return 2
    for path in paths:
        print(path.relative_to(ROOT))
    print(f"now: make execute CHAPTER={arguments.name}; then CONTRIBUTING.md, 'A chapter'")
    return 0


if __name__ == "__main__":
    sys.exit(main())
