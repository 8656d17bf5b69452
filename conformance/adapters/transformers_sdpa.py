"""transformers with SDPA, its default: what the kernel itself weighs values by.

It reports no weights, so it is called once more with the identity in place of the values.
"""

import torch
import transformers_eager
from torch.nn import functional

transformers_eager.IMPLEMENTATION = "sdpa"
_KERNEL = functional.scaled_dot_product_attention


def attention(folder, token_ids):
    weights = []

    def watched(query, key, value, *given, **named):
        units = torch.eye(key.shape[-2], dtype=value.dtype).expand(*value.shape[:2], -1, -1)
        weights.append(_KERNEL(query, key, units, *given, **named))
        return _KERNEL(query, key, value, *given, **named)

    functional.scaled_dot_product_attention = watched
    try:
        with torch.no_grad():
            transformers_eager.model(folder)(input_ids=torch.tensor([token_ids]))
    finally:
        functional.scaled_dot_product_attention = _KERNEL
    if not weights:
        raise NotImplementedError("it does not call the kernel")
    return weights[0][0]
