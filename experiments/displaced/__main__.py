"""Do positions displace pairs? Three arms of book-gpt2's plan that differ in one thing each.

Trains what is missing (resumable: the same command goes on), asks every snapshot, keeps the ends,
and prints what the rules of README.md say.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from experiments.book_model.book_model import tokens_of
from experiments.book_model.keep import keep_end
from experiments.book_model.loop import default_device, train
from experiments.book_model.plan import TrainingPlan
from experiments.command import main, new_parser
from experiments.displaced.rules import RULES
from experiments.joining import __main__ as joining
from lnattn.errors import CorpusError
from lnattn.paths import data_folder
from lnattn.storage import read_json
from lnattn.text.corpora import describe_corpus
from lnattn.text.tokenizers import load_tokenizer
from lnattn_book.chapters.pairs_first import Snapshots

#: Whose plan, tokenizer and text these are.
MODEL = "book-gpt2"
#: What each arm changes of the plan.
ARMS = {
    "control": {},
    "frozen": {"positions": "frozen"},
    "untied": {"unembedding": "own"},
}
#: So far all are trained: 33.6 million tokens.
STEPS = 4096


def plan_of(arm: str, seed: int) -> TrainingPlan:
    """book-gpt2's plan with what the arm changes."""
    plan = TrainingPlan(**read_json(data_folder() / MODEL / "training.json")["plan"])
    return replace(plan, seed=seed, **ARMS[arm])


def check_text(corpus: dict[str, list[dict]]) -> None:
    """Refuse other texts than those that book-gpt2 was trained and evaluated on."""
    texts = read_json(data_folder() / MODEL / "training.json")["corpus"]
    for role, files in corpus.items():
        given = [file["sha256"] for file in files]
        if given != [file["sha256"] for file in texts[role]]:
            names = " ".join(file["file"] for file in texts[role])
            raise CorpusError(
                f"the text ({role}) is not that of {MODEL}, which is {names} with the checksums of "
                "its training.json; give these files in this order, or --other-text."
            )


def run(args: argparse.Namespace) -> None:
    corpus = {"train": describe_corpus(args.text), "held_out": describe_corpus(args.held_out)}
    if not args.other_text:
        check_text(corpus)
    runs = Path(args.runs)
    tokenizer = load_tokenizer(data_folder() / MODEL)
    text = tokens_of(runs / "text" / "train_tokens.npy", args.text, tokenizer)
    held_out = tokens_of(runs / "text" / "held_out_tokens.npy", args.held_out, tokenizer)
    answered: dict[str, Snapshots] = {}
    for arm in args.arms:
        folders = [runs / f"{arm}-{seed}" for seed in range(args.seeds)]
        for seed, folder in enumerate(folders):
            _train(folder, plan_of(arm, seed), text, held_out, args)
            keep_end(folder, Path(args.keep) / folder.name, corpus=corpus)
        answered[arm] = _asked(arm, folders, args)
    for arm, rule in RULES.items():
        if args.steps == STEPS and {"control", arm} <= set(answered):
            print(rule(answered).sentence)


def _train(
    folder: Path,
    plan: TrainingPlan,
    text: np.ndarray,
    held_out: np.ndarray,
    args: argparse.Namespace,
) -> None:
    tokenizer = load_tokenizer(data_folder() / MODEL)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(str(folder))
    end = tokenizer.eos_token_id
    device = args.device or default_device()
    train(text, held_out, plan, folder, end, device=device, until=args.steps)


def _asked(arm: str, folders: list[Path], args: argparse.Namespace) -> Snapshots:
    """What every snapshot of an arm's trainings finds and loses, frozen below --out."""
    out = Path(args.out) / f"displaced-{arm}"
    work = Path(args.runs) / "work" / arm
    words = [*folders, "--every", "--work", work, "--out", out]
    joining.run(joining.parser().parse_args([*map(os.fspath, words)]))
    return Snapshots.read(out)


def parser() -> argparse.ArgumentParser:
    whole = new_parser("displaced", __doc__)
    whole.add_argument("text", nargs="+")
    whole.add_argument("--held-out", nargs="+", required=True, metavar="TEXT")
    whole.add_argument("--runs", required=True, metavar="FOLDER", help="for the state of trainings")
    whole.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds 0 to N − 1")
    whole.add_argument("--arms", nargs="+", choices=[*ARMS], default=[*ARMS], metavar="ARM")
    whole.add_argument("--steps", type=int, default=STEPS, metavar="N")
    whole.add_argument("--device", help="cpu, cuda, … (default: a GPU if there is one)")
    whole.add_argument("--other-text", action="store_true", help="allow other texts")
    results = data_folder() / "results"
    whole.add_argument("--out", default=results, metavar="FOLDER", help="for the answers")
    trainings = data_folder() / "trainings" / "displaced"
    whole.add_argument("--keep", default=trainings, metavar="FOLDER", help="for the ends")
    return whole


if __name__ == "__main__":
    sys.exit(main(parser(), run))
