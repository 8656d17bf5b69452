"""Count the tokens and neighbouring pairs of a corpus, exactly, in one pass on all cores.

Memory grows with the distinct pairs, not with the length of the corpus. But each document is
tokenised whole, which takes some 130 bytes for each of its characters; more than ten million are
warned of. An interrupted count (also by kill -9) goes on where it stopped when the same command is
given again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from lnattn.cli import positive

EXAMPLES = """examples:
  lnattn count *.jsonl --tokenizer book-gpt2 --out counts.npz
  lnattn count corpus.parquet --tokenizer path/to/tokenizer.json --out counts.npz --workers 8
  lnattn count *.jsonl --tokenizer book-gpt2 --skip 3 --out third.npz
  lnattn count openwebtext --tokenizer gpt2 --out gpt2.npz
  lnattn count notes.txt --tokenizer minilm --out notes.npz --json
  lnattn count RUN/checkpoint/train_tokens.npy --tokenizer RUN --skip 2 --out second.npz

Files: .jsonl (one object with a 'text' field a line), .parquet (a 'text' column), .txt (one
document). The counts go to a .npz, their record to the .json beside it. Pairs never span two
documents. With --boundary end, the end-of-text token follows every document; with --boundary both
it also precedes it, as in the stream that GPT-2 is trained on.
One .npy file, the token ids that a training run keeps, is counted as that stream, every pair of it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    corpora = "wikitext-103 (default) or openwebtext, pinned and streamed from the Hugging Face hub"
    add("text", nargs="*", default=["wikitext-103"], help=f"files, or {corpora}")
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
    from lnattn.text.counting import count_corpus

    out, named = Path(args.out), Path(args.tokenizer)
    words = [named] if named.is_file() else [*named.glob("*.json")] if named.is_dir() else []
    check_outputs([out, out.with_suffix(".json")], [*args.text, *words])
    tokenizer = _find_tokenizer(args.tokenizer)
    # No folder of this machine belongs in a record.
    name = named.name if named.exists() else args.tokenizer
    if any(source.endswith(".npy") for source in args.text):
        record = _count_stream(args.text, tokenizer, args, name)
    else:
        boundary = _boundary(args.boundary, tokenizer)
        options = {"skip": args.skip, "workers": args.workers, "restart": args.restart}
        options |= {"name": name, "progress": not args.quiet}
        record = count_corpus(args.text, tokenizer, out, boundary=boundary, **options)
    if args.json:
        print(json.dumps(record, indent=2, ensure_ascii=False))
        return
    print(
        f"{args.out}: {record['documents']:,} documents, {record['tokens']:,} tokens, "
        f"{record['pairs']:,} pairs, {record['distinct_pairs']:,} of them distinct"
    )


def _count_stream(
    sources: list[str], tokenizer: Any, args: argparse.Namespace, name: str
) -> dict[str, Any]:
    """Count one stream of token ids, whose documents nothing but its own tokens tells apart."""
    import numpy as np

    from lnattn.errors import CorpusError
    from lnattn.storage import sha256_of_file
    from lnattn.text.counting import record_of
    from lnattn.text.counts import Counts

    (path, *others), out = map(Path, sources), Path(args.out)
    if others or args.boundary != "none" or out.suffix != ".npz":
        raise CorpusError(
            "a stream of token ids (.npy) is counted by itself, as it is, into a .npz; name no "
            "other text and no --boundary."
        )
    try:
        tokens = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CorpusError(f"{path} cannot be read as an array ({error}).") from error
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu" or not tokens.size:
        raise CorpusError(f"{path} holds no stream of token ids: whole numbers, one after another.")
    vocab = len(tokenizer) if hasattr(tokenizer, "__len__") else tokenizer.get_vocab_size()
    counts = Counts.from_stream(tokens, vocab, skip=args.skip)
    record = record_of(
        counts,
        corpus=[{"file": path.name, "sha256": sha256_of_file(path)}],
        tokenizer={"name": name, "vocab_size": vocab},
        boundary="one stream, as a training run reads it",
        skip=args.skip,
        documents=1,
    )
    Counts(counts.unigrams, counts.bigrams, record).save(out)
    return record


def _find_tokenizer(name: str) -> Any:
    from tokenizers import Tokenizer

    from lnattn.errors import CorpusError, LnattnError
    from lnattn.models.checkpoints import open_checkpoint
    from lnattn.text.tokenizers import load_tokenizer

    path = Path(name)
    try:
        if path.is_file():
            return Tokenizer.from_file(name)
        return load_tokenizer(path if path.is_dir() else open_checkpoint(name).folder)
    except LnattnError:
        raise
    except Exception as error:  # the library raises bare Exception
        raise CorpusError(f"{name} holds no tokenizer that can be read ({error}).") from error


def _boundary(kind: str, tokenizer: Any) -> Any:
    from lnattn.errors import CorpusError
    from lnattn.text.counts import Boundary

    if kind == "none":
        return Boundary()
    end = getattr(tokenizer, "eos_token_id", None)
    if end is None and hasattr(tokenizer, "token_to_id"):
        end = tokenizer.token_to_id("<|endoftext|>")
    if end is None:
        raise CorpusError(f"this tokenizer has no end-of-text token for --boundary {kind}.")
    return Boundary(end=end, start=end if kind == "both" else None)
