"""What a build depends on, as digests: when must chapters run again, and pages be read again?

jupyter-cache keys a chapter's outputs on its cells alone. A chapter's numbers also depend on the
package's source, the data that ships with it, the locked versions and the model, so each
combination of these gets an execution cache of its own.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from lnattn.models import hub
from lnattn.storage import package_versions, sha256_of_file
from lnattn_book.page.names import rotary_models
from lnattn_book.page.places import ATTESTATIONS, FROZEN_CLAIMS

#: What published sites hold, see `booksite.extent`: no input either.
PUBLISHED = Path("data", "published.json")
#: What running programs leave behind, never an input.
_LITTER = frozenset({"__pycache__", "checkpoint", ".ipynb_checkpoints", ".ruff_cache"})
#: Environment variables that change what a chapter computes.
_SETTINGS = (
    "LNATTN_CORPORA",
    "LNATTN_DATA",
    "LNATTN_GPT2_ATTENTION",
    "LNATTN_QUERIES",
    "LNATTN_ROTARY",
)


def execution_digest(root: Path, model: str, environment: Mapping[str, str] | None = None) -> str:
    """Digest (16 hexadecimal digits) of all that the chapters' outputs depend on but their cells.

    root: the repository; model: the name of the model that the chapters run on.
    """
    environment = os.environ if environment is None else environment
    packages = (root / "src" / name for name in ("lnattn", "lnattn_book"))
    places = (*packages, root / "data", root / "conformance", root / "constraints.txt")
    apart = (root / FROZEN_CLAIMS, root / PUBLISHED, root / ATTESTATIONS)
    files = [path for path in files_below(*places) if not any(map(path.is_relative_to, apart))]
    facts = {
        "model": model,
        "rotary": " ".join(filter(_is_held, rotary_models())),
        "claims": claims_as_chapters_see_them(root),
        "python": platform.python_version(),
        **package_versions("torch", "transformers", "numpy", "numba", "matplotlib"),
        **{name: environment.get(name, "") for name in _SETTINGS},
    }
    return digest_of(root, files, facts)[:16]


def _is_held(name: str) -> bool:
    """Whether a rotary model of the hub is on this machine, so that chapter 12 shows it."""
    pin = hub.pin_of(name)
    return pin is not None and not hub.missing_files(pin)


def site_source_digest() -> str:
    """Digest of this package's own files: pages that another state of it read are read again."""
    package = Path(__file__).parent
    return digest_of(package, files_below(package), {})[:16]


def claims_as_chapters_see_them(root: Path) -> str:
    """The list of claims as chapters show it: everything in it but tests."""
    path = root / "book" / "claims.yml"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    hashed = [line for line in lines if not line.startswith(("  test:", "  second:"))]
    return hashlib.sha256("\n".join(hashed).encode()).hexdigest()


def files_below(*places: Path) -> Iterator[Path]:
    """All regular files at or below the places, sorted within each; places may be missing."""
    for place in places:
        if place.is_file():
            yield place
        for path in sorted(place.rglob("*")) if place.is_dir() else ():
            hidden = any(part in _LITTER or part.startswith(".") for part in _inside(path, place))
            if path.is_file() and not hidden and path.suffix != ".pyc":
                yield path


def _inside(path: Path, place: Path) -> tuple[str, ...]:
    return path.relative_to(place).parts


def digest_of(root: Path, files: Iterable[Path], facts: Mapping[str, str]) -> str:
    """SHA-256 over names relative to `root`, contents, and facts; the order does not matter."""
    digest = hashlib.sha256()
    for line in sorted(f"{path.relative_to(root)}\0{sha256_of_file(path)}" for path in files):
        digest.update(line.encode() + b"\n")
    for name in sorted(facts):
        digest.update(f"{name}\0{facts[name]}\n".encode())
    return digest.hexdigest()
