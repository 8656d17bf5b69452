"""Every file below data/results: who reads it, and the command that makes it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lnattn.composition import CompositionStudy
from lnattn.contribution.study import Contributions
from lnattn.errors import LnattnError, ResultError
from lnattn.freezing import STUDIES
from lnattn.position.without_tokens import PositionOnly
from lnattn.selectability import first_layers
from lnattn.storage import read_json, read_result, write_json
from lnattn_book.claims import survey
from lnattn_book.claims.frozen import frozen_records
from lnattn_book.claims.nulls import read_nulls
from lnattn_book.frozen.making import PROGRAM
from lnattn_book.studies import benchmark_report, language_models
from lnattn_book.studies import unselectable_words as words
from lnattn_book.studies.ablation.losses import Ablations
from lnattn_book.studies.by_place import ByPlace
from lnattn_book.studies.detokenization import AffinityResult
from lnattn_book.studies.distance_terms import RotaryStudy
from lnattn_book.studies.joining_runs import Joining
from lnattn_book.studies.keys_by_layer import LayerVerdicts
from lnattn_book.studies.language_models import LongRuns
from lnattn_book.studies.layers_above import LayersAbove
from lnattn_book.studies.majority.long_runs import Experiment
from lnattn_book.studies.small_models import read_looks
from lnattn_book.studies.switch import ConstantsStudy, SwitchStudy
from lnattn_book.studies.unselectable_words import Sentiment


@dataclass(frozen=True)
class Kind:
    """Some of the frozen results.

    files: their records, a pattern below data/results; read: reads one by its folder and name, and
    raises `ResultError` where it is damaged or another one; command: what makes it again, where
    {folder} and {name} stand for those of the record, {run} for its name without what kind it is,
    {counts} for its files of counts, and words in capitals for files that its record tells more of.
    """

    files: str
    read: Callable[[Path, str], object]
    command: str


def _of_model(name: str, read: Callable[[Path, str], object]) -> Kind:
    program = STUDIES[name].program
    return Kind(f"*/{name}.json", read, f"{program} freeze {{folder}} --only {name}")


def _selectable(files: str, read: Callable[[Path, str], object], task: str) -> Kind:
    module = "" if task.startswith("sentiment") else "unselectable_lm "
    command = f"python -m experiments.{module}{task} --out data/results/selectability"
    return Kind(f"selectability/{files}.json", read, command)


def _looks(name: str, runs: str) -> Kind:
    command = f"python -m experiments.book_model look {runs} --out data/results/{{folder}}"
    return Kind(f"*/{name}.json", read_looks, command)


KINDS = (
    # Folders of their own go first: a benchmark may be called as a study.
    Kind(
        "benchmarks/*.json",
        lambda folder, name: benchmark_report.read(folder / f"{name}.json"),
        "make benchmark",
    ),
    *(
        Kind(
            f"nulls/{name}.json",
            lambda folder, name: read_nulls(folder / f"{name}.json"),
            "python -m experiments.unselectable_lm untrained --text SQUAD",
        )
        for name in ("b8", "b9")  # the untrained twins of models that an experiment made
    ),
    *(
        Kind(
            f"nulls/{name}.json",
            lambda folder, name: read_nulls(folder / f"{name}.json"),
            "python -m experiments.layers_above MODELS",
        )
        for name in ("s13", "s14")
    ),
    Kind(
        "nulls/waves.json",
        lambda folder, name: read_nulls(folder / f"{name}.json"),
        "python -m experiments.waves MODELS",
    ),
    *(
        Kind(
            f"layers-above/{runs}.json",
            LayersAbove.read,
            "python -m experiments.layers_above --set NAME --run RUNS/{name}",
        )
        for runs in ("causal-?", "rotary-?", "seed-?")
    ),
    Kind("layers-above/*.json", LayersAbove.read, "python -m experiments.layers_above {name}"),
    Kind(
        "nulls/*.json",
        lambda folder, name: read_nulls(folder / f"{name}.json"),
        "python -m lnattn_book.frozen.null_draws book-gpt2 minilm whisper-tiny.en GPT2_FOLDER",
    ),
    Kind("claims/*.json", lambda folder, _: frozen_records(folder), "make freeze-claims"),
    *(
        Kind(
            f"switch/*/{study.NAME}.json",
            study.read,
            "python -m experiments.switch RUNS/{folder} --out data/results/switch",
        )
        for study in (SwitchStudy, ConstantsStudy)
    ),
    _of_model("position", PositionOnly.read),
    Kind(
        f"*/{ByPlace.NAME}.json",
        ByPlace.read,
        "python -m experiments.place_alone FOLDER --out data/results/{folder}",
    ),
    _of_model("composition", CompositionStudy.read),
    _of_model("detokenization", AffinityResult.read),
    _of_model("contribution", Contributions.read),
    _of_model("ablation", Ablations.read),
    _of_model(LayerVerdicts.NAME, LayerVerdicts.read),
    _of_model("survey", survey.read_survey),
    _of_model("survey-null", survey.read_survey),
    Kind(
        "*/rotary.json",
        RotaryStudy.read,
        f"{PROGRAM} freeze MODEL --as {{folder}} --only rotary{{counts}}",
    ),
    *(
        Kind(
            f"*/{study.NAME}.json",
            study.read,
            f"{PROGRAM} freeze MODEL --as {{folder}} --only {study.NAME}",
        )
        for study in (SwitchStudy, ConstantsStudy)
    ),
    _looks("over-training", "RUN"),
    _looks("small-models", "RUN RUNS"),
    *(
        Kind(
            f"{place}/{name}.json",
            lambda folder, _: Joining.read(folder),
            "python -m experiments.joining RUNS --work WORK --out data/results/{folder}",
        )
        for place in ("joining*", "early-and-late*")
        for name in ("looks", "lost")
    ),
    Kind(
        "twins*/twins.json",
        read_result,
        "python -m experiments.twins RUNS --out data/results/{folder}",
    ),
    _of_model(first_layers.POSITIONS, first_layers.HeadShares.read),
    _of_model(first_layers.TEXT, first_layers.HeadShares.read),
    _selectable("lm-*", language_models.read_arm, "evaluate RUNS/{run} --text SQUAD"),
    _selectable("long-runs", LongRuns.read, "freeze-long RUNS --text SQUAD --windows 8"),
    _selectable(
        "table-1",
        language_models.read_table_1,
        "table-1 RUNS --text SQUAD --windows 100",
    ),
    _selectable("lengths", read_result, "lengths GPT2_FILES --text SQUAD"),
    _selectable(
        "words",
        lambda folder, _: words.frozen_words(folder),
        "words RUN --text SST2",
    ),
    _selectable("sentiment", Sentiment.read, "sentiment SST2_TRAIN SST2"),
    *(
        Kind(
            f"*/{name}.json",
            read_result,
            f"python -m experiments.nobody_reads_one {task} --to data/results/{{folder}}",
        )
        for name, task in {
            "writing": "real MODEL",
            "sigma": "sigma MODEL",
            "frequencies": "frequencies MODEL",
            "nobody-reads-one": "freeze RUNS",
        }.items()
    ),
    Kind(
        "selectability/law.json",
        read_result,
        "python -m experiments.selectability_law --squad SQUAD --gpt2 GPT2 --parts PARTS "
        "--out data/results/selectability",
    ),
    Kind(
        "majority/*.json",
        Experiment.read,
        "python -m experiments.majority --only {name} --out data/results/majority",
    ),
)


def kind_of(path: Path) -> Kind:
    """The kind that a record belongs to, by its folder and name; `ResultError` where to none."""
    for kind in KINDS:
        if path.match(kind.files):
            return kind
    raise ResultError(f"{path} belongs to no study that this book freezes; delete it.")


def command_of(path: Path) -> str:
    """The command that makes a frozen result again."""
    named = {"folder": path.parent.name, "name": path.stem, "run": path.stem.removeprefix("lm-")}
    with_files = path.match("*/rotary.json") and "counts_sha256" in read_json(path)
    counts = " --counts COUNTS COUNTS_2 COUNTS_3" if with_files else ""
    asked = read_json(path).get("queries") if path.match("*/survey.json") else None
    limit = f"LNATTN_QUERIES={asked} " if asked else ""
    return limit + kind_of(path).command.format(**named, counts=counts)


def name_command(path: Path) -> Path:
    """Write into a record the command that makes it again, where it is one of the book's."""
    if any(path.match(kind.files) for kind in KINDS):
        write_json(path, {**read_json(path), "command": command_of(path)})
    return path


def read_all(results: Path) -> Iterator[tuple[Path, str]]:
    """Read every file below data/results; yields each record and what is wrong with it, or ''."""
    for path in sorted(p for p in results.rglob("*") if p.is_file()):
        record = path.with_suffix(".json")
        if path.suffix == ".npz" and record.is_file():
            continue
        try:
            kind_of(record).read(path.parent, path.stem)
        except LnattnError as error:
            yield path, str(error)
        else:
            wrong = read_json(path).get("command") != command_of(path)
            yield path, "its record names another command than makes it again" if wrong else ""
