"""Models on the Hugging Face hub: pinned revisions, and what of them is on this machine.

One commit lies in the cache that transformers shares (HF_HOME), fetched by huggingface_hub.
HF_ENDPOINT names another hub; with HF_HUB_OFFLINE nobody is asked.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from huggingface_hub import (
    constants,
    get_hf_file_metadata,
    get_session,
    hf_hub_download,
    hf_hub_url,
    try_to_load_from_cache,
)
from huggingface_hub.errors import EntryNotFoundError, HFValidationError
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status, validate_repo_id
from tqdm.auto import tqdm

from lnattn.errors import CheckpointError, HubError
from lnattn.models.connection import hub_errors
from lnattn.storage import sha256_of_file

#: Seconds in which a hub that is at hand says what a model consists of.
TIMEOUT = 8.0
#: Bytes of a list of a model's files, and of a file whose length the hub does not state.
LONGEST_LIST, LONGEST_UNSTATED = 16_000_000, 200_000_000
#: A file that comes slower than so many bytes a second, after so many seconds, is given up.
SLOWEST, PATIENCE = 2_000, 60.0
#: Letters of an owner's or a model's name, as the hub has it.
LONGEST_NAME = 96
_LONGEST_REVISION = 255


@dataclass(frozen=True)
class Pin:
    """A model repository and the one commit of it that results refer to."""

    repo: str
    revision: str


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
    # Rotary positions: the four terms by distance.
    "smollm2-135m": Pin("HuggingFaceTB/SmolLM2-135M", "93efa2f097d58c2a74874c7e644dbc9b0cee75a2"),
    "pythia-160m": Pin("EleutherAI/pythia-160m", "50f5173d932e8e61f858120bcb800b97af589f46"),
}

_BY_REPO = {pin.repo: pin for pin in PINNED.values()}

_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"
#: A tokenizer by itself; its known absence stands for that of any tokenizer.
_TOKENIZER_JSON = "tokenizer.json"
#: Any one of these sets of files is a tokenizer; the other two files only refine it.
_TOKENIZERS = (("tokenizer.json",), ("vocab.json", "merges.txt"), ("vocab.txt",))
_TOKENIZER_FILES = tuple(name for names in _TOKENIZERS for name in names)
_REFINING = ("tokenizer_config.json", "special_tokens_map.json")


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
    if not plain or "/" in model or "\\" in repo or " " in repo or ".." in revision:
        return None
    if len(owner) > LONGEST_NAME or len(revision) > _LONGEST_REVISION:
        return None
    try:
        validate_repo_id(repo)
    except HFValidationError:  # nobody need be asked
        return None
    if not revision and repo in _BY_REPO:
        return _BY_REPO[repo]
    return Pin(repo, revision or "main")


def reachable(pin: Pin, seconds: float = 3.0) -> bool:
    """True where the hub answers a question about a model within `seconds`."""
    return why_unreachable(pin, seconds) is None


def why_unreachable(pin: Pin, seconds: float = 3.0) -> str | None:
    """Why the hub says nothing about a model within `seconds`, as a sentence; None if it does."""
    try:
        files = _files(pin, seconds)
    except HubError as error:
        return str(error)
    return None if files else f"the hub lists no files of {pin.repo}."


def _files(pin: Pin, seconds: float | None = None) -> dict[str, int | None]:
    """Names of a model's files and their bytes; `HubError` where the hub does not say."""
    revision = quote(pin.revision, safe="")
    with hub_errors(pin.repo):
        told = what_is_listed(
            pin.repo, f"models/{pin.repo}/revision/{revision}?blobs=true", seconds or TIMEOUT
        )
        listed = told["siblings"] or ()
        return {str(file["rfilename"]): _size_of(file) for file in listed}


def what_is_listed(repo: str, path: str, seconds: float) -> Any:
    """What the hub says of a model or a data set at a path of its API.

    It is read no further than a list can be long, however much comes, packed or not: then
    `HubError`. What the client raises passes as it is.
    """
    body = bytearray()
    ends = time.monotonic() + 2 * seconds
    address = f"{constants.ENDPOINT}/api/{path}"
    session = get_session()
    with session.stream("GET", address, headers=build_hf_headers(), timeout=seconds) as answer:
        hf_raise_for_status(answer)
        for chunk in answer.iter_bytes():
            body += chunk
            if len(body) > LONGEST_LIST:
                raise HubError(
                    f"what the hub lists of {repo} is longer than {LONGEST_LIST:,} bytes, so it is "
                    "no list of files; check HF_ENDPOINT."
                )
            if time.monotonic() > ends:
                raise HubError(f"the hub lists the files of {repo} too slowly; try later.")
    return json.loads(body)


def _size_of(file: Mapping[str, Any]) -> int | None:
    """How long a file is by the hub's list; None where that does not say."""
    size = file.get("size")
    return size if isinstance(size, int) and size >= 0 else None


def snapshot(pin: Pin) -> Path | None:
    """The folder in Hugging Face's cache that holds the model, or a part of it; asks nobody."""
    with hub_errors(pin.repo):
        config = try_to_load_from_cache(pin.repo, "config.json", revision=pin.revision)
    return Path(config).parent if isinstance(config, str) else None


def missing_files(pin: Pin, whole: bool = False) -> tuple[str, ...]:
    """What is read of a model and its snapshot does not hold, in words.

    Empty where it is complete. A model that is known to have no tokenizer lacks none. whole: all
    shards are read, and not only those with the first layer.
    """
    folder = snapshot(pin)
    if folder is None:
        return ("configuration", "tokenizer", "weights")
    with hub_errors(pin.repo):
        present = {path.name for path in folder.iterdir() if path.is_file()}
        marked = try_to_load_from_cache(pin.repo, _TOKENIZER_JSON, revision=pin.revision)
    missing = []
    if not _has_tokenizer(present) and (marked is None or isinstance(marked, str)):
        missing.append("tokenizer")
    weights: Collection[str] = (_WEIGHTS,)
    if _WEIGHTS not in present and _INDEX in present:
        weights = _shards(pin, folder, whole)
    if not present.issuperset(weights):
        missing.append("weights")
    return tuple(missing)


def _has_tokenizer(files: Collection[str]) -> bool:
    return any(all(name in files for name in names) for names in _TOKENIZERS)


def _shards(pin: Pin, folder: Path, whole: bool) -> list[str]:
    """The shards that are read of a model whose configuration and index are in a folder."""
    # Here and not above: who only asks where a model is needs no PyTorch.
    from lnattn.models.architectures import family_of
    from lnattn.models.files import read_config, read_index
    from lnattn.models.sources import Named

    where = read_index(folder / _INDEX)
    if whole:
        return sorted(set(where.values()))
    family = family_of(read_config(folder / "config.json"), Named(pin.repo, where))
    return sorted({where[name] for name in family.first_layer_tensors()})


def download(pin: Pin, whole: bool = False) -> Path:
    """Download what is read of a model unless this machine has it; returns the snapshot's folder.

    Of a model in shards, those that hold the embeddings and the first layer; whole: all of them.
    Raises `HubError` where the model cannot be had, `CheckpointError` where it cannot be used or
    its weights are only a pickle.
    """
    folder = snapshot(pin)
    if folder and not missing_files(pin, whole):
        return folder
    if constants.HF_HUB_OFFLINE:
        raise HubError(
            f"the cache lacks the {' and the '.join(missing_files(pin, whole))} of {pin.repo} at "
            f"{pin.revision[:12]}, and the network is switched off (HF_HUB_OFFLINE); use "
            "'book-gpt2', a local folder, or fetch it once with a network."
        )
    from lnattn.models.adapters import ADAPTER_FILE, refuse_adapter_file  # here: as in `_shards`
    from lnattn.models.architectures import check_supported
    from lnattn.models.files import read_config

    files = _files(pin)
    if ADAPTER_FILE in files:
        refuse_adapter_file(pin.repo)
    with hub_errors(pin.repo):
        config = _fetch(pin, "config.json", files)
        check_supported(read_config(config), pin.repo)
        names: Collection[str] = (_WEIGHTS,)
        if _WEIGHTS not in files and _INDEX in files:
            names = _shards(pin, _fetch(pin, _INDEX, files).parent, whole)
        if absent := sorted(set(names) - files.keys()):
            raise CheckpointError(
                f"{pin.repo} at {config.parent.name[:12]} has no {absent[0]}; its weights may be a "
                "pickle, which could run code when opened: save it as safetensors "
                "(save_pretrained) and name that folder."
            )
        of_tokenizer = {_TOKENIZER_JSON} if _TOKENIZER_JSON in files else set(_TOKENIZER_FILES)
        beside_weights = files.keys() & {*of_tokenizer, *_REFINING}
        for name in (*sorted(beside_weights), *names):
            _fetch(pin, name, files)
        if not _has_tokenizer(files):
            with suppress(EntryNotFoundError):  # remembered, for when there is no network
                hf_hub_download(pin.repo, _TOKENIZER_JSON, revision=pin.revision)
    return config.parent


def _fetch(pin: Pin, name: str, sizes: Mapping[str, int | None]) -> Path:
    """One file of a model, compared with the checksum that the hub states of it.

    The cache takes that for a file name, so it must be nothing but a checksum. sizes: how long each
    file is by the hub's list; no more of it is taken.
    """
    url = hf_hub_url(pin.repo, name, revision=pin.revision)
    stated = get_hf_file_metadata(url, timeout=TIMEOUT).etag or ""
    if not re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", stated):
        raise HubError(f"the hub states no checksum of {name} in {pin.repo}; use another hub.")
    watched = _watching(f"{name} of {pin.repo}", sizes.get(name))
    with _pieces_as_they_come():
        path = Path(
            hf_hub_download(
                pin.repo, name, revision=pin.revision, etag_timeout=TIMEOUT, tqdm_class=watched
            )
        )
    if len(stated) == 64:
        received = sha256_of_file(path)
    else:  # git's own, of small files
        content = path.read_bytes()
        received = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    if received != stated:
        blob = path.resolve()
        in_cache = blob == path.parent.resolve() / path.name or blob.parent.name == "blobs"
        if not in_cache:  # the user's own file, to which the cache has a link
            raise HubError(
                f"{name} of {pin.repo} is in the cache a link to {blob}, which holds other bytes "
                f"than the hub states; delete the link {path}, or mend what it leads to."
            )
        blob.unlink()
        path.unlink(missing_ok=True)
        raise HubError(f"{name} of {pin.repo} arrived damaged and was deleted; try again.")
    return path


@contextmanager
def _pieces_as_they_come() -> Iterator[None]:
    """The client tells of each piece when it comes, not when 10 MB of them have come."""
    usual = constants.DOWNLOAD_CHUNK_SIZE
    constants.DOWNLOAD_CHUNK_SIZE = None  # type: ignore[assignment]
    try:
        yield
    finally:
        constants.DOWNLOAD_CHUNK_SIZE = usual


def _watching(what: str, size: int | None) -> type[tqdm]:
    """A progress bar that ends a download of more bytes than were listed, or of next to none.

    The client tells its bar of every piece before that is written.
    """
    most = LONGEST_UNSTATED if size is None else size

    class Watching(tqdm):
        def __init__(self, *words: Any, **options: Any) -> None:
            options.pop("name", None)
            super().__init__(*words, **options)
            self._begun = time.monotonic()
            self._before = int(options.get("initial") or 0)
            self._received = 0

        def update(self, n: float | None = 1) -> bool | None:
            self._received += int(n or 0)
            if self._before + self._received > most:
                raise HubError(
                    f"the hub sends more of {what} than the {most:,} bytes that it lists; use "
                    "another hub, or try again later."
                )
            seconds = time.monotonic() - self._begun
            if seconds > PATIENCE and self._received < SLOWEST * seconds:
                raise HubError(
                    f"{what} comes too slowly ({self._received:,} bytes in {seconds:.0f} s); try "
                    "again later."
                )
            return super().update(n)

    return Watching
