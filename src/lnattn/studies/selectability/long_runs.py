"""Claim B10 at a quarter of the paper's length: every arm at its best rate, with three seeds.

Brody et al. 2023, §4.2, Fig. 4 and Table 1, for the arms of `small_models`: losses against the
tokens seen, and the share of unselectable keys at every doubling of the steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from scipy.stats import t as student

from lnattn.errors import ResultError
from lnattn.progress import progress_bar
from lnattn.storage import Result, provenance, read_json, sha256_of_file
from lnattn.studies.selectability.evaluation import evaluate, text_windows
from lnattn.studies.selectability.small_models import (
    ARMS,
    PAPER_SHAPE,
    load_arm,
    snapshots_of,
    train_arm,
)
from lnattn.text.corpora import describe_corpus, read_documents
from lnattn.text.tokenizers import encode_stream, load_tokenizer
from lnattn.training.plan import TrainingPlan

#: Laid down before any run was made: every arm at three learning rates for a tenth of the length,
#: then at its best rate, by the loss held out, with three seeds for 200 million tokens.
RATES, SEEDS, LONG = (3e-3, 1e-2, 3e-2), (0, 1, 2), 24_415
#: How often a long run is evaluated on the way.
_EVALUATIONS = 100
#: The share of a run over which its last training loss is averaged: that of one batch is noise.
_END = 0.05
#: The losses of a log, in the order of the arrays' last axis.
LOSSES = ("train_loss", "held_out_loss")


def sweep_name(arm: str, rate: float) -> str:
    """The folder of a short run."""
    return f"{arm}-rate-{rate:g}"


def long_name(arm: str, seed: int) -> str:
    """The folder of a long run."""
    return f"{arm}-s{seed}"


def train_long(
    sources: Sequence[str | Path],
    held_out: Sequence[str | Path],
    folder: Path | str,
    tokenizer: Path | str,
    steps: int = LONG,
    known: LongRuns | None = None,
    progress: bool = True,
) -> Iterator[dict[str, Any]]:
    """Train every arm as `RATES` says, and yield the record of each long run.

    Each has a folder of its own (`sweep_name`, `long_name`). Called again, it goes on where it
    was interrupted. The short runs come first, then the arms seed by seed, so that what is there
    early can be compared. steps: of the long runs. known: what is frozen; its runs are not made
    again, so that some days, or machines, can share them. Raises `ResultError` where an arm has no
    rate at which the loss is a number, and where `known` is of other texts or another length.
    """
    corpus = {"train": describe_corpus(sources), "held_out": describe_corpus(held_out)}
    if known and known.record["corpus"] != corpus:
        raise ResultError("the frozen runs are of other texts; leave them out, or train on theirs.")
    short = max(1, steps // 10)
    if known and known.record["plan"]["steps"] != (steps if known.are_long else short):
        raise ResultError(f"the frozen runs do not go with {steps} steps; leave them out.")
    bpe = load_tokenizer(tokenizer)
    texts = [encode_stream(read_documents(one), bpe) for one in (sources, held_out)]

    def trained(name: str, arm: str, steps_: int, rate: float, seed: int = 0) -> dict[str, Any]:
        changes = {"steps": steps_, "learning_rate": rate, "seed": seed}
        every = {"evaluate_every": max(1, steps // _EVALUATIONS), "warmup": min(100, steps_ // 10)}
        plan = TrainingPlan(**{**PAPER_SHAPE, **changes, **every})
        place = Path(folder) / name
        return train_arm(
            sources, held_out, place, arm, plan, tokenizer, tokens=texts, progress=progress
        )

    def short_loss(arm: str, rate: float) -> float:
        if known and np.isfinite(found := known.sweep[known.arm(arm), RATES.index(rate), 1]):
            return float(found)
        log = trained(sweep_name(arm, rate), arm, short, rate)["log"]
        return float(log[-1]["held_out_loss"])

    best = {arm: best_rate({rate: short_loss(arm, rate) for rate in RATES}, arm) for arm in ARMS}
    for seed in SEEDS:
        for arm in ARMS:
            if known is None or long_name(arm, seed) not in known.record["runs"]:
                yield trained(long_name(arm, seed), arm, steps, best[arm], seed)


def best_rate(losses: Mapping[float, float], arm: str) -> float:
    """The learning rate of the lowest loss; `ResultError` if none of them is a number."""
    finite = {rate: loss for rate, loss in losses.items() if math.isfinite(loss)}
    if not finite:
        raise ResultError(f"no rate of {', '.join(map(str, losses))} trains {arm}; try lower ones.")
    return min(finite, key=lambda rate: finite[rate])


@dataclass(frozen=True, eq=False)
class LongRuns(Result):
    """Losses and unselectable keys of the runs of `train_long`. Made by `freeze_long`.

    Arms are in the order of `ARMS`, losses in that of `LOSSES`, in nats a token; what was not
    trained yet is NaN. sweep: [arm rate loss], at the end of the short runs. The rest is of the
    long runs or, while none is finished, of each arm's short run at its best rate: tokens: seen at
    each evaluation, in millions; losses: [arm seed evaluation loss]; kept: tokens seen at each
    snapshot, in millions; unselectable: [arm seed snapshot layer place window], shares, the places
    being those of `Evaluation`; record: what made it, and under `runs` which runs these are.
    """

    NAME: ClassVar[str] = "long-runs"

    rates: Float[np.ndarray, "rate"]
    sweep: Float[np.ndarray, "arm rate loss"]
    tokens: Float[np.ndarray, "evaluation"]
    losses: Float[np.ndarray, "arm seed evaluation loss"]
    kept: Float[np.ndarray, "snapshot"]
    unselectable: Float[np.ndarray, "arm seed snapshot layer place window"]
    record: Mapping[str, Any]

    def joined(self, known: LongRuns) -> LongRuns:
        """These runs, and those of `known` that are not among them.

        Long runs are joined with long ones; of short ones only the sweep is kept beside them.
        Raises `ResultError` where the runs cannot be compared.
        """
        for name in ("corpus", "text_sha256", "windows", "plan"):
            if _but_steps(self.record[name]) != _but_steps(known.record[name]):
                raise ResultError(
                    f"the frozen runs have another {name} than these; freeze into another folder."
                )
        sweep = np.where(np.isfinite(self.sweep), self.sweep, known.sweep)
        if known.are_long != self.are_long:
            long = self if self.are_long else known
            return replace(long, sweep=sweep)
        if known.record["plan"] != self.record["plan"]:
            raise ResultError("the frozen runs have other steps; freeze into another folder.")
        return replace(
            self,
            sweep=sweep,
            losses=np.where(np.isnan(self.losses), known.losses, self.losses),
            unselectable=np.where(
                np.isnan(self.unselectable), known.unselectable, self.unselectable
            ),
            record={**self.record, "runs": {**known.record["runs"], **self.record["runs"]}},
        )

    def arm(self, name: str) -> int:
        """The place of an arm."""
        return list(ARMS).index(name)

    @property
    def are_long(self) -> bool:
        """Whether losses and keys are those of long runs."""
        return set(self.record["runs"]) <= {long_name(a, s) for a in ARMS for s in SEEDS}

    def rates_tried(self) -> int:
        """At how many rates each arm was trained, at least."""
        return int(np.isfinite(self.sweep[..., 1]).sum(axis=1).min())

    def ends(self, name: str) -> Float[np.ndarray, "seed loss"]:
        """The last losses of an arm's long runs: in training over the last twentieth, held out."""
        late = self.tokens > (1 - _END) * self.tokens[-1]
        losses = self.losses[self.arm(name)]
        return np.stack([losses[:, late, 0].mean(axis=1), losses[:, -1, 1]], axis=1)

    def pairs(self, one: str, other: str, loss: str) -> Float[np.ndarray, "pair 2"]:
        """The last losses of two arms, of the seeds with which both were trained."""
        which = LOSSES.index(loss)
        both = np.stack([self.ends(one)[:, which], self.ends(other)[:, which]], axis=1)
        return both[np.isfinite(both).all(axis=1)]

    def shares(self, name: str, place: int | slice) -> Float[np.ndarray, "seed snapshot layer"]:
        """Unselectable keys of an arm, over windows (and heads, for a slice), where trained."""
        of_arm = self.unselectable[self.arm(name)][..., place, :]
        return of_arm.reshape(*of_arm.shape[:3], -1).mean(axis=-1)


def mean_and_interval(
    differences: Float[np.ndarray, "n"], level: float = 0.95
) -> tuple[float, float, float]:
    """The mean of some differences and its interval by Student's t; without bounds for n < 2."""
    n, mean = len(differences), float(np.mean(differences))
    if n < 2:
        return mean, -math.inf, math.inf
    half = float(student.ppf((1 + level) / 2, n - 1) * np.std(differences, ddof=1) / n**0.5)
    return mean, mean - half, mean + half


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
    finished. What `out` holds already and the folder lacks is kept. source: the text whose windows
    are decided. Raises `ResultError` where an arm's short runs are not finished either, and where
    `out` holds runs of other texts or of another plan.
    """
    folder, texts = Path(folder), text_windows(source, tokenizer, windows)
    known = LongRuns.read(out) if (Path(out) / f"{LongRuns.NAME}.json").is_file() else None
    sweep = _sweep(folder)
    names = {(arm, seed): long_name(arm, seed) for arm in ARMS for seed in SEEDS}
    done = {key: name for key, name in names.items() if _finished(folder / name)}
    if not done:
        if not np.isfinite(sweep).all():
            raise ResultError(
                f"{folder} lacks finished runs; `lnattn selectable long` makes them, or goes on."
            )
        best = np.array(RATES)[sweep[..., 1].argmin(axis=1)]
        done = {
            (arm, SEEDS[0]): sweep_name(arm, rate) for arm, rate in zip(ARMS, best, strict=True)
        }
    records = {key: read_json(folder / name / "training.json") for key, name in done.items()}
    one = next(iter(records.values()))
    losses = np.full((len(ARMS), len(SEEDS), len(one["log"]), 2), np.nan)
    shares: dict[tuple[str, int], list[np.ndarray]] = {}
    steps: list[int] = []
    for key, name in progress_bar(done.items(), "long runs", disable=not progress):
        losses[_place(*key)] = _losses(records[key]["log"])
        steps = []
        shares[key] = []
        for step, model in snapshots_of(folder / name, load_arm(folder / name, tokenizer)[1]):
            steps.append(step)
            shares[key].append(evaluate(model, texts).exact)
    found = np.full((*losses.shape[:2], *np.shape(shares[next(iter(done))])), np.nan)
    for key, of_run in shares.items():
        found[_place(*key)] = of_run
    plan = TrainingPlan(**one["plan"])
    per_step = plan.batch * plan.context / 1e6
    record = provenance(
        function="lnattn.studies.selectability.long_runs.freeze_long",
        arms=list(ARMS),
        seeds=list(SEEDS),
        plan={k: v for k, v in asdict(plan).items() if k not in ("learning_rate", "seed")},
        runs={
            name: {
                "learning_rate": records[key]["plan"]["learning_rate"],
                "tokens_seen": records[key]["tokens_seen"],
                "weights_sha256": records[key]["weights_sha256"],
                "date": records[key]["date"],
            }
            for key, name in done.items()
        },
        corpus=one["corpus"],
        text=Path(source).name,
        text_sha256=sha256_of_file(source),
        windows=windows,
    )
    result = LongRuns(
        rates=np.array(RATES),
        sweep=sweep,
        tokens=np.array([entry["step"] for entry in one["log"]]) * per_step,
        losses=losses,
        kept=np.array(steps) * per_step,
        unselectable=found,
        record=record,
    )
    return (result.joined(known) if known else result).write(out)


def _but_steps(of_record: Any) -> Any:
    """A part of a record; of a plan, what short and long runs share."""
    return {**of_record, "steps": None} if isinstance(of_record, dict) else of_record


def _finished(run: Path) -> bool:
    return (run / "training.json").is_file()


def _place(arm: str, seed: int) -> tuple[int, int]:
    return list(ARMS).index(arm), SEEDS.index(seed)


def _losses(log: Sequence[Mapping[str, int | float]]) -> Float[np.ndarray, "evaluation loss"]:
    return np.array([[entry[name] for name in LOSSES] for entry in log])


def _sweep(folder: Path) -> Float[np.ndarray, "arm rate loss"]:
    found = np.full((len(ARMS), len(RATES), 2), np.nan)
    for a, arm in enumerate(ARMS):
        for r, rate in enumerate(RATES):
            run = folder / sweep_name(arm, rate)
            if _finished(run):
                found[a, r] = _losses(read_json(run / "training.json")["log"])[-1]
    return found
