"""Models on the Hugging Face hub: pinned revisions, and reading only the tensors that are needed.

The first layer of GPT-2 XL is about 0.4 GB of a 6.4 GB file. Only what is needed of it is fetched,
into a cache of single tensors (`hub_files`). Whole checkpoints in Hugging Face's own cache are
used where they exist.

Environment: HF_ENDPOINT (another address of the hub), HF_HUB_OFFLINE (no request at all),
LNATTN_CACHE (where tensors are kept; default ~/.cache/lnattn).
"""

from __future__ import annotations

from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from huggingface_hub import try_to_load_from_cache

from lnattn.errors import CheckpointError, HubError
from lnattn.models import download
from lnattn.models.architectures import check_supported, needed_tensors
from lnattn.models.download import NotFoundOnHub, offline
from lnattn.models.hub_files import (
    HubWeights,
    Pin,
    cache_folder,
    endpoint,
    nothing_cached,
    small_file,
    url_of,
)
from lnattn.models.weights import Account, LocalWeights, read_config
from lnattn.storage import write_atomically

#: Short names, and the commits they stand for. The commits were not fetched when this table was
#: written (there was no network); each was found as the pinned revision of its repository in
#: several independent public projects. A wrong one cannot pass unnoticed: the hub would answer 404.
PINNED = {
    "gpt2": Pin("openai-community/gpt2", "607a30d783dfa663caf39e06633721c8d4cfcd7e"),
    "gpt2-medium": Pin("openai-community/gpt2-medium", "6dcaa7a952f72f9298047fd5137cd6e4f05f41da"),
    "gpt2-large": Pin("openai-community/gpt2-large", "32b71b12589c2f8d625668d2335a01cac3249519"),
    "gpt2-xl": Pin("openai-community/gpt2-xl", "15ea56dee5df4983c59b2538573817e1667135e2"),
    "distilgpt2": Pin("distilbert/distilgpt2", "2290a62682d06624634c1f46a6ad5be0f47f38aa"),
    "gpt-neo-125m": Pin("EleutherAI/gpt-neo-125m", "21def0189f5705e2521767faed922f1f15e7d7db"),
    # Published as a pickle only: refused, with the reason and what to do.
    "opt-125m": Pin("facebook/opt-125m", "27dcfa74d334bc871f3234de431e71c6eeba5dd6"),
    "bert-base-uncased": Pin(
        "google-bert/bert-base-uncased", "86b5e0934494bd15c9632b12f734a8a67f723594"
    ),
    "roberta-base": Pin("FacebookAI/roberta-base", "e2da8e2f811d1448a5b465c236feacd80ffbac7b"),
    "all-MiniLM-L6-v2": Pin(
        "sentence-transformers/all-MiniLM-L6-v2", "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
    ),
}

_BY_REPO = {pin.repo: pin for pin in PINNED.values()}
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
)
_COMMIT_LENGTH = 40


def pin_of(name: str) -> Pin | None:
    """The repository and revision that a name stands for, or None where it is no hub name.

    Understood: a short name of `PINNED`; `owner/model`, pinned if it is in the table, else at its
    current head; `owner/model@revision`.
    """
    if name in PINNED:
        return PINNED[name]
    repo, _, revision = name.partition("@")
    owner, _, model = repo.partition("/")
    plain = all(part and not part.startswith((".", "~", "-")) for part in (owner, model))
    if not plain or "/" in model or "\\" in repo or " " in repo:
        return None
    if not revision and repo in _BY_REPO:
        return _BY_REPO[repo]
    return Pin(repo, revision or "main")


def reachable(seconds: float = 3.0) -> bool:
    """True where the hub answers a request for GPT-2's configuration within `seconds`."""
    if offline():
        return False
    pin = PINNED["gpt2"]
    try:
        answer = download.open_once(url_of(pin, "config.json"), timeout=seconds)
    except (OSError, HTTPException, HubError):  # HTTPError, a refusal, is an OSError too
        return False
    answer.body.close()
    return True


@dataclass
class HubModel:
    """One model at one commit: a folder with its small files, and its weights."""

    pin: Pin
    folder: Path
    weights: Account


def open_hub_model(pin: Pin) -> HubModel:
    """Find a model in Hugging Face's cache, in ours, or on the hub, in this order.

    Fetches its configuration, tokenizer and table of tensors, but no tensor yet. Raises `HubError`
    where it is nowhere to be had, `CheckpointError` where its weights are only a pickle.
    """
    return _from_hf_cache(pin) or _from_hub(_resolved(pin))


def _from_hf_cache(pin: Pin) -> HubModel | None:
    """A complete snapshot that transformers or `hf download` has left, if there is one."""
    repo, revision = pin.repo, pin.revision
    found = {
        name: try_to_load_from_cache(repo, name, revision=revision)
        for name in ("config.json", "model.safetensors")
    }
    if not all(isinstance(path, str) for path in found.values()):
        return None
    folder = Path(found["config.json"]).parent
    weights = LocalWeights(repo, (Path(found["model.safetensors"]),))
    return HubModel(Pin(repo, folder.name), folder, weights)


def _resolved(pin: Pin) -> Pin:
    """The same model with a commit hash as revision, remembered for when there is no network."""
    if len(pin.revision) == _COMMIT_LENGTH:
        return pin
    note = cache_folder() / pin.repo / f"{pin.revision.replace('/', '--')}.revision"
    if offline():
        if note.is_file():
            return Pin(pin.repo, note.read_text(encoding="ascii").strip())
        raise HubError(nothing_cached(pin))
    answer, failed = None, 0
    while answer is None:
        answer, failed = download.open_patiently(url_of(pin, "config.json"), 0, None, failed)
    answer.body.close()
    commit = answer.headers.get("x-repo-commit", "")
    if len(commit) != _COMMIT_LENGTH or not commit.isalnum():
        raise HubError(
            f"{endpoint()} does not say which commit {pin.revision!r} of {pin.repo} is; "
            "name one, as in owner/model@revision."
        )
    write_atomically(note, lambda file: file.write(commit.encode("ascii")))
    return Pin(pin.repo, commit)


def _from_hub(pin: Pin) -> HubModel:
    folder = cache_folder() / pin.repo / pin.revision
    if offline() and not (folder / "config.json").is_file():
        raise HubError(nothing_cached(pin))
    path = small_file(pin, folder, "config.json")
    if path is None:
        raise NotFoundOnHub(f"{pin.repo} has no config.json, so its architecture is unknown.")
    check_supported(read_config(path), pin.repo)
    for name in _TOKENIZER_FILES:
        small_file(pin, folder, name)
    return HubModel(pin, folder, HubWeights(pin.repo, pin, folder))


def is_cached(name: str, layer: int = 0) -> bool:
    """True where everything that `load_first_layer(name, layer)` reads is on this machine."""
    pin = pin_of(name)
    if pin is None:
        return False
    if _from_hf_cache(pin) is not None:
        return True
    folder = cache_folder() / pin.repo / pin.revision
    try:
        weights = HubWeights(pin.repo, pin, folder, local_only=True)
        config = read_config(folder / "config.json")
    except CheckpointError:
        return False  # never fetched, or not all of it
    return all(map(weights.has_cached, needed_tensors(config, weights, layer)))
