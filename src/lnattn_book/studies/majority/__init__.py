"""Does LayerNorm's projection help attention to find the most frequent class? (chapter 8)

Brody et al. 2023, §4.1: a one-layer encoder learns to name the class that occurs most often in a
sequence, with the projection in the LayerNorm before attention or without it (Fig. 1 to 3).

`majority_data` makes the task, as counts; `MajorityTransformer` is the model in plain PyTorch;
`train` trains it in count space, by a `MajorityPlan`; `Experiment` reads what was frozen of the
long runs of `experiments/majority`.
"""
