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
        clone = ["git", "clone", "--depth", "1", REPOSITORY, "book"]
        install = [sys.executable, "-m", "pip", "install", "--quiet", "-e", "./book[book]"]
        is_cloned = Path("book", "pyproject.toml").is_file()  # by a first try, whose install failed
        for step in [install] if is_cloned else [clone, install]:
            if subprocess.run(step, check=False).returncode:
                again = "run this cell again; if it ends so again, delete the folder book first"
                raise Needed(f"{' '.join(step)} ended with an error (above): {again}.")
        sys.path[:0] = [str(Path("book", "src").resolve()), str(Path("book").resolve())]
        os.chdir("book/notebooks")
    else:
        where = REPOSITORY or "the repository it came from"
        command = 'pip install -e ".[book,lab]"'
        raise Needed(f"This chapter needs a clone of its book ({where}) and, in it: {command}")
