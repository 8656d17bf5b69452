"""The end of a training run, kept in the repository, so that a reader can ask it anything."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from experiments.book_model.snapshots import snapshots
from lnattn.storage import provenance, write_atomically, write_json
from lnattn.text.vocabulary import vocabulary_sha256


def keep_end(run: Path | str, folder: Path | str, **facts: Any) -> Path:
    """Copy the last snapshot of a run, finished or not, as a checkpoint; returns its folder.

    Writes model.safetensors (half precision), config.json, tokenizer files and training.json: the
    plan, the step, the tokenizer's checksum, and `facts`, such as what the text was. Raises
    `CheckpointError` where the run has kept no weights.
    """
    folder = Path(folder)
    *_, end = snapshots(run)
    tokenizer = end.model.tokenizer
    folder.mkdir(parents=True, exist_ok=True)
    end.plan.new_model(tokenizer.eos_token_id).config.save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    with end.file.open("rb") as source:
        write_atomically(folder / "model.safetensors", partial(shutil.copyfileobj, source))
    record: Mapping[str, Any] = provenance(
        plan=asdict(end.plan),
        step=end.step,
        tokens=end.tokens,
        weights_sha256=end.model.provenance["weights_sha256"],
        vocabulary_sha256=vocabulary_sha256(tokenizer),
        **facts,
    )
    write_json(folder / "training.json", record)
    return folder
