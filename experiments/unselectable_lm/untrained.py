"""The untrained twins of Tables 1 and 2: what claims B8 and B9 measure before any training.

A twin is the same model with the weights that its run would have begun with, on the same windows of
text. Kept are its geometry and the text; nothing is learnt.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from experiments.book_model.plan import TrainingPlan
from experiments.unselectable_lm.evaluation import text_windows
from experiments.unselectable_lm.small_models import keys_of_layers, remove_from_layer_norm
from lnattn.selectability.decide import selectability
from lnattn_book.claims.brody import b8, b9
from lnattn_book.claims.nulls import write_nulls
from lnattn_book.studies.language_models import PAPER_SHAPE

#: The claims, the arm that each is about, and at which keys it looks.
ASKED = ((b8, "no-scaling", "keys"), (b9, "full", "before"))
#: The row that the claims have for the trained models.
ROW = "trained here, d = 8"


def shares_untrained(
    seeds: Sequence[int], windows: Sequence[Sequence[int]], arm: str, place: str
) -> Float[np.ndarray, "seed layer"]:
    """Unselectable keys of untrained models of the paper's shape, means over windows.

    arm, place: an arm of `ARMS`, and 'before' its LayerNorms or 'keys', after them.
    """
    rows = []
    for seed in seeds:
        plan = TrainingPlan(**PAPER_SHAPE, seed=seed)
        torch.manual_seed(seed)
        model = plan.new_model(end_of_text=0)
        remove_from_layer_norm(model, arm)
        precise = model.double().eval()
        shares = [
            [selectability(keys).unselectable for keys in keys_of_layers(precise, window)[place]]
            for window in windows
        ]
        rows.append(np.mean(shares, axis=0))
    return np.array(rows)


def freeze_untrained(
    source: Path | str, tokenizer: Path | str, *, windows: int = 12, draws: int = 3, seeds: int = 3
) -> list[Path]:
    """Freeze what B8 and B9 measure of untrained models: draws of so many seeds each.

    source: the text of the trained models' evaluation. Raises `CorpusError` where it is too short.
    """
    texts = text_windows(source, tokenizer, windows)
    paths = []
    for rule, arm, place in ASKED:
        shares = shares_untrained(range(draws * seeds), texts, arm, place)
        measured = [rule.measures(of_draw) for of_draw in np.split(shares, draws)]
        command = "python -m experiments.unselectable_lm untrained --text SQUAD"
        paths.append(write_nulls(rule.claim, ROW, measured, command))
    return paths
