"""The commands of a clone: `python -m lnattn_book freeze MODEL` and `verify MODEL`.

They are `lnattn freeze` and `lnattn verify` with the book's studies beside the package's: those
that read the texts and counts which only a clone has.

  python -m lnattn_book freeze book-gpt2 --only selectability-layers ablation    long: if named
  python -m lnattn_book freeze path/to/llama --counts skip-1.npz skip-2.npz skip-3.npz
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lnattn.cli import main as command
from lnattn_book.frozen import making as freezing

COMMANDS = ("freeze", "verify")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code. `arguments` defaults to the process's."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if not words or words[0] not in (*COMMANDS, "-h", "--help"):
        print(f"python -m lnattn_book knows {' and '.join(COMMANDS)}; give --help", file=sys.stderr)
        return 2
    if words[0] not in COMMANDS:
        studies = ", ".join(study.name for study in freezing.STUDIES)
        print(f"{__doc__}\nStudies of the book: {studies}.\n`freeze --help` tells the options.")
        return 0
    freezing.enter_studies()
    return command.main(words)


if __name__ == "__main__":
    sys.exit(main())
