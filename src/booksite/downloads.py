"""What a page offers for download beside its source: the executed notebook, and the data it read.

The theme's button has the page's source and printing. This adds the notebook with its outputs,
which MyST-NB leaves in the build's folder, and the frozen data behind a chapter's figures.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

#: Page -> files below the repository's `data` that it reads and that are worth having.
DATA: dict[str, tuple[str, ...]] = {
    "notebooks/00-book-model": ("book-gpt2/training.json",),
    "notebooks/04-circuits": ("results/gpt2/composition.*",),
    "notebooks/06-detokenization-heads": (
        "results/minilm/detokenization.*",
        "results/book-gpt2/detokenization.*",
    ),
    "notebooks/07-position-bias": ("results/gpt2/position.*",),
    "notebooks/08-contributions": ("text/sample.jsonl",),
    "notebooks/09-variance": ("results/gpt2/position.*", "text/sample.jsonl"),
    "notebooks/10-majority": ("results/majority/*",),
    "notebooks/11-unselectable-keys": ("results/selectability/*",),
    "notebooks/12-other-models": ("results/*/survey.json",),
    "notebooks/13-rotary": ("results/*/rotary.json",),
    "notebooks/performance": ("results/benchmarks/*.json",),
    "book/claims": ("results/claims/*.json",),
}
FOLDER = "_downloads"
#: Larger files stay in the repository: the whole site is to be small.
LARGEST = 1_000_000


def files_of(page: str, root: Path) -> list[Path]:
    """The data files of a page, below `root/data`, by name; none above `LARGEST` bytes."""
    found = {path for pattern in DATA.get(page, ()) for path in (root / "data").glob(pattern)}
    return sorted(path for path in found if path.is_file() and path.stat().st_size <= LARGEST)


def offer_notebook(
    app: Any, page: str, _template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Put the executed notebook where the theme's download button looks for it."""
    if doctree is None or "kernelspec" not in app.env.metadata.get(page, {}):
        return
    executed = Path(app.outdir).parent / "jupyter_execute" / f"{page}.ipynb"
    if not executed.is_file():
        raise ExtensionError(f"{page} was executed, but {executed} is missing; run: make clean")
    target = Path(app.outdir) / "_sources" / f"{page}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(executed, target)
    context["ipynb_source"] = f"{page}.ipynb"


def offer_data(app: Any, page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """Add the page's data to the theme's download button."""
    root = Path(app.srcdir)
    for group in context.get("header_buttons", ()):
        if group.get("label") != "download-buttons":
            continue
        for path in files_of(page, root):
            inside = path.relative_to(root / "data").as_posix()
            target = Path(app.outdir) / FOLDER / inside
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            group["buttons"].append(
                {
                    "type": "link",
                    "url": context["pathto"](f"{FOLDER}/{inside}", 1),
                    "text": f"data: {path.parent.name}/{path.name}",
                    "tooltip": f"Download {inside} ({_size(path)})",
                    "icon": "fas fa-table",
                    "label": "download-data-button",
                }
            )


def _size(path: Path) -> str:
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(1, round(size / 1e3))} kB"


def setup(app: Sphinx) -> dict[str, Any]:
    # The theme makes its buttons at the default priority, 500, from what the page context holds.
    app.connect("html-page-context", offer_notebook, priority=100)
    app.connect("html-page-context", offer_data, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
