"""Token ids as whole numbers: the one check of everything that takes ids. Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jaxtyping import Int

from lnattn.errors import TokenError, one_line

if TYPE_CHECKING:
    from torch import Tensor

    #: What is taken for the ids of one text: a list, an array, a tensor, what a tokenizer answers.
    TokenIds: TypeAlias = (
        Sequence[int] | Sequence[Sequence[int]] | np.ndarray | Tensor | Mapping[str, Any]
    )
else:
    TokenIds = Any


def whole_ids(
    ids: Any, size: int | None = None, what: str = "token id", of: str = "the vocabulary"
) -> Int[np.ndarray, "n"]:
    """The ids as a non-empty int64 array; a list, an array or a tensor on any device may be given.

    What a tokenizer answers may be given too (its `input_ids` are taken), and a batch of one text.
    size: ids run from 0 to size − 1 (None: only negative ones are refused); what, of: how messages
    call one of them and all of them. Raises `TokenError` for anything but one row of whole numbers.

    >>> whole_ids([3, 1], size=4)
    array([3, 1])
    """
    if isinstance(ids, Mapping) and "input_ids" in ids:  # a BatchEncoding
        ids = ids["input_ids"]
    elif hasattr(ids, "offsets") and hasattr(ids, "ids"):  # an Encoding of tokenizers
        ids = ids.ids
    if hasattr(ids, "detach"):
        ids = _from_tensor(ids, what)
    try:
        given = np.asarray(ids)
    except (ValueError, TypeError):  # rows of several lengths, or no numbers at all
        given = np.empty((0, 0))
    if given.ndim == 2 and len(given) == 1:
        given = given[0]
    if given.ndim != 1 or len(given) == 0:
        more = "; give one text at a time" if given.ndim == 2 and len(given) > 1 else ""
        raise TokenError(f"{what}s must be a non-empty list, not shape {list(given.shape)}{more}.")
    if given.dtype.kind not in "iu":
        raise TokenError(f"{what}s must be whole numbers, not {given.dtype} as {given[0]!r}.")
    wrong = given[(given < 0) | (given >= size)] if size is not None else given[given < 0]
    if len(wrong):
        known = "" if size is None else f" of this model, which has {size}; use 0 to {size - 1}"
        raise TokenError(f"{what} {wrong[0]} is outside {of}{known}.")
    return given.astype(np.int64)


def _from_tensor(ids: Any, what: str) -> np.ndarray:
    """The numbers of a tensor, which may be on another device, or be one that learns."""
    try:
        return ids.detach().cpu().numpy()
    except (TypeError, RuntimeError) as error:  # on the device 'meta', or sparse
        raise TokenError(
            f"{what}s are a tensor without readable numbers ({one_line(error, 80)}); give a dense "
            "tensor with data, or a list."
        ) from error
