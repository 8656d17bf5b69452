"""Counting what a layer really does: every operator that torch executes, its operations and bytes.

Operations come from torch's own flop counter, which knows matrix products only; bytes from the
sizes of every operator's inputs and outputs. Views move nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from lnattn.attention.forward import KeyValueCache, pre_ln_layer
from lnattn.costs.formulas import PRODUCTS, LayerSize, product_costs
from lnattn.depth import xavier_block
from lnattn.transformer import Block


@dataclass
class OperatorCount(TorchDispatchMode):
    """Log of all operators executed inside `with OperatorCount() as log:`, a dict a row."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result, packet = func(*args, **kwargs), func.overloadpacket
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        # A view looks at its input differently and moves no number.
        writes = any(one.alias_info and one.alias_info.is_write for one in func._schema.returns)
        known = {tensor.untyped_storage().data_ptr() for tensor in inputs}
        view = not writes and all(one.untyped_storage().data_ptr() in known for one in outputs)
        moved = sum(tensor.numel() * tensor.element_size() for tensor in inputs + outputs)
        counter = flop_registry.get(packet)
        operations = counter(*args, **kwargs, out_val=result) if counter else 0
        name = str(packet).removeprefix("aten.")
        row = {"operator": name, "operations": operations, "bytes": 0 if view else moved}
        self.rows.append(row)
        return result


def profile_layer(block: Block, x: Tensor, past: KeyValueCache | None = None) -> pd.DataFrame:
    """Operations and bytes of a pre-LN layer as executed, part by part.

    x: [token d_model]. One row for each of the eight products of `lnattn.costs.formulas`,
    then 'masking and softmax' (all between the scores and the values), 'activation' (between W_in
    and W_out, its bias included) and 'LayerNorms, biases, residuals, copies' (all else).
    """
    with OperatorCount() as log:
        pre_ln_layer(x, block, past)
    products = [index for index, row in enumerate(log.rows) if row["operations"]]
    if len(products) != len(PRODUCTS):
        raise RuntimeError(f"{len(products)} matrix products were executed, not {len(PRODUCTS)}.")
    place = dict(zip(products, PRODUCTS, strict=True))
    between = {"scores": "masking and softmax", "W_in": "activation"}
    last, others = "W_V", "LayerNorms, biases, residuals, copies"
    for index, row in enumerate(log.rows):
        last = place.get(index, last)
        row["part"] = place.get(index, between.get(last, others))
    table = pd.DataFrame(log.rows).groupby("part")[["operations", "bytes"]].sum()
    return table.reindex([*PRODUCTS, *between.values(), others])


def random_block(d_model: int, heads: int, d_mlp: int) -> Block:
    """A layer of random weights in single precision: for counting and timing."""
    return xavier_block(d_model, heads, d_mlp, torch.Generator()).to(torch.float32)


def formula_and_count(size: LayerSize) -> pd.DataFrame:
    """The eight products: operations and bytes by formula beside those counted in a run."""
    block = random_block(size.d_model, size.heads, size.d_mlp)
    x, before = torch.zeros(size.queries, size.d_model), size.keys - size.queries
    past = torch.zeros(2, size.heads, before, size.d_model // size.heads)
    counted = profile_layer(block, x, KeyValueCache(*past) if before else None)
    return product_costs(size).join(counted.add_prefix("counted_"))
