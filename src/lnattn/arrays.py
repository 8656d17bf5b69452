"""What users pass as numbers, as arrays: one rule for all functions that compute with NumPy.

A tensor is detached and brought to the CPU, wherever it is and whether or not it wants a gradient;
bfloat16 and float16, in which one cannot count, become float32. All else goes through `np.asarray`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def as_array(values: Any) -> np.ndarray:
    """The values as an array; a tensor, a `Parameter` or anything that NumPy takes.

    >>> as_array(torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16)))
    array([1., 1.], dtype=float32)
    """
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        if values.dtype in (torch.bfloat16, torch.float16):
            values = values.float()
        return values.numpy()
    array = np.asarray(values)
    return array.astype(np.float32) if array.dtype == np.float16 else array
