"""The departures whose effect needs trained models: read from what chapters 10 and 11 froze.

Where those results are not at hand, a row says so instead of giving an effect.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lnattn.book.departures import Departure
from lnattn.storage import read_result

_ABSENT = "not measured here: data/results/{} does not hold it yet"
_NEVER = "no ratio (not reached)"
#: Test accuracies at which arms are compared: of chapter 10's verdict, and within the short runs.
_LEVEL, _EARLY = 0.85, 0.7


def trained_departures(results: Path) -> tuple[Departure, ...]:
    """The departures of Brody et al.'s training code with their effects, from `data/results`."""
    return (*_majority(results / "majority"), *_language_model(results / "selectability"))


def _majority(folder: Path) -> tuple[Departure, ...]:
    there = (folder / "main.json").is_file()
    schedule = all((folder / f"{name}.json").is_file() for name in ("sweep", "authors"))
    return (
        Departure(
            "Fig. 2a and 3 (B4)",
            "without projection, inputs of norm $\\sqrt d$",
            "of norm $1/\\sqrt d$",
            _effect_of_the_norm(folder) if there else _ABSENT.format("majority"),
        ),
        Departure(
            "Fig. 2 and 3 (B4, B5)",
            "1000 epochs, the rate falls to 0",
            "stops by test accuracy; the rate falls over 10,000 epochs; examples from one corner "
            "of all partitions",
            _effect_of_the_schedule(folder) if schedule else _ABSENT.format("majority"),
        ),
    )


def _effect_of_the_norm(folder: Path) -> str:
    from lnattn.studies.majority import results as majority

    main = majority.Experiment.read(folder, "main")
    code, text = (
        majority.slowdown(main, arm, "layernorm", accuracy=_LEVEL) for arm in ("authors", "rms")
    )
    return (
        f"epochs to {_LEVEL:.0%} without projection, over those with it: "
        f"{code or _NEVER} by the code, {text or _NEVER} at equal norm"
    )


def _effect_of_the_schedule(folder: Path) -> str:
    from lnattn.studies.majority import results as majority

    # The short runs with the rate and the scale of the paper, beside as short ones of the authors'.
    paper = {"learning_rate": 1e-3, "initial_scale": 1.0}
    sweep = majority.Experiment.read(folder, "sweep")
    ours = majority.Experiment(
        tuple(sweep.of(arm, **paper) for arm in ("authors", "layernorm")), {}
    )
    theirs = majority.Experiment.read(folder, "authors")
    text, code = (
        majority.slowdown(runs, "authors", "layernorm", accuracy=_EARLY) for runs in (ours, theirs)
    )
    words = [majority.words(found.value) if found else _NEVER for found in (text, code)]
    return (
        f"by the code's norms, epochs to {_EARLY:.0%} without projection over those with it: "
        f"{words[0]} by the text, {words[1]} by the code"
    )


def _language_model(folder: Path) -> tuple[Departure, ...]:
    found = _small_models(folder) if any(folder.glob("lm-*.json")) else None
    absent = _ABSENT.format("selectability")
    return (
        Departure(
            "Tables 1 and 2 (B8, B9)",
            "1000 samples of 768 to 1024 tokens",
            "contexts drawn until one has 768 tokens, 1000 times",
            _effect_of_the_samples(folder) if (folder / "lengths.json").is_file() else absent,
        ),
        Departure(
            "Table 1 (B8)",
            "keys that no query selects",
            "keys for which a bounded search finds no query",
            found[0] if found else absent,
        ),
        Departure(
            "Table 2 (B9)",
            "keys before and after LayerNorm",
            "both of the model that was trained with scaling",
            found[1] if found else absent,
        ),
    )


def _effect_of_the_samples(folder: Path) -> str:
    arrays, record = read_result(folder, "lengths")
    lengths, shortest = arrays["lengths"], record["shortest"]
    return f"long enough: {int((lengths >= shortest).sum())} of {len(lengths):,} contexts"


def _small_models(folder: Path) -> tuple[str, str]:
    """Exact shares beside those of the search, and shares before LayerNorm, by arm at d = 8."""
    from lnattn.studies.selectability.evaluation import BEFORE, KEYS, frozen_arms

    arms: dict[str, list] = {}
    for one in frozen_arms(folder):
        if one.d == 8:
            arms.setdefault(one.arm, []).append(one)
    counted, before = [], []
    for arm, runs in arms.items():
        # The search was run on the first few windows of some runs: compare on these.
        tried = [(one, one.arrays["search"].shape[-1]) for one in runs]
        tried = [(one, windows) for one, windows in tried if windows]
        if tried:
            exact = np.mean([one.arrays["exact"][:, KEYS, :n].mean() for one, n in tried])
            search = np.mean([one.searched(KEYS).mean() for one, _ in tried])
            counted.append(f"{arm}: {exact:.1%} exactly, {search:.1%} by the search")
        before.append(f"{arm}: {np.mean([one.share(BEFORE).mean() for one in runs]):.1%}")
    return (
        f"mean over layers of {'; '.join(counted) or 'no run: the search was not run'}",
        f"unselectable before LayerNorm, mean over layers: {'; '.join(before)}",
    )
