"""Publish the book as `make publish` does, without a network: `make rehearsal`.

GPT-2 is a narrow model behind a stand-in for the hub, to which the real clients talk: made of noise
but for pairs that are planted in it, so that what says 'holds' is built and looked at (with --noise
there are none). SmolLM2 is noise, and Pythia is missing there.
What is made lies in `_build/rehearsal`; the embedded edition is that of `make book`. The caches are
fresh, so everything is fetched and computed as on a new machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from lnattn.models.hub import PINNED

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # the stand-ins are the tests'

from fake_hub import FakeHub, serving  # noqa: E402
from narrow_gpt2 import narrow_gpt2  # noqa: E402
from narrow_llama import narrow_llama  # noqa: E402
from planted_pairs import plant  # noqa: E402

#: AUROCs of noise need not be those of 50,257 query tokens.
QUERIES = "1000"


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="lnattn-rehearsal-") as name:
        place = Path(name)
        gpt2 = PINNED["gpt2"]
        smollm2 = PINNED["smollm2-135m"]
        hub = FakeHub(gpt2.repo, gpt2.revision)
        other = FakeHub(smollm2.repo, smollm2.revision)
        planted = None if "--noise" in sys.argv[1:] else plant
        hub.add_folder(narrow_gpt2(place / "gpt2", d_head=6, planted=planted))
        other.add_folder(narrow_llama(place / "llama"))
        unset = (
            "LNATTN_MODEL",
            "LNATTN_MODEL_WHY",
            "LNATTN_ROTARY",
            "HF_HUB_OFFLINE",
            "HF_HUB_CACHE",
        )
        environment = {key: value for key, value in os.environ.items() if key not in unset}
        with serving(hub, other):
            environment |= {
                "HF_ENDPOINT": hub.url,
                "HF_HOME": str(place / "huggingface"),
                "LNATTN_CACHE": str(place / "cache"),
                "LNATTN_QUERIES": QUERIES,
            }
            output = ROOT / "_build" / "rehearsal"
            command = [sys.executable, "-m", "booksite.publish", "--output", str(output)]
            return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
