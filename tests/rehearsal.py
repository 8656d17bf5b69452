"""Publish the book as `make publish` does, without a network: `make rehearsal`.

GPT-2 is a narrow model made of noise behind a stand-in for the hub, to which the real clients talk.
What is made lies in `_build/rehearsal`; the embedded edition is that of `make book`. The caches are
fresh, so everything is fetched and computed as on a new machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from fake_hub import FakeHub, serving
from narrow_gpt2 import narrow_gpt2

from lnattn.models.hub import PINNED

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    pin = PINNED["gpt2"]
    with tempfile.TemporaryDirectory(prefix="lnattn-rehearsal-") as name:
        place = Path(name)
        hub = FakeHub(pin.repo, pin.revision)
        hub.add_folder(narrow_gpt2(place / "model"))
        unset = ("LNATTN_MODEL", "LNATTN_MODEL_WHY", "HF_HUB_OFFLINE", "HF_HUB_CACHE")
        own = {key: value for key, value in os.environ.items() if key not in unset}
        with serving(hub):
            own |= {
                "HF_ENDPOINT": hub.url,
                "HF_HOME": str(place / "huggingface"),
                "LNATTN_CACHE": str(place / "cache"),
            }
            output = ROOT / "_build" / "rehearsal"
            command = [sys.executable, "-m", "booksite.publish", "--output", str(output)]
            return subprocess.run(command, env=own, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
