"""The one reader of JSON files: whatever was put in their place is refused in one sentence.

Configurations, indices, records and plans are all JSON objects of moderate size. What is read here
may come from anywhere, so it may also be a list, a pipe, a link to itself, nested a million times,
or hold a number of a million digits.
"""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

from lnattn.errors import LnattnError, ResultError, one_line

#: Bytes of a file that is still read; the largest that is meant is a tokenizer of some 40 MB.
LONGEST = 200_000_000


def read_json(
    path: Path | str,
    raises: type[LnattnError] = ResultError,
    *,
    mend: str = "delete and recompute it",
    absent: str = "compute it first",
) -> dict[str, Any]:
    """The JSON object that a file holds.

    raises: the error in which everything that is wrong ends, as one sentence; mend: what that tells
    to do with a file that cannot be used; absent: what to do where there is none.

    >>> read_json("no-such-file.json")
    Traceback (most recent call last):
    lnattn.errors.ResultError: no-such-file.json does not exist; compute it first.
    """
    path = Path(path)
    try:
        content = json.loads(_text(path))
    except FileNotFoundError as error:
        raise raises(f"{path} does not exist; {absent}.") from error
    except OSError as error:
        reason = one_line(error.strerror or error)
        raise raises(f"{path} cannot be read ({reason}); {mend}.") from error
    except RecursionError as error:
        raise raises(f"{path} is nested too deeply to be read; {mend}.") from error
    except ValueError as error:  # no JSON, no UTF-8, a number of too many digits
        raise raises(f"{path} is no valid JSON ({one_line(error)}); {mend}.") from error
    if not isinstance(content, dict):
        raise raises(f"{path} is no JSON object but a {type(content).__name__}; {mend}.")
    return content


def _text(path: Path) -> str:
    """What a regular file of moderate size holds; `OSError` or `ValueError` for anything else."""
    # To open a pipe would wait for ever for somebody who writes to it.
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no regular file")
    size = path.stat().st_size
    if size > LONGEST:
        raise ValueError(f"it is {size:,} bytes long, and at most {LONGEST:,} are read")
    return path.read_text(encoding="utf-8")
