"""Taking a finished training run into the book: `python -m experiments.book_model embed RUN`.

What the book needs of a run goes to data/NAME, where NAME is that of its record (book-gpt2 or
book-llama): weights, configuration, tokenizer, record, card, and the counts of the training text
unless another embedded model has the same ones. The state of the training stays where it is.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from safetensors.torch import load_file

from experiments.book_model.book_model import model_card
from lnattn.errors import CheckpointError
from lnattn.models.checkpoints import BOOK_MODELS, load_first_layer
from lnattn.paths import data_folder
from lnattn.storage import read_json, sha256_of_file, write_atomically
from lnattn.text.counts import Counts

#: Bytes that an embedded model's weights may have.
LARGEST = 16_000_000
_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "training.json")


def embed(run: Path | str) -> Path:
    """Copy a finished run of `train` to the data folder; return its new folder.

    Raises `CheckpointError`, before anything is written, for a run that is not finished, whose
    weights are not those of its record, not in half precision or over 16 MB, or whose text has no
    licence on record.
    """
    run = Path(run)
    weights = run / "model.safetensors"
    path = run / "training.json"
    if not (weights.is_file() and path.is_file()):
        raise CheckpointError(f"{run} holds no finished run; wait for its training.json.")
    record = read_json(path)
    _check(record, weights)
    folder = data_folder() / record["name"]
    counts = Counts.load(run / "counts.npz")
    twin = _with_the_same(counts, record["name"])
    card = model_card(record, counts_of=twin)
    copied = [*_FILES, *(() if twin else ("counts.npz", "counts.json"))]
    for name in ("model.safetensors", *copied):
        with (run / name).open("rb") as source:
            write_atomically(folder / name, partial(shutil.copyfileobj, source))
    write_atomically(folder / "README.md", lambda file: file.write(card.encode()))
    load_first_layer(record["name"])
    return folder


def _check(record: dict, weights: Path) -> None:
    name = record["name"]
    wrong = None
    if name not in BOOK_MODELS:
        wrong = f"is called {name!r}, which is none of {', '.join(BOOK_MODELS)}"
    elif sha256_of_file(weights) != record["weights_sha256"]:
        wrong = "has other weights than its training.json describes"
    elif weights.stat().st_size > LARGEST:
        wrong = f"has {weights.stat().st_size:,} bytes of weights, over {LARGEST:,}"
    elif {str(tensor.dtype) for tensor in load_file(weights).values()} != {"torch.float16"}:
        wrong = "has weights that are not in half precision"
    elif not record.get("licence_of_text"):
        wrong = "does not say under which licence its text is (--licence)"
    if wrong:
        raise CheckpointError(f"the run at {weights.parent} {wrong}; it cannot be embedded.")


def _with_the_same(counts: Counts, name: str) -> str | None:
    """The other embedded model whose counts these are, if there is one."""
    for other in BOOK_MODELS:
        path = data_folder() / other / "counts.npz"
        if other != name and path.is_file() and Counts.load(path).sha256 == counts.sha256:
            return other
    return None
