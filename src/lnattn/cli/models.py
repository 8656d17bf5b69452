"""List the models that can be named, with their pinned revisions and frozen results."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from lnattn.cli import add_json, print_json
from lnattn.storage import read_json

EXAMPLES = """examples:
  lnattn models
  lnattn models --json

Besides these names, every command takes a local folder, owner/model or owner/model@revision.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    from lnattn.freezing import results_folder, summary
    from lnattn.models.architectures import FAMILIES
    from lnattn.models.checkpoints import BOOK_MODELS, MINILM, WHISPER
    from lnattn.models.hub import PINNED
    from lnattn.models.packages import ALL_MINILM, WHISPER_TINY
    from lnattn.models.relative_layouts import LAYOUTS
    from lnattn.paths import data_folder

    named: list[tuple[str, str, str | None]]
    named = [(name, _source(data_folder() / name), None) for name in BOOK_MODELS]
    named += [(MINILM, f"package {ALL_MINILM.package}", None)]
    named += [(WHISPER, f"package {WHISPER_TINY.package}", None)]
    named += [(name, f"hub: {pin.repo}", pin.revision) for name, pin in PINNED.items()]
    columns = ("name", "source", "revision", "frozen")
    rows: list[dict[str, Any]] = [
        dict(zip(columns, (*row, list(summary(results_folder(row[0])))), strict=True))
        for row in named
    ]
    six = [name for name in FAMILIES if name not in LAYOUTS]
    families = {"six terms": six, "four terms by distance": list(LAYOUTS)}
    if args.json:
        print_json({"models": rows, "families": families})
        return
    for terms, names in families.items():
        print(f"{terms}: {', '.join(names)}")
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        revision = f" @ {row['revision'][:12]}" if row["revision"] else ""
        frozen = f"  [frozen: {', '.join(row['frozen'])}]" if row["frozen"] else ""
        print(f"{row['name']:<{width}}  {row['source']}{revision}{frozen}")


def _source(folder: Path) -> str:
    """What is said of an embedded model, by its folder."""
    if not folder.is_dir():
        return "not in this edition; its repository has it"
    return f"ships with the package ({read_json(folder / 'config.json').get('model_type')})"
