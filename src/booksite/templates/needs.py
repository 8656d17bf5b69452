# This chapter runs in its book's environment; elsewhere, this cell says what it needs.
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = "REPOSITORY"


class Needed(Exception):
    """Shown as its sentence, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


if importlib.util.find_spec("lnattn_book") is None:
    if "google.colab" in sys.modules and REPOSITORY:
        subprocess.run(["git", "clone", "--depth", "1", REPOSITORY, "book"], check=True)
        install = [sys.executable, "-m", "pip", "install", "--quiet", "-e", "./book[book]"]
        subprocess.run(install, check=True)
        sys.path[:0] = [str(Path("book", "src").resolve()), str(Path("book").resolve())]
        os.chdir("book/notebooks")
    else:
        where = REPOSITORY or "the repository it came from"
        command = 'pip install -e ".[book,lab]"'
        raise Needed(f"This chapter needs a clone of its book ({where}) and, in it: {command}")
