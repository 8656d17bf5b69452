"""What the executed chapters registered, read from the chapters' own outputs.

MyST-NB keeps the data that a notebook glues in `NAME.glue.json` beside the executed notebook;
`lnattn_book.claims.ledger.register` puts its records there. So the claims page shows what the very
run registered that the chapter shows, also where that run came from the execution cache.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from lnattn.errors import ResultError
from lnattn.storage import read_json
from lnattn_book.claims.ledger import RECORD_PREFIX, as_record, in_order
from lnattn_book.claims.verdicts import Record


def registered(folder: Path, pages: Iterable[str]) -> list[Record]:
    """The records of these pages, in the order of the claims.

    folder: where the build keeps its executed notebooks; pages: names such as
    'notebooks/02-folding'; a page that registers nothing is fine. Where one page registers a claim
    for a model twice, the later record counts. A damaged record is one `ResultError`.
    """
    records: dict[tuple[str, str, str], Record] = {}
    for page in pages:
        path = folder / f"{page}.glue.json"
        for name, output in (read_json(path) if path.is_file() else {}).items():
            if not name.startswith(RECORD_PREFIX):
                continue
            try:
                data = json.loads("".join(output["data"]["text/plain"]))
                record = as_record({**data, "chapter": page}, f"{path}: {name}")
            except (KeyError, TypeError, json.JSONDecodeError) as error:
                raise ResultError(
                    f"{path}: {name} is no ledger record ({error!r}); rebuild."
                ) from error
            records[record.claim, record.model, page] = record
    return in_order(records.values())
