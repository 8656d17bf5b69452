"""Claim B10 at a quarter of the paper's length: every arm at its best rate, with three seeds.

Brody et al. 2023, §4.2, Fig. 4 and Table 1, for the arms of `small_models`: losses against the
tokens seen, and the share of unselectable keys at every doubling of the steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from experiments.book_model.plan import TrainingPlan
from experiments.tokens import encode_stream
from experiments.unselectable_lm.evaluation import evaluate, text_windows
from experiments.unselectable_lm.small_models import load_arm, snapshots_of, train_arm
from lnattn.errors import ResultError
from lnattn.progress import progress_bar
from lnattn.storage import provenance, read_json, sha256_of_file
from lnattn.text.corpora import read_documents
from lnattn.text.tokenizers import load_tokenizer
from lnattn_book.studies.language_models import (
    ARMS,
    LONG,
    LOSSES,
    PAPER_SHAPE,
    RATES,
    SEEDS,
    LongRuns,
    long_name,
    sweep_name,
)

#: How often a long run is evaluated on the way.
_EVALUATIONS = 100


def train_long(
    sources: Sequence[str | Path],
    held_out: Sequence[str | Path],
    folder: Path | str,
    tokenizer: Path | str,
    steps: int = LONG,
    progress: bool = True,
) -> Iterator[dict[str, Any]]:
    """Train every arm as `RATES` says, and yield the record of each long run.

    Each has a folder of its own (`sweep_name`, `long_name`). Called again, it goes on where it
    was interrupted. The short runs come first, then the arms seed by seed, so that what is there
    early can be compared. steps: of the long runs. Raises `ResultError` where an arm has no rate at
    which the loss is a number.
    """
    bpe = load_tokenizer(tokenizer)
    short = max(1, steps // 10)
    texts = [encode_stream(read_documents(files), bpe) for files in (sources, held_out)]

    def trained(name: str, arm: str, steps_: int, rate: float, seed: int = 0) -> dict[str, Any]:
        changes = {"steps": steps_, "learning_rate": rate, "seed": seed}
        every = {"evaluate_every": max(1, steps // _EVALUATIONS), "warmup": min(100, steps_ // 10)}
        plan = TrainingPlan(**{**PAPER_SHAPE, **changes, **every})
        place = Path(folder) / name
        return train_arm(
            sources, held_out, place, arm, plan, tokenizer, tokens=texts, progress=progress
        )

    def short_loss(arm: str, rate: float) -> float:
        log = trained(sweep_name(arm, rate), arm, short, rate)["log"]
        return float(log[-1]["held_out_loss"])

    best = {arm: best_rate({rate: short_loss(arm, rate) for rate in RATES}, arm) for arm in ARMS}
    for seed in SEEDS:
        for arm in ARMS:
            yield trained(long_name(arm, seed), arm, steps, best[arm], seed)


def best_rate(losses: Mapping[float, float], arm: str) -> float:
    """The learning rate of the lowest loss; `ResultError` if none of them is a number."""
    finite = {rate: loss for rate, loss in losses.items() if math.isfinite(loss)}
    if not finite:
        raise ResultError(f"no rate of {', '.join(map(str, losses))} trains {arm}; try lower ones.")
    return min(finite, key=lambda rate: finite[rate])


def freeze_long(
    folder: Path | str,
    source: Path | str,
    tokenizer: Path | str,
    out: Path | str,
    windows: int = 8,
    progress: bool = True,
) -> Path:
    """Freeze the runs of `train_long` that are finished, and the keys of their snapshots.

    Of the short runs only those of the best rates are followed, and only while no long run is
    finished. source: the text whose windows are decided. Raises `ResultError` where an arm's short
    runs are not finished either.
    """
    folder = Path(folder)
    texts = text_windows(source, tokenizer, windows)
    sweep = _sweep(folder)
    names = {(arm, seed): long_name(arm, seed) for arm in ARMS for seed in SEEDS}
    done = {key: name for key, name in names.items() if _finished(folder / name)}
    if not done:
        if not np.isfinite(sweep).all():
            raise ResultError(f"{folder} lacks finished runs; `long` makes them, or goes on.")
        best = np.array(RATES)[sweep[..., 1].argmin(axis=1)]
        done = {
            (arm, SEEDS[0]): sweep_name(arm, rate) for arm, rate in zip(ARMS, best, strict=True)
        }
    records = {key: read_json(folder / name / "training.json") for key, name in done.items()}
    first_record = next(iter(records.values()))
    losses = np.full((len(ARMS), len(SEEDS), len(first_record["log"]), 2), np.nan)
    shares: dict[tuple[str, int], list[np.ndarray]] = {}
    steps: list[int] = []
    for key, name in progress_bar(done.items(), "long runs", disable=not progress):
        losses[_place(*key)] = _losses(records[key]["log"])
        steps = []
        shares[key] = []
        for step, model in snapshots_of(folder / name, load_arm(folder / name, tokenizer)[1]):
            steps.append(step)
            shares[key].append(evaluate(model, texts).exact)
    unselectable = np.full((*losses.shape[:2], *np.shape(shares[next(iter(done))])), np.nan)
    for key, of_run in shares.items():
        unselectable[_place(*key)] = of_run
    plan = TrainingPlan(**first_record["plan"])
    per_step = plan.batch * plan.context / 1e6
    record = provenance(
        function="experiments.unselectable_lm.long_runs.freeze_long",
        arms=list(ARMS),
        seeds=list(SEEDS),
        plan={k: v for k, v in asdict(plan).items() if k not in ("learning_rate", "seed")},
        runs={
            name: {
                "learning_rate": records[key]["plan"]["learning_rate"],
                **{what: records[key][what] for what in ("tokens_seen", "weights_sha256", "date")},
            }
            for key, name in done.items()
        },
        corpus=first_record["corpus"],
        text=Path(source).name,
        text_sha256=sha256_of_file(source),
        windows=windows,
    )
    return LongRuns(
        rates=np.array(RATES),
        sweep=sweep,
        tokens=np.array([entry["step"] for entry in first_record["log"]]) * per_step,
        losses=losses,
        kept=np.array(steps) * per_step,
        unselectable=unselectable,
        record=record,
    ).write(out)


def _finished(run: Path) -> bool:
    return (run / "training.json").is_file()


def _place(arm: str, seed: int) -> tuple[int, int]:
    return list(ARMS).index(arm), SEEDS.index(seed)


def _losses(log: Sequence[Mapping[str, int | float]]) -> Float[np.ndarray, "evaluation loss"]:
    return np.array([[entry[name] for name in LOSSES] for entry in log])


def _sweep(folder: Path) -> Float[np.ndarray, "arm rate loss"]:
    losses = np.full((len(ARMS), len(RATES), 2), np.nan)
    for a, arm in enumerate(ARMS):
        for r, rate in enumerate(RATES):
            run = folder / sweep_name(arm, rate)
            if _finished(run):
                losses[a, r] = _losses(read_json(run / "training.json")["log"])[-1]
    return losses
