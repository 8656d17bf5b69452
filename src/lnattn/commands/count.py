"""Count the tokens and neighbouring pairs of a corpus, exactly, in one pass on all cores.

Memory stays flat however long the corpus is. An interrupted count (also by kill -9) goes on where
it stopped when the same command is given again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from lnattn.commands import positive

EXAMPLES = """examples:
  lnattn count *.jsonl --tokenizer book-gpt2 --out counts.npz
  lnattn count corpus.parquet --tokenizer path/to/tokenizer.json --out counts.npz --workers 8
  lnattn count *.jsonl --tokenizer book-gpt2 --skip 3 --out third.npz
  lnattn count --tokenizer gpt2 --out gpt2.npz
  lnattn count --corpus openwebtext --tokenizer gpt2 --out gpt2.npz --scheduler tcp://head:8786
  lnattn count notes.txt --tokenizer minilm --out table.parquet --json
  lnattn count RUN/checkpoint/train_tokens.npy --tokenizer RUN --skip 2 --out second.npz

Files: .jsonl (one object with a 'text' field a line), .parquet (a 'text' column), .txt (one
document). Pairs never span two documents. With --boundary end, the end-of-text token follows every
document; with --boundary both it also precedes it, as in the stream that GPT-2 is trained on.
One .npy file, the token ids that a training run keeps, is counted as that stream, every pair of it.
"""

#: Corpora of the hub that are worth counting; `lnattn.text.corpora` says where they are.
CORPORA = ("wikitext-103", "openwebtext")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", nargs="*", help="files, or names of corpora as for --corpus")
    parser.add_argument(
        "--corpus",
        choices=CORPORA,
        metavar="NAME",
        help="a corpus of the Hugging Face hub, pinned and streamed: openwebtext, or wikitext-103, "
        "which is counted when no text is named",
    )
    parser.add_argument(
        "--tokenizer",
        required=True,
        metavar="NAME",
        help="a tokenizer.json, a folder with one, or the name of a model",
    )
    parser.add_argument(
        "--out", required=True, metavar="FILE", help="the .npz or .parquet to write"
    )
    parser.add_argument(
        "--boundary",
        choices=["none", "end", "both"],
        default="none",
        help="where the end-of-text token is counted at a document's ends (default: none)",
    )
    parser.add_argument(
        "--skip",
        type=positive,
        default=1,
        metavar="N",
        help="count pairs of tokens that stand N apart (default: 1, neighbours)",
    )
    parser.add_argument("--workers", type=positive, metavar="N", help="processes (default: cores)")
    parser.add_argument(
        "--memory",
        type=positive,
        default=512,
        metavar="MIB",
        help="memory for counting, all workers together, beside what the tokenizer needs "
        "(default: 512)",
    )
    parser.add_argument("--scheduler", metavar="ADDRESS", help="count on a Dask cluster instead")
    parser.add_argument(
        "--shard", type=positive, metavar="MIB", help="text in a shard (default: 1 to 64)"
    )
    parser.add_argument("--restart", action="store_true", help="discard an interrupted count")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.add_argument("--json", action="store_true", help="print the full record as JSON")


def run(args: argparse.Namespace) -> None:
    from lnattn.text.jobs import count_corpus

    tokenizer = _find_tokenizer(args.tokenizer)
    sources = [*args.text, *([args.corpus] if args.corpus else [])]
    # No folder of this machine belongs in a record.
    name = Path(args.tokenizer).name if Path(args.tokenizer).exists() else args.tokenizer
    if any(source.endswith(".npy") for source in sources):
        _shown(args, _count_stream(sources, tokenizer, args, name))
        return
    record = count_corpus(
        sources or [CORPORA[0]],
        tokenizer,
        args.out,
        boundary=_boundary(args.boundary, tokenizer),
        skip=args.skip,
        workers=args.workers,
        memory=args.memory << 20,
        scheduler=args.scheduler,
        shard_bytes=args.shard << 20 if args.shard else None,
        restart=args.restart,
        name=name,
        progress=not args.quiet,
    )
    _shown(args, record)


def _shown(args: argparse.Namespace, record: dict[str, Any]) -> None:
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
    from lnattn.storage import provenance, sha256_of_file
    from lnattn.text.counts import Counts

    (path, *others), out = map(Path, sources), Path(args.out)
    if others or args.boundary != "none" or out.suffix != ".npz":
        raise CorpusError(
            "a stream of token ids (.npy) is counted by itself, as it is, into a .npz; name no "
            "other text and no --boundary."
        )
    try:
        tokens = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise CorpusError(f"{path} cannot be read as an array ({error}).") from error
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu" or not tokens.size:
        raise CorpusError(f"{path} holds no stream of token ids: whole numbers, one after another.")
    vocab = len(tokenizer) if hasattr(tokenizer, "__len__") else tokenizer.get_vocab_size()
    record = provenance(
        what="unigram and bigram counts" if args.skip == 1 else "unigram and skip-bigram counts",
        corpus=[{"file": path.name, "sha256": sha256_of_file(path)}],
        tokenizer={"name": name, "vocab_size": vocab},
        boundary="one stream, as a training run reads it",
        skip=args.skip,
        documents=1,
        tokens=len(tokens),
    )
    counts = Counts.from_stream(tokens, vocab, record, args.skip)
    counts.save(out)
    return {**record, "pairs": counts.pairs, "distinct_pairs": len(counts.bigrams.data)}


def _find_tokenizer(name: str) -> Any:
    from lnattn.errors import CorpusError

    path = Path(name)
    if path.is_file():
        from tokenizers import Tokenizer

        try:
            return Tokenizer.from_file(name)
        except Exception as error:  # the library raises bare Exception
            raise CorpusError(f"{name} is no tokenizer.json ({error}).") from error
    from lnattn.text.tokenizers import load_tokenizer

    if path.is_dir():
        return load_tokenizer(path)
    from lnattn.models.checkpoints import open_checkpoint

    return load_tokenizer(open_checkpoint(name).folder)


def _boundary(kind: str, tokenizer: Any) -> Any:
    from lnattn.errors import CorpusError
    from lnattn.text.pairs import Boundary

    if kind == "none":
        return Boundary()
    end = getattr(tokenizer, "eos_token_id", None)
    if end is None and hasattr(tokenizer, "token_to_id"):
        end = tokenizer.token_to_id("<|endoftext|>")
    if end is None:
        raise CorpusError(
            f"this tokenizer has no end-of-text token, so --boundary {kind} has no meaning."
        )
    return Boundary(end=end, start=end if kind == "both" else None)
