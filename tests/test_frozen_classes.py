"""What is handed out cannot be changed, and what holds arrays is equal to itself alone."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator
from itertools import chain
from types import ModuleType

import pytest

import booksite
import lnattn

#: Filled while a profile is read, chapters run or a book is built, and never handed out.
FILLED = {"OperatorCount", "_Counter", "Run"}
#: The package, and the site where its tools are installed.
PACKAGES = [lnattn, booksite] if importlib.util.find_spec("jupyter_book") else [lnattn]


def dataclasses_of(package: ModuleType) -> Iterator[type]:
    """Every dataclass of a package, once, by the module that defines it."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if module.name.endswith("__main__"):
            continue
        for known in vars(importlib.import_module(module.name)).values():
            is_its_own = isinstance(known, type) and known.__module__ == module.name
            if is_its_own and dataclasses.is_dataclass(known):
                yield known


EVERY = sorted(chain(*map(dataclasses_of, PACKAGES)), key=lambda known: known.__qualname__)


def holds_arrays(known: type) -> bool:
    """Whether a field is an array, of which `==` gives an array and no answer."""
    kinds = [str(field.type) for field in dataclasses.fields(known)]
    return any(word in kind for kind in kinds for word in ("Tensor", "np.ndarray", "sparse."))


@pytest.mark.parametrize("known", EVERY, ids=lambda known: known.__name__)
def test_a_result_cannot_be_changed_and_is_compared_without_an_error(known: type) -> None:
    settings = known.__dataclass_params__  # type: ignore[attr-defined]
    assert settings.frozen or known.__name__ in FILLED
    assert not (settings.eq and holds_arrays(known))
