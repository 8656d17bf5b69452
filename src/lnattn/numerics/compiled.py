"""Compiled code that is kept on disk, and code it was made of that has changed since.

numba keeps what it compiles beside the source, and compiles anew when *that* file changes. A
function from another module is compiled into its caller, though, and a change there goes unnoticed:
after an update of the sources, old code would go on computing. So a module whose compiled functions
call those of other modules says so, at its end.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from numba.extending import is_jitted


def forget_outdated(name: str, *used: ModuleType) -> None:
    """Delete what is kept of a module's functions if it is older than a module they are made of.

    name: the calling module's `__name__`; used: all modules whose compiled functions it calls, also
    those which these call. Does nothing where numba keeps nothing, or cannot write.
    """
    newest = max(Path(module.__file__).stat().st_mtime for module in used if module.__file__)
    for index in _indices(sys.modules[name]):
        try:
            if index.stat().st_mtime < newest:
                index.unlink()
        except FileNotFoundError:  # another process was first
            continue


def _indices(module: ModuleType) -> Iterator[Path]:
    """The files in which numba lists what it has kept of the module's functions."""
    source = Path(str(module.__file__)).stem
    for function in vars(module).values():
        if is_jitted(function) and function.py_func.__module__ == module.__name__:
            folder = function.stats.cache_path
            if folder:
                yield from Path(folder).glob(f"{source}.{function.py_func.__qualname__}-*.nbi")
