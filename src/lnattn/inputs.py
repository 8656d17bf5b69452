"""What may be passed at the package's doors, and what becomes of it.

A public function says at once, in one sentence, what it cannot mean: which argument, what is wrong
with it, and what to give instead. Behind the door nothing is checked again.

Tensors come as torch users have them, and one rule holds for all: a `Parameter` is detached, a
tensor on another device is copied to the CPU, and half precision becomes float32, in which the
algebra is tested (float64 stays). Sparse tensors, whole numbers and tensors without data are
refused.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from numbers import Integral, Real
from typing import Any, TypeAlias, TypeVar

import torch
from scipy import sparse
from torch import Tensor

from lnattn import forks as forks  # whatever computes has its arguments checked here first
from lnattn.errors import CorpusError, LnattnError, ShapeError, one_line

T = TypeVar("T")

#: How each kind of object is made, by the name of its class: the mend of a wrong argument.
_MADE_BY = {
    "AttentionLayer": "take the `attention` of lnattn.load_first_layer(name)",
    "Embeddings": "take the `embeddings` of lnattn.load_first_layer(name)",
    "FoldedAttention": "make one with lnattn.fold(model.attention)",
    "FoldedRelative": "make one with lnattn.fold_relative(model.attention)",
    "InverseSigma": "make one with inverse_sigma_bands(embeddings, folded.eps)",
    "LayerNorm": "take the `ln` of an AttentionLayer",
    "Neighbours": "make one with Neighbours.before(counts.bigrams)",
    "PositionBias": "make one with lnattn.position_bias(folded, W_P, queries)",
    "RelativeAttention": "take the `attention` of a rotary model's first layer",
    "TokenEmbeddings": "take the `embeddings` of a rotary model's first layer",
    "TokenVectors": "make them with lnattn.token_vectors(folded, embeddings)",
    "Transformer": "load one with lnattn.load_transformer(name)",
}
#: Kinds that add positions to the input, and kinds whose positions stand between query and key.
_ABSOLUTE = {"AttentionLayer", "Embeddings", "FirstLayer", "FoldedAttention"}
_RELATIVE = {"FoldedRelative", "RelativeAttention", "RelativeFirstLayer", "TokenEmbeddings"}


#: What is taken for a mask: booleans, or 0 and 1, as a tensor, an array or lists.
Mask: TypeAlias = Any


def shown(value: object) -> str:
    """A value as an error message shows it: its repr in one line, cut to 60 characters."""
    return one_line(repr(value), 60)


def require(value: T, kind: type | tuple[type, ...], name: str) -> T:
    """The value; `ShapeError` unless it is of this kind, with the way to make one.

    kind: a class, or several; name: what the argument is called.

    >>> require(3, int, "k")
    3
    """
    if isinstance(value, kind):
        return value
    kinds = kind if isinstance(kind, tuple) else (kind,)
    wanted = [accepted.__name__ for accepted in kinds]
    given = type(value).__name__
    if given in _RELATIVE and not _ABSOLUTE.isdisjoint(wanted):
        raise ShapeError(
            f"a {given} has rotary or relative positions, or none, so the six terms and what is "
            "made of them do not exist; use lnattn.fold_relative and lnattn.distance_terms."
        )
    mend = _MADE_BY.get(wanted[0], f"give a {wanted[0]}")
    raise ShapeError(f"{name} must be a {' or '.join(wanted)}, not a {given}; {mend}.")


def plain_tensor(value: Any, name: str, *, keep_narrow: bool = False) -> Tensor:
    """The tensor as the package computes with it: detached, dense, on the CPU, float32 or float64.

    keep_narrow: leave half precision as it is, for tables that are read a few rows at a time.
    Raises `ShapeError` for anything else than a dense tensor of floating-point numbers.

    >>> plain_tensor(torch.nn.Parameter(torch.ones(2).half()), "W")
    tensor([1., 1.])
    """
    if not isinstance(value, Tensor):
        raise ShapeError(f"{name} must be a torch.Tensor, not {type(value).__name__}.")
    if value.layout != torch.strided:
        raise ShapeError(f"{name} is a sparse tensor ({value.layout}); give its .to_dense().")
    if value.is_meta:
        raise ShapeError(f"{name} has no numbers (device 'meta'); load the weights first.")
    if not value.is_floating_point():
        raise ShapeError(f"{name} must hold floating-point numbers, not {value.dtype}.")
    value = value.detach().cpu()
    return value.float() if value.element_size() < 4 and not keep_narrow else value


def matrix(
    value: Any, name: str, axes: str, sizes: Sequence[int | None], dtype: torch.dtype | None = None
) -> Tensor:
    """The `plain_tensor`, which must be finite and have these axes.

    axes: their names, for the message; sizes: how long each must be (None: one or more); dtype:
    what it must be computed with, if anything. Raises `ShapeError` for anything else.
    """
    tensor = plain_tensor(value, name)
    shape = tuple(tensor.shape)
    fits = len(shape) == len(sizes) and all(
        length >= 1 if size is None else length == size
        for length, size in zip(shape, sizes, strict=True)
    )
    if not fits:
        wanted = ", ".join("≥ 1" if size is None else str(size) for size in sizes)
        raise ShapeError(f"{name} must have shape [{axes}] = [{wanted}], not {list(shape)}.")
    if dtype is not None and tensor.dtype != dtype:
        raise ShapeError(f"{name} is {tensor.dtype}, the weights are {dtype}; use .to() on one.")
    if not math.isfinite(tensor.abs().max()):
        raise ShapeError(f"{name} holds NaN or infinite values; check where it comes from.")
    return tensor


def checked_mask(value: Any, shape: Sequence[int], axes: str) -> Tensor:
    """A mask as booleans, True for what is there; `ShapeError` for anything else than a mask.

    shape: the axes that it must have, of which it may leave out or shorten to 1 any but the last;
    axes: their names, for the message. 0 and 1 of any type are read; an additive mask, as
    transformers makes it (0 for what is there, −∞ for what is not), is refused.

    >>> checked_mask([1, 1, 0], (3,), "key").tolist()
    [True, True, False]
    """
    try:
        mask = torch.as_tensor(value).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ShapeError(
            f"the mask must be a tensor of booleans, not {shown(value)}; give True for real tokens."
        ) from error
    wanted = list(shape)
    ends = wanted[len(wanted) - mask.ndim :]
    fits = 0 < mask.ndim <= len(wanted) and mask.shape[-1] == wanted[-1]
    fits = fits and all(n in (1, size) for n, size in zip(mask.shape, ends, strict=True))
    if not fits:
        raise ShapeError(
            f"the mask must be [{axes}] = {wanted}, one entry for each, not {list(mask.shape)}; "
            "that a query sees no later key is known of the model, and stands in no mask."
        )
    if mask.dtype == torch.bool:
        return mask
    if not bool(((mask == 0) | (mask == 1)).all()) or (mask.is_floating_point() and not mask.any()):
        raise ShapeError(
            "the mask holds other numbers than 0 and 1, or zeros alone, as an additive mask does "
            "(0 for real tokens, −∞ for padding); give booleans, True for real tokens: mask == 0."
        )
    return mask.bool()


def checked_bigrams(counts: Any) -> Any:
    """Bigram counts [previous next] as they are; `CorpusError` unless square, sparse and whole."""
    square = sparse.issparse(counts) and counts.ndim == 2 and counts.shape[0] == counts.shape[1]
    if not square:
        raise CorpusError(
            "bigram counts must be a square sparse matrix [previous next]; give the `bigrams` of "
            "lnattn.text.counts.Counts."
        )
    numbers = counts.data if counts.format in ("csr", "csc", "coo") else counts.tocsr().data
    if len(numbers) and (numbers.dtype.kind not in "iu" or numbers.min() < 0):
        raise CorpusError("bigram counts must be whole numbers ≥ 0; count the corpus again.")
    return counts


def whole_number(
    value: Any,
    name: str,
    least: int = 1,
    most: int | None = None,
    error: type[LnattnError] = ShapeError,
) -> int:
    """The value as an int; one sentence unless it is a whole number from `least` to `most`.

    A bool, a string and a float are refused, even where they would be equal to a whole number.
    Raises `error`.

    >>> whole_number(3, "k", most=5)
    3
    """
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or int(value) < least or (most is not None and int(value) > most):
        span = f"≥ {least}" if most is None else f"from {least} to {most}"
        raise error(f"{name} must be a whole number {span}, not {shown(value)}.")
    return int(value)


def real_number(
    value: Any,
    name: str,
    least: int | float = -math.inf,
    most: int | float = math.inf,
    *,
    open_ends: bool = False,
    error: type[LnattnError] = ShapeError,
) -> float:
    """The value as a float; one sentence unless it is a finite number from `least` to `most`.

    open_ends: whether the ends themselves are refused, too. Raises `error`.

    >>> real_number(0.5, "share", 0, 1)
    0.5
    """
    fits = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if fits:
        fits = least < value < most if open_ends else least <= value <= most
    if not fits:
        words = ("above", "below") if open_ends else ("≥", "≤")
        ends = [
            f"{word} {end:g}"
            for word, end in zip(words, (least, most), strict=True)
            if math.isfinite(end)
        ]
        span = " and ".join(ends) or "that is finite"
        raise error(f"{name} must be a number {span}, not {shown(value)}.")
    return float(value)


def one_of(
    value: Any, options: Collection[Any], name: str, error: type[LnattnError] = ShapeError
) -> Any:
    """The value; raises `error`, with all options, unless it is one of them.

    >>> one_of("keys", ("keys", "queries"), "side")
    'keys'
    """
    if not isinstance(value, str | int) or value not in options:
        known = ", ".join(repr(option) for option in options)
        raise error(f"{name} must be one of {known}, not {shown(value)}.")
    return value
