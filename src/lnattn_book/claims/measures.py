"""What a claim measures, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Detail:
    """A measure that decides, or is told, but is not among the numbers of a record."""

    value: Any


class Measures:
    """Measures by name: numbers, arrays [head], intervals, each an attribute.

    >>> Measures({"rho": 0.5, "sizes": Detail((3, 4))}).sizes
    (3, 4)
    """

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named

    def __getitem__(self, name: str) -> Any:
        measure = self._named[name]
        return measure.value if isinstance(measure, Detail) else measure

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._named:
            raise AttributeError(name)
        return self[name]
