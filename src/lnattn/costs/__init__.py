"""What does a transformer layer cost, by formula and on this machine? (chapter 01)

The eight matrix products of a layer, their operations and the bytes that they must move, in prefill
and when decoding; then the same counted operator by operator as torch executes them, and timed
against the roofline of the machine at hand (Williams et al. 2009). How they grow is what the notes
on the mathematics of transformers say in their sections on attention and on the FFN (M4, M5).

`LayerSize` and `product_costs` are the formulas; `profile_layer` counts; `measure_roof` and
`measure_layers` take times.
"""

from lnattn.costs.formulas import LayerSize, product_costs
from lnattn.costs.profiling import profile_layer
from lnattn.costs.roofline import measure_layers, measure_roof

__all__ = ["LayerSize", "measure_layers", "measure_roof", "product_costs", "profile_layer"]
