"""Count the tokens and neighbouring pairs of a corpus, exactly, in one pass on all cores.

Memory grows with the distinct pairs, not with the length of the corpus. But each document is
tokenised whole, which takes some 130 bytes for each of its characters; more than ten million are
warned of. An interrupted count (also by kill -9) goes on where it stopped when the same command is
given again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from lnattn.cli import positive, print_json

EXAMPLES = """examples:
  lnattn count *.jsonl --tokenizer book-gpt2 --out counts.npz
  lnattn count Skylion007/openwebtext --split train --tokenizer gpt2 --out openwebtext.npz
  lnattn count corpus.parquet --tokenizer path/to/tokenizer.json --out counts.npz --workers 8
  lnattn count *.jsonl --tokenizer book-gpt2 --skip 3 --out third.npz
  lnattn count notes.txt --tokenizer minilm --out notes.npz --json

A data set of the hub is named as 'owner/name' and streamed, each process reading a file of it; with
--cached all of it is fetched first. Files: .jsonl, .ndjson, .json, .csv, .tsv, .parquet (each with
a field 'text', or --field) and .txt (one document), also with .gz, .zst, .bz2 or .xz, and patterns
of them; they are prepared as tables beside --out, as large as their text, until the count is done,
or with --stream read as they are.

The counts go to a .npz, their record to the .json beside it. Pairs never span two documents. Where
a special token stands in a text, that is cut. With --boundary end, the end-of-text token follows
every document; with --boundary both it also precedes it, as in the stream that GPT-2 is trained on.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("text", nargs="+", help="files of documents, or the name of one data set of the hub")
    add("--config", metavar="NAME", help="which configuration of a data set")
    add("--split", default="train", metavar="NAME", help="which split of it (default: train)")
    add("--revision", metavar="NAME", help="which commit, branch or tag of it (default: main)")
    add("--field", default="text", metavar="NAME", help="where the text is (default: text)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--stream", action="store_true", default=None, help="copy nothing to the disk")
    how.add_argument(
        "--cached", action="store_false", dest="stream", help="prepare all of it first"
    )
    words = "a tokenizer.json, a folder with one, or the name of a model"
    add("--tokenizer", required=True, metavar="NAME", help=words)
    add("--out", required=True, metavar="FILE", help="the .npz to write")
    ends = "where the end-of-text token is counted at a document's ends (default: none)"
    add("--boundary", choices=["none", "end", "both"], default="none", help=ends)
    apart = "count pairs of tokens that stand N apart (default: 1, neighbours)"
    add("--skip", type=positive, default=1, metavar="N", help=apart)
    add("--workers", type=positive, metavar="N", help="processes (default: cores)")
    add("--restart", action="store_true", help="discard an interrupted count")
    add("--quiet", action="store_true", help="no progress bar")
    add("--json", action="store_true", help="print the full record as JSON")


def run(args: argparse.Namespace) -> None:
    from lnattn.storage import check_outputs
    from lnattn.text.corpora import Corpus
    from lnattn.text.counting import count_corpus

    out = Path(args.out)
    named = Path(args.tokenizer)
    words: list[Path] = []
    if named.is_file():
        words = [named]
    elif named.is_dir():
        words = list(named.glob("*.json"))
    check_outputs([out, out.with_suffix(".json")], [*args.text, *words])
    tokenizer = _find_tokenizer(args.tokenizer)
    # No folder of this machine belongs in a record.
    name = named.name if named.exists() else args.tokenizer
    boundary = _boundary(args.boundary, tokenizer)
    options = {"skip": args.skip, "workers": args.workers, "restart": args.restart}
    options |= {"name": name, "progress": not args.quiet}
    corpus = Corpus(
        tuple(args.text),
        config=args.config,
        split=args.split,
        revision=args.revision,
        field=args.field,
        stream=args.stream,
    )
    record = count_corpus(corpus, tokenizer, out, boundary=boundary, **options)
    if args.json:
        print_json(record)
        return
    print(
        f"{args.out}: {record['documents']:,} documents, {record['tokens']:,} tokens, "
        f"{record['pairs']:,} pairs, {record['distinct_pairs']:,} of them distinct"
    )


def _find_tokenizer(name: str) -> Any:
    """The tokenizer of a file, a folder or a model; a line says where its class disagrees."""
    from lnattn.models.checkpoints import open_checkpoint
    from lnattn.models.files import read_tokenizer
    from lnattn.models.tokenizer_files import disagreement, load_tokenizer
    from lnattn.progress import say

    path = Path(name)
    if path.is_file():
        return load_tokenizer(path)
    if path.is_dir():
        folder = path
        tokenizer = load_tokenizer(path)
    else:
        checkpoint = open_checkpoint(name)
        folder = checkpoint.folder
        tokenizer = read_tokenizer(folder, checkpoint.family.config.get("vocab_size"))
    if difference := disagreement(folder):
        say(difference)
    return tokenizer


def _boundary(kind: str, tokenizer: Any) -> Any:
    from lnattn.errors import CorpusError
    from lnattn.text.counts import Boundary

    if kind == "none":
        return Boundary()
    end = tokenizer.eos_token_id
    if end is None:  # a tokenizer.json by itself names none
        end = tokenizer.get_vocab().get("<|endoftext|>")
    if end is None:
        raise CorpusError(f"this tokenizer has no end-of-text token for --boundary {kind}.")
    return Boundary(end=end, start=end if kind == "both" else None)
