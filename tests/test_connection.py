"""Settings between this machine and the hub: each costs one line that names it, never a build."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from families import make, save
from huggingface_hub import constants
from huggingface_hub.errors import HTTPError
from naming import naming

from lnattn import default_model, load_first_layer
from lnattn.errors import HubError, one_line
from lnattn.models import choice, connection, hub
from lnattn.models.connection import hub_errors, wrong_setting

#: A setting of the environment that no client can use, and words that the sentence must have.
WRONG = {
    "SOCKS without its package": ("ALL_PROXY", "socks5://127.0.0.1:9", ("ALL_PROXY", "socksio")),
    "certificates not there": ("SSL_CERT_FILE", "/missing.pem", ("SSL_CERT_FILE", "/missing.pem")),
    "letter in the token": ("HF_TOKEN", "hf_ä", ("HF_TOKEN", "letter")),
    "proxy misspelt": ("HTTPS_PROXY", "htp://x", ("HTTPS_PROXY", "htp://x")),
    "proxy of another kind": ("ALL_PROXY", "socks://x:1", ("ALL_PROXY", "socks5://")),
    "endpoint without scheme": ("HF_ENDPOINT", "hf-mirror.com", ("HF_ENDPOINT", "https://")),
}
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@pytest.fixture
def plain(monkeypatch):
    """An environment without proxies, certificates and tokens."""
    for name in (*_PROXIES, "SSL_CERT_FILE", "SSL_CERT_DIR", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setattr(constants, "ENDPOINT", "https://huggingface.co")
    return monkeypatch


def test_nothing_is_wrong_with_usual_settings(plain):
    assert wrong_setting() is None
    plain.setenv("HTTPS_PROXY", "http://user:secret@proxy:3128")
    plain.setenv("HF_TOKEN", "hf_abcdef\n")  # as a secret store hands it over
    assert wrong_setting() is None
    plain.setenv("HTTP_PROXY", "proxy:3128")
    assert wrong_setting() is None


@pytest.mark.parametrize("endpoint", ["https://", "ftp://huggingface.co", "huggingface.co", ""])
def test_what_is_no_address_of_a_hub(plain, endpoint):
    plain.setattr(constants, "ENDPOINT", endpoint)
    assert wrong_setting().startswith(f"HF_ENDPOINT is {endpoint!r}")
    plain.setattr(constants, "ENDPOINT", "http://mirror.local:8080")
    assert wrong_setting() is None


def test_every_proxy_is_looked_at_and_exceptions_are_none(plain):
    """NO_PROXY lists hosts, and so may hold what no proxy is."""
    plain.setattr(connection, "getproxies", lambda: {"no": "htp://x", "https": "htp://y"})
    assert "HTTPS_PROXY" in wrong_setting()
    plain.setattr(connection, "getproxies", lambda: {"no": "htp://x", "ftp": "htp://y"})
    assert wrong_setting() is None


def test_certificates_may_be_a_file_or_a_folder(plain, tmp_path):
    plain.setenv("SSL_CERT_DIR", str(tmp_path / "absent"))
    assert "SSL_CERT_DIR" in wrong_setting()
    plain.setenv("SSL_CERT_DIR", str(tmp_path))
    assert wrong_setting() is None


def test_a_token_that_is_not_printable(plain):
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        plain.setenv(name, "hf_\x07abc")
        assert wrong_setting().startswith(name)
        plain.delenv(name)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left"), "(No space left); see .* HF_HOME is on a disk"),
        (OSError(errno.EACCES, "Permission denied"), "(Permission denied); .* can be written to"),
        (OSError("in its own words"), "(in its own words); .* can be written to"),
        (ValueError("no JSON"), "is no list of its files; check HF_ENDPOINT"),
        (KeyError("sha"), "is no list of its files"),
        (ImportError("no h2"), "could not be asked for someone/model (ImportError: no h2)"),
        (HTTPError("cut off"), "connection to huggingface.co failed (HTTPError)"),
    ],
    ids=repr,
)
def test_an_error_is_told_by_its_kind(plain, error, words):
    """A full disk, a login page in place of the hub, a missing package: each has its mend."""
    pattern = ".*".join(re.escape(part) for part in words.split(".*"))
    with pytest.raises(HubError, match=pattern), hub_errors("someone/model"):
        raise error


def test_a_password_is_never_shown(plain):
    plain.setenv("HTTPS_PROXY", "htp://user:secret@proxy:3128")
    plain.setenv("HF_TOKEN", "hf_sécret")
    assert "cret" not in wrong_setting()
    plain.delenv("HTTPS_PROXY")
    assert "cret" not in wrong_setting()


def test_socks_is_no_fault_where_its_package_is_there(plain):
    plain.setenv("ALL_PROXY", "socks5://127.0.0.1:1080")
    assert "socksio" in wrong_setting()
    plain.setattr(connection, "find_spec", lambda name: object())
    assert wrong_setting() is None


def test_a_proxy_without_a_host_is_said(plain):
    plain.setenv("HTTPS_PROXY", "http://")
    assert "HTTPS_PROXY" in wrong_setting()


#: A process for each setting, with PyTorch in it already: that takes longest, and asks no hub.
_EACH = """
import json, os, sys, traceback
import torch
torch.set_num_threads(1)
for name, value in json.loads(sys.argv[1]):
    sys.stdout.flush()
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0, name
        continue
    os.environ[name] = value
    try:
        import lnattn
        print(lnattn.default_model())
        print(lnattn.load_first_layer("book-gpt2").name)
        try:
            lnattn.load_first_layer("someone/model")
        except lnattn.LnattnError as error:
            print(error)
        sys.stdout.flush()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> dict[str, list[str]]:
    """What a first command prints under each wrong setting: clients read theirs once, at start."""
    gone = (*_PROXIES, "LNATTN_MODEL", "LNATTN_MODEL_WHY")
    env = {key: text for key, text in os.environ.items() if key.upper() not in gone}
    env |= {"HF_HOME": str(tmp_path_factory.mktemp("home")), "PYTHONWARNINGS": "ignore"}
    settings = json.dumps([[name, value] for name, value, _ in WRONG.values()])
    command = [sys.executable, "-c", _EACH, settings]
    ran = subprocess.run(command, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    lines = iter(ran.stdout.splitlines())
    return {case: [next(lines) for _ in range(3)] for case in WRONG}


@pytest.mark.parametrize("case", WRONG)
def test_a_first_command_survives_and_says_why(case, said):
    words = WRONG[case][2]
    chosen, loaded, refused = said[case]
    assert chosen.startswith("book-gpt2 (the embedded model: ")
    assert loaded == "book-gpt2"
    assert words[0] in chosen
    assert all(word in refused for word in words)


def test_an_error_of_any_kind_becomes_one_sentence(plain):
    for kind in (ImportError, RuntimeError, OSError, ValueError, UnicodeError):
        with pytest.raises(HubError) as error, hub_errors("someone/model"):
            raise kind("a message\n" * 1000)
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 700
    with pytest.raises(KeyboardInterrupt), hub_errors("someone/model"):
        raise KeyboardInterrupt


def test_a_cache_that_cannot_be_read_leaves_the_embedded_model(plain, monkeypatch):
    def broken(*args, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.delenv("LNATTN_MODEL", raising=False)
    monkeypatch.setattr(hub, "try_to_load_from_cache", broken)
    assert default_model().name == "book-gpt2"
    assert "Permission denied" in default_model().why


# ---- a folder that is called as a model is -----------------------------------------------------


@pytest.fixture
def no_network(monkeypatch, tmp_path):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def test_an_empty_folder_does_not_hide_a_known_model(no_network, tmp_path):
    (tmp_path / "gpt2").mkdir()
    with pytest.raises(HubError, match="HF_HUB_OFFLINE"):  # the hub's was looked for
        load_first_layer("gpt2")


def test_a_folder_that_hides_another_model_is_named(no_network, tmp_path):
    (tmp_path / "someone" / "model").mkdir(parents=True)
    with pytest.raises(ValueError, match=naming("config.json", "@main")):
        load_first_layer("someone/model")
    with pytest.raises(HubError, match="HF_HUB_OFFLINE"):
        load_first_layer("someone/model@main")


def test_a_checkpoint_in_a_folder_gpt2_is_not_taken_for_gpt2(no_network, tmp_path, monkeypatch):
    monkeypatch.delenv("LNATTN_MODEL", raising=False)
    monkeypatch.setattr(hub, "missing_files", lambda pin: [])
    assert default_model().name == "gpt2"
    (tmp_path / "gpt2").mkdir()
    assert default_model().name == "gpt2"
    (tmp_path / "gpt2" / "config.json").write_text("{}")
    choice = default_model()
    assert choice.name == "book-gpt2"
    assert "hides the hub's GPT-2" in choice.why
    monkeypatch.setenv("LNATTN_MODEL", "gpt2")  # whoever names it means the folder
    assert default_model().name == "gpt2"


def test_a_checkpoint_in_a_folder_goes_before_a_model_of_the_hub(no_network, tmp_path):
    save(make("gpt2", torch.float32), tmp_path / "someone" / "model")
    for given in ("someone/model", Path("someone/model")):
        assert load_first_layer(given).provenance["source"] == "local folder model"
    with pytest.raises(ValueError, match=r"there is no model 'someone/other'"):
        load_first_layer(Path("someone/other"))  # a Path is no name on the hub


def test_a_folder_that_may_not_be_looked_into_hides_nothing(no_network, monkeypatch):
    def refused(_path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.delenv("LNATTN_MODEL", raising=False)
    monkeypatch.setattr(hub, "missing_files", lambda pin: [])
    monkeypatch.setattr(choice.Path, "is_file", refused)
    assert default_model().name == "gpt2"


@pytest.mark.parametrize("length", [3, 9, 10, 300])
def test_messages_are_cut_in_their_middle(length):
    cut = one_line("begin" + "x" * 1000 + "end", length)
    assert len(cut) <= length
    assert cut[0] == "b"
    assert cut[-1] == "d"
    assert one_line("x" * length, length) == "x" * length


_WITHOUT_A_CLIENT = """
import lnattn
from importlib import import_module
for module in ("lnattn.models.checkpoints", "lnattn.text.corpora"):
    try:
        import_module(module)
    except lnattn.LnattnError as error:
        print(error)
"""


def test_a_number_of_seconds_that_is_none_is_one_sentence():
    env = {**os.environ, "HF_HUB_ETAG_TIMEOUT": "x"}
    command = [sys.executable, "-c", _WITHOUT_A_CLIENT]
    ran = subprocess.run(command, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) == 2
    assert all("'x'" in line and "HF_HUB_ETAG_TIMEOUT" in line for line in lines)
