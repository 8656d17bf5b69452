"""The installed packages that lnattn needs, with their versions: the book's lock.

`python -m booksite.lock > constraints.txt` (what `make lock` does) pins what is installed now.
"""

from __future__ import annotations

from importlib.metadata import Distribution, distributions

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXTRAS = frozenset({"book", "test", "minilm"})


def installed_closure(root: str, extras: set[str]) -> list[tuple[str, str]]:
    """Name and version of every installed package that `root` with `extras` needs, by name."""
    installed: dict[str, Distribution] = {
        canonicalize_name(item.metadata["Name"]): item for item in distributions()
    }
    found: dict[str, str] = {}
    waiting: list[tuple[str, frozenset[str]]] = [(canonicalize_name(root), frozenset(extras))]
    seen = set()
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in seen or name not in installed:
            continue
        seen.add((name, wanted))
        found[name] = installed[name].version
        for line in installed[name].requires or ():
            need = Requirement(line)
            if need.marker is None or any(
                need.marker.evaluate({"extra": extra}) for extra in (wanted or {""})
            ):
                waiting.append((canonicalize_name(need.name), frozenset(need.extras)))
    return sorted(found.items())


def constraints() -> str:
    """The text of constraints.txt: exact versions, without local labels such as +cpu."""
    lines = [
        "# The versions that the book was last built and tested with (pip install -c this-file).",
        "# Local labels (+cpu) are left out, so that any build of the same version will do.",
    ]
    closure = installed_closure("lnattn", set(EXTRAS))
    lines += [f"{name}=={version.split('+')[0]}" for name, version in closure if name != "lnattn"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(constraints(), end="")
