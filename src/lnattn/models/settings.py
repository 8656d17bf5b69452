"""Settings of a config.json, each checked as it is read: whole, finite, in range, true or false.

A configuration may come from anywhere. What it says is compared with what the weights are; what
nothing is compared with (an ε, a window, a bound) must at least be a number that can be meant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lnattn.errors import CheckpointError, one_line

#: The largest size (width, rows, positions, layers) that is believed: no model is near it, and
#: tables of such a length still fit into memory.
LARGEST = 10_000_000
_ABSENT: Any = object()


def checked_whole(
    value: Any, name: str, label: str, *, lowest: int = 1, highest: int = LARGEST
) -> int:
    """A whole number between two bounds; `CheckpointError` that names setting and model."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if is_whole and lowest <= value <= highest:
        return value
    # Of a whole number the range is told that it misses, of anything else the kind.
    bounds = f"from {lowest:,} to {highest:,}" if is_whole and value > highest else f"≥ {lowest}"
    bounds = "> 0" if bounds == "≥ 1" else bounds
    raise CheckpointError(
        f"{label}: {name} in config.json must be a whole number {bounds}, not "
        f"{one_line(repr(value), 80)}."
    )


def checked_number(
    value: Any, name: str, label: str, *, lowest: float = 0.0, above: bool = False
) -> float:
    """A finite number of at least `lowest` (above: more than that); else `CheckpointError`."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value) if abs(value) < 1e300 else math.inf
        if math.isfinite(number) and (number > lowest or (number == lowest and not above)):
            return number
    sign = ">" if above else "≥"
    raise CheckpointError(
        f"{label}: {name} in config.json must be a number {sign} {lowest:g}, not "
        f"{one_line(repr(value), 80)}."
    )


class Settings:
    """The settings of one model, by name. label: how messages call the model.

    >>> settings = Settings({"n_head": 8}, "my model")
    >>> settings.whole("n_head", "num_attention_heads")
    8
    """

    def __init__(self, values: Mapping[str, Any], label: str) -> None:
        self.values = values
        self.label = label

    def whole(self, *names: str, lowest: int = 1, highest: int = LARGEST) -> int:
        """A whole number under the first of the names that is there; raises if none is."""
        name = next((name for name in names if name in self.values), None)
        if name is None:
            raise CheckpointError(
                f"{self.label}: config.json does not give {names[0]}; take the one of these "
                "weights."
            )
        return checked_whole(self.values[name], name, self.label, lowest=lowest, highest=highest)

    def number(self, name: str, default: float) -> float:
        """A finite number ≥ 0, such as the ε of a norm; `default` where it is not given."""
        return checked_number(self.values.get(name, default), name, self.label)

    def flag(self, name: str, default: bool) -> bool:
        """True or false; `default` where it is not given, or null.

        Raises `CheckpointError` for anything else.
        """
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        raise CheckpointError(
            f"{self.label}: {name} in config.json must be true or false, not "
            f"{one_line(repr(value), 80)}."
        )
