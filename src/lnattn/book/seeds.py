"""Judging an embedded model, and shorter trainings of its plan, by every rule that weights decide.

A verdict is given to each that comes from the first layer's weights and counts of the text: K3 to
K16 and S1 to S3. What holds for any weights, what takes the whole model, and what is about the
course of a training is not asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from lnattn.book.freezing import evidence
from lnattn.book.trained_model import tokens_seen
from lnattn.claims import kamoda, subwords, survey
from lnattn.claims.evidence import Evidence
from lnattn.claims.seeds import FILE, Judged, Seeds, read_seeds, write_seeds
from lnattn.claims.verdicts import Verdict, listed_words, rule_of
from lnattn.errors import CheckpointError, ResultError
from lnattn.models.checkpoints import load_first_layer
from lnattn.paths import data_folder
from lnattn.relative import with_positions
from lnattn.storage import read_json, sha256_of_file
from lnattn.studies.affinity.query_classes import class_auroc
from lnattn.studies.affinity.study import specific_auroc
from lnattn.studies.affinity.subwords import continuation_pieces, subword_ranks, token_classes
from lnattn.text.counts import Counts
from lnattn.training.plan import TrainingPlan

#: What the plan of a shorter run may differ in.
_LENGTH = {"seed", "steps", "patience", "evaluate_every"}


def judge(seen: Evidence) -> dict[str, Verdict]:
    """The verdict on each claim that the weights of a first layer and counts decide."""
    study, counts, vectors = seen.study, seen.counts, seen.vectors
    assert study is not None
    assert counts is not None
    z = study.same_token.mean(axis=1)
    classes = token_classes(seen.model.tokenizer, vectors.vocab_size)
    pieces = continuation_pieces(counts, classes, subwords.piece_rule(classes))
    by_class = class_auroc(vectors, counts, classes)
    return {
        **survey.survey(seen),
        "K16": kamoda.k16(z, specific_auroc(study), model=seen.name),
        "S1": subwords.s1(subword_ranks(vectors, pieces), model=seen.name),
        "S2": subwords.s2(by_class, model=seen.name),
        "S3": subwords.s3(by_class, model=seen.name),
    }


def freeze_seeds(model: str, runs: Sequence[Path | str], folder: Path | str) -> Path:
    """Judge a model and the runs of `lnattn train-book-model` given, and write folder/seeds.json.

    Raises `CheckpointError` for a run that is not finished, of other text or tokens, or of another
    plan than the model's but for its seed and length, and for two of one seed.
    """
    own = data_folder() / model
    folders = [own, *map(Path, runs)]
    records = [_record(one) for one in folders]
    for run, record in zip(folders[1:], records[1:], strict=True):
        differing = _unlike(own, records[0], run, record)
        if differing:
            raise CheckpointError(
                f"{run} is no shorter run of {model}: {', '.join(differing)} differ."
            )
    seeds = [record["plan"]["seed"] for record in records[1:]]
    if len(seeds) < 2 or len(set(seeds)) != len(seeds):
        raise CheckpointError(f"give two runs or more, each of another seed, not of {seeds}.")
    judged = [_judged(one, record, model) for one, record in zip(folders, records, strict=True)]
    return write_seeds(folder, Seeds(judged[0], judged[1:]), model=model)


def check_seeds(folder: Path | str) -> Seeds:
    """Read what is frozen, and refuse it where a rule has changed since."""
    found = read_seeds(folder)
    kept = found.itself.verdicts.values()
    outdated = [one.claim for one in kept if one.rule != rule_of(one.claim)]
    if outdated:
        raise ResultError(
            f"{folder}/{FILE} was made by another rule of {outdated[0]}; judge the runs again."
        )
    return found


def table_of(found: Seeds | None, claims: Sequence[str], what: str = "verdict") -> pd.DataFrame:
    """One row a claim: the verdicts on the model and on each run, or their `words`."""
    columns = {} if found is None else {"the model": found.itself.verdicts}
    columns |= {f"seed {run.seed}": run.verdicts for run in (found.runs if found else ())}
    rows = {name: [getattr(of[c], what) for c in claims] for name, of in columns.items()}
    return pd.DataFrame(rows, index=pd.Index(claims, name="claim"))


def facts_of(found: Seeds | None) -> dict[str, Any]:
    """Numbers and phrases for the prose of chapter 00, as `page.glue_all` takes them."""
    if found is None:
        nothing = "no such trainings are frozen with this copy of the book"
        told = {"trained": nothing, "short": f"It is not known: {nothing}"}
        return told | dict.fromkeys(("alike", "length", "chance"), "–")
    groups = {"alike": found.alike(), "length": found.by_length(), "chance": found.by_chance()}
    losses = [run.held_out_loss for run in found.runs]
    tokens, n = max(run.tokens for run in found.runs), len(found.claims)
    seeds = listed_words(str(run.seed) for run in found.runs)
    return {
        **{
            name: f"{len(claims)} of {n} claims" + (f" ({listed_words(claims)})" if claims else "")
            for name, claims in groups.items()
        },
        "trained": (
            f"{len(found.runs)} of them, with seeds {seeds} (the model's own is "
            f"{found.itself.seed}), for {tokens / 1e6:.1f} million tokens each, "
            f"{tokens / found.itself.tokens:.0%} of the model's, ended at {min(losses):.2f} to "
            f"{max(losses):.2f} nats a token, where the model has {found.itself.held_out_loss:.2f}"
        ),
        "short": (
            f"Of {n} claims {len(groups['alike'])} have one verdict in the model and in "
            f"{len(found.runs)} shorter trainings; on {len(groups['chance'])} the shorter ones "
            "differ among themselves"
        ),
    }


def _record(folder: Path) -> dict[str, Any]:
    path = folder / "training.json"
    if not path.is_file():
        raise CheckpointError(
            f"{folder} holds no training.json; give finished runs of train-book-model."
        )
    return read_json(path)


def _unlike(own: Path, one: dict[str, Any], run: Path, other: dict[str, Any]) -> list[str]:
    plans = [vars(TrainingPlan(**record["plan"])) for record in (one, other)]
    names = [key for key in plans[0] if plans[0][key] != plans[1][key] and key not in _LENGTH]
    if one["corpus"] != other["corpus"]:
        names.append("the texts")
    if (own / "tokenizer.json").read_bytes() != (run / "tokenizer.json").read_bytes():
        names.append("the tokenizers")
    return names


def _judged(folder: Path, record: dict[str, Any], model: str) -> Judged:
    seed, sha256 = record["plan"]["seed"], sha256_of_file(folder / "model.safetensors")
    if sha256 != record["weights_sha256"]:
        raise CheckpointError(f"{folder}: the weights are not those that training.json names.")
    itself = folder == data_folder() / model
    first = with_positions(load_first_layer(model if itself else str(folder)))
    if itself:
        seen = evidence(first)
    else:
        counts = Counts.load(folder / "counts.npz")
        seen = evidence(first, counts=counts, name=f"{model}, seed {seed}, shorter")
    return Judged(
        seed=seed,
        steps=record["log"][-1]["step"],
        tokens=tokens_seen(record),
        held_out_loss=record["held_out_loss"],
        weights_sha256=sha256,
        verdicts=judge(seen),
    )
