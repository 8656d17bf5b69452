"""What does a transformer layer cost, by formula and as torch executes it? (*Costs and roofline*)

The eight matrix products of a layer, their operations and the bytes that they must move, in prefill
and when decoding (`LayerSize`, `product_costs`); the same counted operator by operator as torch
executes them (`profile_layer`; M4).
"""
