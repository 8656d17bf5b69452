"""Train a small GPT-2 or Llama from nothing: byte-level BPE, bfloat16 where the processor gains
from it, early stopping on held-out text. An interrupted run goes on where it stopped when the same
command is given again.
"""

from __future__ import annotations

import argparse
import json

EXAMPLES = """examples:
  lnattn train-book-model --out my-model
      WikiText-103 from the Hugging Face hub, its validation split held out
  lnattn train-book-model *.jsonl --held-out valid.txt --out my-model --steps 2000 --compiled
  lnattn train-book-model wikitext-103 --held-out wikitext-103-validation --out big \\
      --layers 4 --context 512 --device cuda --json

Files: .jsonl (one object with a 'text' field a line), .parquet (a 'text' column), .txt.
"""

#: The fields of `TrainingPlan`, as options: type and meaning. A test keeps the two equal.
PLAN = {
    "layers": (int, "transformer blocks"),
    "d_model": (int, "width of the residual stream"),
    "heads": (int, "attention heads a block"),
    "context": (int, "tokens a window, and learned positions"),
    "vocab_size": (int, "tokens of the byte-level BPE, at least 257"),
    "steps": (int, "optimiser steps at most"),
    "batch": (int, "windows a step"),
    "learning_rate": (float, "highest learning rate"),
    "warmup": (int, "steps of linear warm-up"),
    "weight_decay": (float, "decay of the weight matrices"),
    "dropout": (float, "dropout everywhere GPT-2 has it"),
    "evaluate_every": (int, "steps between held-out evaluations and checkpoints"),
    "patience": (int, "evaluations without progress before it stops"),
    "seed": (int, "random seed"),
    "schedule": (str, "of the learning rate: cosine, or trapezoid, whose length can change"),
    "precision": (str, "of the matrix products: float32 or bfloat16 (default: the faster here)"),
    "architecture": (str, "gpt2, or llama with as many parameters"),
    "attention": (str, "causal, or diagonal: a twin whose tokens see themselves alone"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "text",
        nargs="*",
        default=["wikitext-103"],
        help="files, or wikitext-103 or openwebtext for the hub's (default: wikitext-103)",
    )
    parser.add_argument(
        "--held-out",
        nargs="+",
        default=["wikitext-103-validation"],
        metavar="TEXT",
        help="text that is evaluated on and never trained on (default: WikiText's validation)",
    )
    parser.add_argument("--out", required=True, metavar="FOLDER", help="the model's folder")
    parser.add_argument(
        "--licence", metavar="TEXT", help="source and licence of the text, for the model's card"
    )
    parser.add_argument(
        "--twin",
        metavar="FOLDER",
        help="a run with --attention diagonal, whose loss is recorded beside this one's",
    )
    parser.add_argument("--device", help="cpu, cuda, … (default: a GPU if there is one)")
    parser.add_argument(
        "--compiled", action="store_true", help="torch.compile the step (needs a C++ compiler)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.add_argument("--json", action="store_true", help="print the full record as JSON")
    plan = parser.add_argument_group("plan (defaults: lnattn.training.plan.TrainingPlan)")
    for name, (kind, meaning) in PLAN.items():
        plan.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar="N", help=meaning)


def run(args: argparse.Namespace) -> None:
    from lnattn.training.book_model import train_book_model
    from lnattn.training.forward import fastest_precision
    from lnattn.training.loop import default_device
    from lnattn.training.plan import TrainingPlan

    given = {name: getattr(args, name) for name in PLAN if getattr(args, name) is not None}
    device = args.device or default_device()
    given.setdefault("precision", fastest_precision(device))
    record = train_book_model(
        args.text,
        args.held_out,
        args.out,
        TrainingPlan(**given),
        licence=args.licence,
        twin=args.twin,
        device=device,
        compiled=args.compiled,
        progress=not args.quiet,
    )
    if args.json:
        print(json.dumps(record, indent=2, ensure_ascii=False))
        return
    baselines = record["baselines"]
    print(
        f"{args.out}: {record['tokens']['train']:,} tokens, held-out loss "
        f"{record['held_out_loss']:.3f} nats a token (unigram {baselines['unigram']:.3f}, "
        f"Kneser–Ney bigram {baselines['bigram_kneser_ney']:.3f})"
    )
