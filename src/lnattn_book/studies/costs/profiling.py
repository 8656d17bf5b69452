"""Counting what a layer really does: every operator that torch executes, its operations and bytes.

Operations come from torch's own flop counter, which knows matrix products only; bytes from the
sizes of every operator's inputs and outputs. Views move nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

from lnattn.attention.forward import KeyValueCache, pre_ln_layer
from lnattn.errors import ShapeError
from lnattn.inputs import require
from lnattn.transformer import Block
from lnattn_book.studies.costs.formulas import PRODUCTS, LayerSize, product_costs
from lnattn_book.studies.depth import xavier_block

try:  # torch's notes on extending it name the class, but keep it in a module that they may move
    from torch.utils._python_dispatch import TorchDispatchMode
except ImportError as error:
    raise ImportError(
        f"torch {torch.__version__} keeps TorchDispatchMode elsewhere, so operators cannot be "
        "counted; use a torch from 2.4 to 2.13."
    ) from error


def _tensors(value: Any) -> Iterator[Tensor]:
    """The tensors in an operator's arguments or results, which may be lists of them."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)
    elif isinstance(value, Mapping):
        yield from _tensors(list(value.values()))


@dataclass
class OperatorCount(TorchDispatchMode):
    """Log of all operators executed inside `with OperatorCount() as log:`, a dict a row."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        packet = func.overloadpacket
        inputs = list(_tensors((args, kwargs)))
        outputs = list(_tensors(result))
        # A view looks at its input differently and moves no number. What writes into an argument
        # has a name that ends with an underscore (add_), or is given its result (out=).
        writes = str(packet).endswith("_") or "out" in kwargs
        input_storages = {tensor.untyped_storage().data_ptr() for tensor in inputs}
        output_storages = {tensor.untyped_storage().data_ptr() for tensor in outputs}
        view = output_storages <= input_storages and not writes
        moved = sum(tensor.numel() * tensor.element_size() for tensor in inputs + outputs)
        counter = flop_registry.get(packet)
        operations = counter(*args, **kwargs, out_val=result) if counter else 0
        self.rows.append(
            {
                "operator": str(packet).removeprefix("aten."),
                "operations": operations,
                "bytes": 0 if view else moved,
            }
        )
        return result


def profile_layer(block: Block, x: Tensor, past: KeyValueCache | None = None) -> pd.DataFrame:
    """Operations and bytes of a pre-LN layer as executed, part by part.

    x: [token d_model]. One row for each of the eight products of `formulas`, then 'masking and
    softmax' (all between the scores and the values), 'activation' (between W_in and W_out, its bias
    included) and 'LayerNorms, biases, residuals, copies' (all else). Raises `ShapeError` for a
    block without an FFN, which executes six products.
    """
    require(block, Block, "block")
    if block.mlp is None:
        raise ShapeError("the table of eight products needs a block with an FFN; this has none.")
    with OperatorCount() as log:
        pre_ln_layer(x, block, past)
    products = [index for index, row in enumerate(log.rows) if row["operations"]]
    if len(products) != len(PRODUCTS):
        raise RuntimeError(f"{len(products)} matrix products were executed, not {len(PRODUCTS)}.")
    product_at = dict(zip(products, PRODUCTS, strict=True))
    after_product = {"scores": "masking and softmax", "W_in": "activation"}
    elsewhere = "LayerNorms, biases, residuals, copies"
    last_product = "W_V"
    for index, row in enumerate(log.rows):
        last_product = product_at.get(index, last_product)
        row["part"] = product_at.get(index, after_product.get(last_product, elsewhere))
    table = pd.DataFrame(log.rows).groupby("part")[["operations", "bytes"]].sum()
    return table.reindex([*PRODUCTS, *after_product.values(), elsewhere])


def random_block(d_model: int, heads: int, d_mlp: int) -> Block:
    """A layer of random weights in single precision: for counting and timing."""
    return xavier_block(d_model, heads, d_mlp, torch.Generator()).to(torch.float32)


def formula_and_count(size: LayerSize) -> pd.DataFrame:
    """The eight products: operations and bytes by formula beside those counted in a run."""
    block = random_block(size.d_model, size.heads, size.d_mlp)
    x = torch.zeros(size.queries, size.d_model)
    n_cached = size.keys - size.queries
    past = None
    if n_cached:
        cached = torch.zeros(size.heads, n_cached, size.d_model // size.heads)
        past = KeyValueCache(k=cached, v=cached.clone())
    counted = profile_layer(block, x, past)
    return product_costs(size).join(counted.add_prefix("counted_"))
