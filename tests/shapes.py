"""Shapes in signatures are checked while tests run (jaxtyping + beartype), where any are named.

Functions without arrays are left as they are: their types are mypy's affair, and to wrap them all
would take seconds at each start of a process, and a tenth of a millisecond in each call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jaxtyping

#: What jaxtyping calls arrays: Float, Int, Bool and the like.
ARRAYS = tuple(
    name
    for name, value in vars(jaxtyping).items()
    if isinstance(value, type) and issubclass(value, jaxtyping.AbstractDtype)
)
_jaxtyped = jaxtyping.jaxtyped


def names_an_array(annotated: Any) -> bool:
    """Whether an annotation of a function, or of a dataclass's field, is of an array."""
    named = getattr(annotated, "__globals__", {})  # by a name that its module gave to a shape
    annotations = getattr(annotated, "__annotations__", {}).values()
    said = [str(named.get(one, one)) for one in annotations]
    return any(f"{array}[" in one for one in said for array in ARRAYS)


def _where_arrays_are_named(*given: Any, **options: Any) -> Any:
    check = _jaxtyped(*given, **options)
    if given:  # the package's own use of it, and no decorator
        return check
    return lambda annotated: check(annotated) if names_an_array(annotated) else annotated


def check_in(packages: Sequence[str]) -> None:
    """Check the shapes of packages that have not been imported yet."""
    setattr(jaxtyping, "jaxtyped", _where_arrays_are_named)  # noqa: B010  what its hook calls
    jaxtyping.install_import_hook(packages, "beartype.beartype")
