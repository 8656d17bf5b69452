"""Hub access against a stand-in on this machine: partial reads, retries, resume, refusals."""

from __future__ import annotations

import io
import json
import shutil
import socket

import huggingface_hub.constants
import numpy as np
import pytest
import torch
from fake_hub import FakeHub, serving
from random_families import make, save
from safetensors.torch import load_file, save_file
from tqdm import tqdm

from lnattn import default_model, load_first_layer
from lnattn.cli import main
from lnattn.errors import CheckpointError, HubError
from lnattn.models import download, hub
from lnattn.models.hub import PINNED, pin_of
from lnattn.storage import read_result

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = f"someone/tiny@{COMMIT}"
WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """A tiny GPT-2 whose weights are mostly ones that a first layer does not need."""
    return save(make("gpt2", torch.float32), tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def pauses(monkeypatch):
    """The pauses that a download would have made; nothing waits."""
    made: list[float] = []
    monkeypatch.setattr(download, "sleep", made.append)
    return made


@pytest.fixture
def server(local, tmp_path, monkeypatch, pauses):
    fake = FakeHub()
    fake.add_folder(local, "someone/tiny", COMMIT)
    monkeypatch.setenv("LNATTN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hf"))
    monkeypatch.setattr(download, "get_token", lambda: None)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "LNATTN_MODEL"):
        monkeypatch.delenv(name, raising=False)
    # A proxy of this machine's network must not see what is meant for this machine.
    monkeypatch.setattr(download, "_opener", download.urllib.request.build_opener(
        download.urllib.request.ProxyHandler({}), download._NoRedirect
    ))  # fmt: skip
    with serving(fake):
        monkeypatch.setenv("HF_ENDPOINT", fake.url)
        yield fake


def assert_is_the_local_one(first, local):
    here = load_first_layer(local)
    for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"):
        assert torch.equal(getattr(first.attention, name), getattr(here.attention, name)), name
    assert torch.equal(first.embeddings.W_E, here.embeddings.W_E)
    assert torch.equal(first.embeddings.W_P, here.embeddings.W_P)
    # The checksum is that of the tensors, wherever they were read from.
    assert first.provenance["weights_sha256"] == here.provenance["weights_sha256"]


def test_only_the_needed_tensors_are_fetched_and_only_once(server, local):
    first = load_first_layer(NAME)
    assert_is_the_local_one(first, local)
    assert first.provenance["source"] == "hub model someone/tiny"
    assert first.provenance["revision"] == COMMIT
    whole = len(server.files[f"/someone/tiny/resolve/{COMMIT}/{WEIGHTS}"])
    header = int.from_bytes(server.files[f"/someone/tiny/resolve/{COMMIT}/{WEIGHTS}"][:8], "little")
    needed = first.provenance["bytes"]
    assert server.sent_bytes(WEIGHTS) == 8 + header + needed
    assert needed < (whole - header) / 2
    server.log.clear()
    assert_is_the_local_one(load_first_layer(NAME), local)
    assert server.log == []


def test_offline_uses_the_cache_and_asks_nobody(server, local, monkeypatch):
    load_first_layer(NAME)
    server.log.clear()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert_is_the_local_one(load_first_layer(NAME), local)
    with pytest.raises(HubError, match="not in the cache"):
        load_first_layer(NAME, layer=1)  # its tensors were never fetched
    with pytest.raises(HubError, match="HF_HUB_OFFLINE"):
        load_first_layer("someone/else")
    assert server.log == []


def test_a_model_of_the_hub_is_frozen_and_verified_by_one_command_each(server, local, tmp_path):
    """Its results are those of the same weights in a folder, and name no place of this machine."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    studies = ["position", "composition"]
    assert main(["freeze", NAME, "--out", str(ours), "--only", *studies]) == 0
    assert main(["freeze", str(local), "--out", str(theirs), "--only", *studies]) == 0
    for study in studies:
        arrays, record = read_result(ours, study)
        expected, _ = read_result(theirs, study)
        assert arrays.keys() == expected.keys()
        for name, value in arrays.items():
            np.testing.assert_array_equal(value, expected[name], err_msg=f"{study}: {name}")
        assert record["revision"] == COMMIT
        assert str(tmp_path) not in json.dumps(record)
    assert main(["verify", NAME, "--folder", str(ours)]) == 0
    assert main(["freeze", "someone/else", "--out", str(ours)]) == 1


@pytest.mark.parametrize("sent", [0, 1, 1000])
def test_a_cut_connection_is_taken_up_where_it_stopped(server, local, sent, pauses):
    # The first two requests read the header; the third is the first tensor.
    server.faults[WEIGHTS] = [("serve",), ("serve",), ("cut", sent)]
    assert_is_the_local_one(load_first_layer(NAME), local)
    spans = [request.span for request in server.log if request.path.endswith(WEIGHTS)]
    assert spans[3] == (spans[2][0] + sent, spans[2][1])
    assert len(pauses) == 1


class Screen(io.StringIO):
    """Where progress bars write: a terminal, or the output of a notebook or a log."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def shown_bars(monkeypatch, screen: Screen) -> list[tqdm]:
    """The bars that downloads make from now on, on this screen."""
    made: list[tqdm] = []

    class Bar(tqdm):
        def __init__(self, **options) -> None:
            super().__init__(**options, file=screen, mininterval=0)
            made.append(self)

    monkeypatch.setattr(download, "tqdm", Bar)
    return made


@pytest.mark.parametrize("ranges", [True, False])
def test_a_bar_shows_how_much_has_arrived(server, local, monkeypatch, ranges):
    """Of each request its own part of the file, and of what a cut left, the rest."""
    server.ranges = ranges
    server.faults[WEIGHTS] = [("serve",), ("serve",), ("cut", 500 if ranges else 0)]
    monkeypatch.setattr(download, "_BAR_FROM_BYTES", 1)
    screen = Screen(terminal=True)
    bars = shown_bars(monkeypatch, screen)
    first = load_first_layer(NAME)
    assert_is_the_local_one(first, local)
    assert all(0 <= bar.initial <= bar.n <= bar.total for bar in bars)
    cut = [bar for bar in bars if bar.n < bar.total]
    assert len(cut) == 1
    (resumed,) = [bar for bar in bars if bar.total == cut[0].total and bar.initial == cut[0].n
                  and bar is not cut[0] and bar.desc == cut[0].desc]  # fmt: skip
    assert cut[0].n == (500 if ranges else 0)
    assert resumed.n == resumed.total
    of_tensors = [bar for bar in bars if bar.n == bar.total and bar.total in sizes(local)]
    assert sum(bar.total for bar in of_tensors) >= first.provenance["bytes"]
    assert all(bar.desc in screen.getvalue() for bar in bars)
    assert "100%" in screen.getvalue()


def sizes(folder) -> set[int]:
    """How many bytes the tensors of a checkpoint have."""
    return {tensor.nbytes for tensor in load_file(folder / WEIGHTS).values()}


def test_no_bar_for_little_and_none_outside_a_terminal(server, monkeypatch):
    terminal = Screen(terminal=True)
    bars = shown_bars(monkeypatch, terminal)
    load_first_layer(NAME)
    assert bars
    assert terminal.getvalue() == "", "a bar for a few kilobytes"
    notebook = Screen(terminal=False)
    shown_bars(monkeypatch, notebook)
    monkeypatch.setattr(download, "_BAR_FROM_BYTES", 1)
    monkeypatch.setenv("LNATTN_CACHE", str(hub.cache_folder() / "another"))
    load_first_layer(NAME)
    assert notebook.getvalue() == ""


def test_an_interrupted_run_is_resumed_by_the_next(server, local, monkeypatch):
    server.faults[WEIGHTS] = [("serve",), ("serve",), ("cut", 500)]
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    with pytest.raises(HubError, match=r"closed the connection|broke the connection"):
        load_first_layer(NAME)
    (start, stop) = server.log[-1].span
    server.log.clear()
    assert_is_the_local_one(load_first_layer(NAME), local)
    resumed = [r.span for r in server.log if r.path.endswith(WEIGHTS)]
    assert resumed[0] == (start + 500, stop)


def test_a_server_without_ranges_still_serves(server, local):
    server.ranges = False
    assert_is_the_local_one(load_first_layer(NAME), local)


def test_retry_after_is_honoured(server, local, pauses):
    server.faults["config.json"] = [("status", 429, {"Retry-After": "7"}), ("status", 503, {})]
    assert_is_the_local_one(load_first_layer(NAME), local)
    assert pauses == [7.0, 2 * download.PAUSE_SECONDS]


def test_backing_off_doubles_and_ends(server, pauses):
    server.faults["config.json"] = [("status", 500, {})] * 99
    with pytest.raises(HubError, match=r"answers 500, after 5 tries"):
        load_first_layer(NAME)
    assert pauses == [1, 2, 4, 8]


def test_too_long_a_pause_is_not_waited_for(server, pauses):
    server.faults["config.json"] = [("status", 429, {"Retry-After": "3600"})]
    with pytest.raises(HubError, match="asks to wait 3600 seconds"):
        load_first_layer(NAME)
    assert pauses == []


@pytest.mark.parametrize(("code", "words"), [(404, "has no"), (401, "login"), (403, "login")])
def test_refusals_are_final(server, code, words, pauses):
    server.faults["config.json"] = [("status", code, {})] * 9
    with pytest.raises(HubError, match=words) as error:
        load_first_layer(NAME)
    assert len(server.log) == 1
    assert pauses == []
    assert "\n" not in str(error.value)


def test_a_truncated_checkpoint_is_noticed_before_any_tensor_is_read(server):
    path = f"/someone/tiny/resolve/{COMMIT}/{WEIGHTS}"
    server.files[path] = server.files[path][:-100]
    with pytest.raises(CheckpointError, match="cut short"):
        load_first_layer(NAME)


def test_a_range_beyond_the_end_of_a_file_is_an_error(server, tmp_path):
    """A file that became shorter after its header was read: no endless asking for the rest."""
    path = f"/someone/tiny/resolve/{COMMIT}/config.json"
    size = len(server.files[path])
    with pytest.raises(HubError, match="shorter than expected"):
        download.fetch(server.url + path, tmp_path / "part", size - 10, size + 10)
    assert len(server.log) == 2


def test_a_stale_part_file_is_not_believed(server, tmp_path):
    path = f"/someone/tiny/resolve/{COMMIT}/config.json"
    (tmp_path / "config.json.part").write_bytes(b"x" * 99_999)
    download.fetch(server.url + path, tmp_path / "config.json")
    assert (tmp_path / "config.json").read_bytes() == server.files[path]


def test_what_is_no_safetensors_file_is_refused(server):
    server.files[f"/someone/tiny/resolve/{COMMIT}/{WEIGHTS}"] = b"\x80\x02pickle" * 99
    with pytest.raises(CheckpointError, match="no safetensors file"):
        load_first_layer(NAME)


def test_a_pickle_only_model_is_refused_with_the_way_out(server):
    path = f"/someone/tiny/resolve/{COMMIT}/"
    server.files[f"{path}pytorch_model.bin"] = server.files.pop(path + WEIGHTS)
    with pytest.raises(CheckpointError, match=r"pickle.*save_pretrained"):
        load_first_layer(NAME)
    assert "pytorch_model.bin" not in server.paths()


def test_an_unsupported_model_costs_one_small_file(server):
    server.files[f"/someone/tiny/resolve/{COMMIT}/config.json"] = b'{"model_type": "mamba"}'
    with pytest.raises(CheckpointError, match="no attention scores"):
        load_first_layer(NAME)
    assert server.paths() == ["config.json"]


def test_a_wrong_checksum_is_not_kept(server, tmp_path):
    server.wrong_checksum = True
    with pytest.raises(HubError, match="checksum"):
        load_first_layer(NAME)
    left = [p.name for p in (tmp_path / "cache").rglob("config.json*")]
    assert left == []


def test_a_tensor_damaged_in_the_cache_is_fetched_again(server, local, tmp_path):
    load_first_layer(NAME)
    (raw,) = (tmp_path / "cache").rglob("*wpe.weight.raw")
    damaged = bytearray(raw.read_bytes())
    damaged[17] ^= 1
    raw.write_bytes(damaged)
    server.log.clear()
    assert_is_the_local_one(load_first_layer(NAME), local)
    assert server.paths() == [WEIGHTS]


def test_shards(server, local):
    path = f"/someone/tiny/resolve/{COMMIT}/"
    tensors = load_file(local / WEIGHTS)
    del server.files[path + WEIGHTS]
    where = {name: f"part-{index % 2}.safetensors" for index, name in enumerate(tensors)}
    for file in set(where.values()):
        part = {name: tensors[name] for name in tensors if where[name] == file}
        folder = local.parent / "shard"
        folder.mkdir(exist_ok=True)
        save_file(part, folder / file)
        server.files[path + file] = (folder / file).read_bytes()
    server.files[f"{path}model.safetensors.index.json"] = json.dumps({"weight_map": where}).encode()
    assert_is_the_local_one(load_first_layer(NAME), local)


def test_the_login_stays_with_the_hub(server, local, monkeypatch):
    monkeypatch.setattr(download, "get_token", lambda: "secret")
    store = FakeHub(files=dict(server.files))
    with serving(store):
        server.store = store.url
        assert_is_the_local_one(load_first_layer(NAME), local)
    assert {request.login for request in server.log} == {"Bearer secret"}
    assert store.log
    assert {request.login for request in store.log} == {None}


def test_an_unpinned_name_is_resolved_to_a_commit_and_remembered(server, local, monkeypatch):
    server.commit = COMMIT
    server.files["/someone/tiny/resolve/main/config.json"] = (local / "config.json").read_bytes()
    first = load_first_layer("someone/tiny")
    assert first.provenance["revision"] == COMMIT
    assert first.provenance["pinned"] is False
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert load_first_layer("someone/tiny").provenance["revision"] == COMMIT


def test_unreachable_hub(server, monkeypatch):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free}")
    with pytest.raises(HubError, match="cannot be reached") as error:
        load_first_layer(NAME)
    assert "book-gpt2" in str(error.value)
    assert not hub.reachable(1.0)


def test_hugging_faces_own_cache_comes_first(server, local, tmp_path):
    snapshot = tmp_path / "hf" / "models--someone--tiny" / "snapshots" / COMMIT
    shutil.copytree(local, snapshot)
    assert_is_the_local_one(load_first_layer(NAME), local)
    assert server.log == []
    assert hub.is_cached(NAME)


# ---- names and the choice of a model -------------------------------------------------------


def test_names():
    assert pin_of("gpt2") == PINNED["gpt2"]
    assert pin_of("openai-community/gpt2") == PINNED["gpt2"]
    assert pin_of("openai-community/gpt2@abc").revision == "abc"
    assert pin_of("someone/else").revision == "main"
    for no_name in ("", "nothing", "a/b/c", "./a/b", "../a", "~/a", "a/", "/a", "a b/c", "-a/b"):
        assert pin_of(no_name) is None


def test_pins_are_commits():
    revisions = [pin.revision for pin in PINNED.values()]
    assert all(len(r) == 40 and set(r) <= set("0123456789abcdef") for r in revisions)
    assert len(set(revisions)) == len(PINNED)


def test_default_model(server, local, monkeypatch):
    pin = PINNED["gpt2"]
    assert default_model().name == "book-gpt2"  # this hub has no gpt2: it answers 404
    server.add_folder(local, pin.repo, pin.revision)
    assert default_model().name == "gpt2"
    assert "hub answers" in default_model().why
    first = load_first_layer(default_model())
    assert "hub answers" in first.provenance["why"]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert default_model() == type(default_model())("gpt2", "GPT-2 is in this machine's cache")
    monkeypatch.setenv("LNATTN_MODEL", "minilm")
    assert default_model().name == "minilm"
    assert default_model().why == "chosen by LNATTN_MODEL"


def test_default_model_offline_with_nothing_cached(server, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    choice = default_model()
    assert choice.name == "book-gpt2"
    assert "HF_HUB_OFFLINE" in choice.why
    assert server.log == []
