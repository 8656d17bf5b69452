"""Attest what the last build on this machine found: `make attest` writes a file that can be sent.

`data/attestations` holds what was sent; the claims page compares it with the frozen verdicts.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from booksite.claims_page import hash_of, verdicts_of
from lnattn.errors import LnattnError
from lnattn.storage import provenance, write_json
from lnattn_book.claims.__main__ import built
from lnattn_book.claims.verdicts import Record
from lnattn_book.page.places import ATTESTATIONS, repository


def attestation(model: str, records: Iterable[Record], commit: str) -> dict[str, Any]:
    """What a build on this machine found on a model; the hash is of verdicts alone."""
    records = list(records)
    verdicts = verdicts_of(records)
    return provenance(
        model=model,
        commit=commit,
        processor=processor(),
        platform=platform.platform(terse=True),
        sha256=hash_of(verdicts),
        verdicts=verdicts,
        values={
            f"{record.claim} on {record.model}": record.values
            for record in records
            if record.values
        },
    )


def processor() -> str:
    """The processor's name, as far as the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(errors="replace").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def main() -> int:
    """Write the attestation of the last build; the exit status."""
    root = repository()
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        statement = attestation(*built(), said.strip() or "unknown")
    except (LnattnError, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 1
    name = f"{statement['date']}-{statement['model']}-python{statement['versions']['python']}.json"
    path = write_json(root / ATTESTATIONS / name, statement)
    print(f"{path}: {len(statement['verdicts'])} verdicts, hash {statement['sha256'][:8]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
