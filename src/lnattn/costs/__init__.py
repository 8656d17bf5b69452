"""What does a transformer layer cost, by formula and on this machine? (chapter 01)

The eight matrix products of a layer, their operations and the bytes that they must move, in prefill
and when decoding (`LayerSize`, `product_costs`); the same counted operator by operator as torch
executes them (`profile_layer`), and timed against the roofline of this machine (`measure_roof`,
`measure_layers`; Williams et al. 2009; M4, M5).
"""

from lnattn.costs.formulas import LayerSize, product_costs
from lnattn.costs.profiling import profile_layer
from lnattn.costs.roofline import measure_layers, measure_roof

__all__ = ["LayerSize", "measure_layers", "measure_roof", "product_costs", "profile_layer"]
