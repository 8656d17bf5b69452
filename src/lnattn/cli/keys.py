"""Which of your keys can no query select: verdicts on the rows of a .npy file, each verified."""

from __future__ import annotations

import argparse

from lnattn.cli import add_json, print_json

EXAMPLES = """examples:
  lnattn keys my-keys.npy
  lnattn keys my-keys.npy --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="a .npy file with an array of keys, [n d]")
    parser.add_argument("--loose", action="store_true", help="copies of a key count as one key")
    parser.add_argument("--exact", action="store_true", help="verify in rational numbers")
    add_json(parser, "the result as JSON")


def run(args: argparse.Namespace) -> None:
    import numpy as np

    from lnattn.errors import ResultError
    from lnattn.selectability.decide import METHODS, selectability
    from lnattn.selectability.verify import verify
    from lnattn.storage import read_array

    keys = read_array(args.file)
    result = selectability(keys, strict=not args.loose)
    checked = verify(keys, result, exact=args.exact)
    if not checked.ok:
        raise ResultError(f"a certificate does not hold: {checked.failures[0]}")
    if args.json:
        record = {
            "keys": len(result.selectable),
            "rank": result.rank,
            "unselectable": np.flatnonzero(~result.selectable).tolist(),
            "share": result.unselectable,
            "methods": {name: int((result.method == i).sum()) for i, name in enumerate(METHODS)},
            "smallest_margin": min(checked.smallest_margin, np.finfo(float).max),
            "largest_residual": checked.largest_residual,
        }
        print_json(record)
    else:
        print(
            f"{result!r}; all {len(result.selectable)} certificates hold "
            f"(smallest margin {checked.smallest_margin:.2g}, "
            f"largest residual {checked.largest_residual:.2g})"
        )
