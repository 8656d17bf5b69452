"""How far a verdict on an embedded model depends on chance: the same claims on shorter trainings.

A model is trained once. Whether a verdict on it is due to its first weights and the order of its
text, other trainings from other seeds can say: as many of them as give the same verdict. They are
shorter than the model's own, so a difference may also be due to their length; where all of them
agree with one another, it is likely to be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lnattn.claims.verdicts import Verdict
from lnattn.errors import ResultError
from lnattn.paths import data_folder
from lnattn.storage import provenance, read_json, write_json

FILE = "seeds.json"


@dataclass(frozen=True)
class Judged:
    """One training: its seed and length, its loss in nats a token, and its verdicts by claim."""

    seed: int
    steps: int
    tokens: int
    held_out_loss: float
    weights_sha256: str
    verdicts: Mapping[str, Verdict]


@dataclass(frozen=True)
class Seeds:
    """A model and shorter trainings of its plan with several seeds, judged by the same rules."""

    itself: Judged
    runs: Sequence[Judged]

    @property
    def claims(self) -> list[str]:
        """The claims that were judged, in order."""
        return list(self.itself.verdicts)

    def same(self, found: Verdict) -> int:
        """In how many of the shorter runs a claim got this verdict.

        Raises `ResultError` where they were judged by another rule.
        """
        kept = [run.verdicts[found.claim] for run in self.runs]
        if any(one.rule != found.rule for one in kept):
            raise ResultError(
                f"the shorter runs were judged by another rule of {found.claim}; judge them again "
                "with `lnattn seeds`."
            )
        return sum(one.verdict == found.verdict for one in kept)

    def in_words(self, found: Verdict) -> str:
        """'the same in 2 of 3 shorter runs (1 fails)'; '' for a claim that was not judged."""
        if found.claim not in self.itself.verdicts:
            return ""
        words = f"the same in {self.same(found)} of {len(self.runs)} shorter runs"
        others = Counter(run.verdicts[found.claim].verdict for run in self.runs)
        del others[found.verdict]
        listed = ", ".join(f"{verdict}: {count}" for verdict, count in others.items())
        return f"{words} ({listed})" if listed else words

    def alike(self) -> list[str]:
        """Claims with one verdict in the model and in all shorter runs."""
        return [c for c in self.claims if self.same(self.itself.verdicts[c]) == len(self.runs)]

    def by_length(self) -> list[str]:
        """Claims on which the shorter runs agree with one another, and not with the model."""
        return [
            c
            for c in self.claims
            if len({run.verdicts[c].verdict for run in self.runs}) == 1 and c not in self.alike()
        ]

    def by_chance(self) -> list[str]:
        """Claims on which the shorter runs differ among themselves."""
        return [c for c in self.claims if c not in [*self.alike(), *self.by_length()]]


def write_seeds(folder: Path | str, found: Seeds, **facts: Any) -> Path:
    """Freeze as folder/seeds.json; rules and the name of the model stand in it once."""
    itself = found.itself.verdicts
    rules = {claim: one.rule for claim, one in itself.items()}
    for run in found.runs:
        if {claim: one.rule for claim, one in run.verdicts.items()} != rules:
            raise ResultError("all trainings must be judged on the same claims by the same rules.")
    record = provenance(
        study="claims on shorter trainings with other seeds",
        rules=rules,
        itself=_as_data(found.itself),
        runs=[_as_data(run) for run in found.runs],
        **facts,
    )
    return write_json(Path(folder) / FILE, record)


def _as_data(one: Judged) -> dict[str, Any]:
    kept = ("model", "verdict", "words", "values", "short")
    verdicts = {
        claim: {name: value for name, value in asdict(found).items() if name in kept}
        for claim, found in one.verdicts.items()
    }
    return {**vars(one), "verdicts": verdicts}


def read_seeds(folder: Path | str) -> Seeds:
    """What `write_seeds` wrote; `ResultError` where it is missing, damaged or something else."""
    path = Path(folder) / FILE
    record = read_json(path)
    try:
        rules = record["rules"]
        judged = [
            Judged(**{**run, "verdicts": _verdicts(run["verdicts"], rules)})
            for run in (record["itself"], *record["runs"])
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise ResultError(f"{path} holds no verdicts on seeds ({error}); make it again.") from error
    return Seeds(judged[0], tuple(judged[1:]))


def _verdicts(found: Mapping[str, Any], rules: Mapping[str, str]) -> dict[str, Verdict]:
    return {claim: Verdict(claim, rule=rule, **found[claim]) for claim, rule in rules.items()}


def of_model(model: str) -> Seeds | None:
    """The frozen verdicts of the shorter runs of a model, or None where there are none."""
    folder = data_folder() / "results" / model
    return read_seeds(folder) if (folder / FILE).is_file() else None


def beside(found: Verdict) -> str:
    """What the shorter runs of a verdict's model say of it, in words; '' where there are none."""
    seeds = of_model(found.model)
    return seeds.in_words(found) if seeds else ""
