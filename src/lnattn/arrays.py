"""What users pass as numbers, as arrays: one rule for all functions that compute with NumPy.

A tensor is detached and brought to the CPU, wherever it is and whether or not it wants a gradient;
bfloat16 and float16, in which one cannot count, become float32. All else goes through `np.asarray`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from lnattn.errors import ShapeError


def as_array(values: Any) -> np.ndarray:
    """The values as an array; a tensor, a `Parameter` or anything that NumPy takes.

    Raises `ShapeError` for a tensor that is sparse or has no numbers.

    >>> as_array(torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16)))
    array([1., 1.], dtype=float32)
    """
    if isinstance(values, torch.Tensor):
        if values.layout != torch.strided:
            raise ShapeError(f"a sparse tensor ({values.layout}) was given; give its .to_dense().")
        if values.is_meta:
            raise ShapeError("a tensor without numbers (device 'meta') was given; load them first.")
        values = values.detach().cpu()
        if values.dtype in (torch.bfloat16, torch.float16):
            values = values.float()
        return values.numpy()
    array = np.asarray(values)
    return array.astype(np.float32) if array.dtype == np.float16 else array
