"""Fetching files of a hub repository with huggingface_hub, into the cache that all programs share.

huggingface_hub 2 throws away what it had of a file when it fails. So a file is read in blocks here,
by its `HfFileSystem`, which retries by itself, and what has arrived is kept: the next run goes on
from there. A file gets its name in the cache when its checksum is the one that the hub states.
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from huggingface_hub import HfFileSystem, constants, get_session, hf_hub_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    HTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
    SafetensorsParsingError,
)
from huggingface_hub.utils import WeakFileLock

from lnattn.errors import HubError
from lnattn.progress import progress_bar

#: A hub that asks for a longer pause than this, in seconds, is not waited for.
LONGEST_PAUSE = 60.0
#: Pauses before the list of a repository's files is asked for again.
PAUSES = (1.0, 5.0)

#: Bytes asked for at a time: what is lost when a connection breaks.
BLOCK = 8 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class PassingHubError(HubError):
    """The hub is busy or silent, or the connection broke: another try may succeed."""


class NotOnHub(HubError):
    """The model exists, but has no such file."""


@dataclass(frozen=True)
class Repository:
    """A model at one commit, and what the hub says about its files.

    folder: its snapshot in the cache, where the configuration lies already; files: name → `size`
    in bytes, `blob_id` (git's SHA-1), and `lfs` (None, or with the SHA-256 of a large file).
    """

    repo: str
    folder: Path
    files: Mapping[str, Mapping[str, Any]]
    system: HfFileSystem

    @property
    def commit(self) -> str:
        return self.folder.name

    @classmethod
    def of(cls, repo: str, config: Path) -> Repository:
        """Ask which files there are beside a configuration that was fetched."""
        for pause in (*PAUSES, None):
            system = HfFileSystem(skip_instance_cache=True)  # another remembers refusals
            try:
                with one_sentence(repo):
                    found: list[Any] = system.ls(f"{repo}@{config.parent.name}", detail=True)
                break
            except PassingHubError:
                if pause is None:
                    raise
                time.sleep(pause)
        files = {item["name"].rpartition("/")[2]: item for item in found}
        return cls(repo, config.parent, files, system)

    def fetch(self, name: str) -> Path:
        """Bring a file into the snapshot; one that an earlier try left unfinished is completed.

        Raises `HubError` where it cannot be had, or is not what the hub says it is.
        """
        about = self.files[name]
        size, tag = about["size"], about["lfs"].sha256 if about["lfs"] else about["blob_id"]
        home = self.folder.parents[1]  # of the model in the cache, laid out as huggingface_hub does
        blob, part = (home / "blobs" / f"{tag}{suffix}" for suffix in ("", ".incomplete"))
        with one_sentence(self.repo):
            blob.parent.mkdir(exist_ok=True)
            with WeakFileLock(home.parent / ".locks" / home.name / f"{tag}.lock"):
                if not blob.is_file() and not (self.folder / name).is_file():
                    self._receive(name, part, size)
                    _verify(part, size, tag, f"{self.repo}/{name}")
                    part.replace(blob)
            # Finds the blob, and gives it its name in the snapshot.
            return Path(hf_hub_download(self.repo, name, revision=self.commit))

    def open(self, name: str) -> Any:
        """A file on the hub; each read is one request for a range of its bytes."""
        return self.system.open(f"{self.repo}@{self.commit}/{name}", "rb", cache_type="none")

    def _receive(self, name: str, part: Path, size: int) -> None:
        have = part.stat().st_size if part.is_file() else 0
        if shutil.disk_usage(part.parent).free < size - have:
            raise OSError(errno.ENOSPC, f"{(size - have) / 1e6:.0f} MB are to come")
        label = f"{self.repo}/{name}"
        # disable=None: on a terminal only.
        bar = progress_bar(
            what=label, total=size, initial=have, unit="B", unit_scale=True, disable=None
        )
        try:
            with part.open("ab") as file, bar, self.open(name) as source:
                source.seek(have)
                while block := source.read(BLOCK):
                    file.write(block)
                    bar.update(len(block))
        except OSError as error:
            if error.errno in _FULL:
                part.unlink()  # what cannot be completed would only keep the disk full
            raise


def _verify(part: Path, size: int, tag: str, label: str) -> None:
    """Compare a file with its size and checksum on the hub; remove a wrong one."""
    have = part.stat().st_size
    digest = hashlib.sha256() if len(tag) == 64 else hashlib.sha1(usedforsecurity=False)
    if len(tag) == 40:  # git hashes a blob with its length in front
        digest.update(f"blob {have}\0".encode())
    with part.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if have != size or digest.hexdigest() != tag:
        part.unlink()
        raise HubError(
            f"{label} arrived with another checksum than the hub states ({have} of {size} bytes); "
            "it was damaged on the way, try again."
        )


_FAILURES = (HTTPError, OSError, EntryNotFoundError, SafetensorsParsingError)


@contextmanager
def one_sentence(repo: str) -> Iterator[None]:
    """Turn whatever goes wrong between here and the hub into one `HubError`."""
    session = get_session()
    hooks = session.event_hooks
    session.event_hooks = {**hooks, "response": [*hooks["response"], _refuse_long_pause]}
    try:
        yield
    except (*_FAILURES, json.JSONDecodeError) as error:  # the latter: a page that is no listing
        kind, text = _explain(error, repo)
        raise kind(text) from error
    finally:
        session.event_hooks = hooks


def _refuse_long_pause(response: Any) -> None:
    asked = response.headers.get("Retry-After", "")
    if response.is_error and asked.isdigit() and float(asked) > LONGEST_PAUSE:
        raise HubError(
            f"{response.url.host} answers {response.status_code} and asks to wait {asked} seconds; "
            "try again later, or use the embedded model 'book-gpt2'."
        )


def _explain(error: BaseException, repo: str) -> tuple[type[HubError], str]:
    """What kind of failure it is, and the sentence that says so."""
    # The cause is what matters of "cannot be fetched and is not here either".
    while not isinstance(error, HTTPError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    host = urlsplit(constants.ENDPOINT).netloc
    code = error.response.status_code if isinstance(error, HfHubHTTPError) else None
    if isinstance(error, RepositoryNotFoundError) or code in (401, 403):
        return HubError, (
            f"{host} refuses {repo} ({code}): there is no such public model, or it needs a login; "
            "check its name, or run 'hf auth login'."
        )
    if isinstance(error, RevisionNotFoundError):
        return HubError, f"{repo} has no such revision; check it, or leave it away."
    if isinstance(error, HfHubHTTPError) and code == 404:
        return NotOnHub, f"{host} has no {error.response.url.path}; check the model's name."
    if code is not None:
        kind = PassingHubError if code in (408, 429) or code >= 500 else HubError
        return kind, f"{host} answers {code} for {repo}; try again later."
    if isinstance(error, HTTPError):
        return PassingHubError, (
            f"the connection to {host} failed ({error or type(error).__name__}); check the "
            "network, or use the embedded model 'book-gpt2' or a local folder."
        )
    if isinstance(error, OSError) and error.errno in _FULL:
        return HubError, (
            f"the disk of the cache is full ({error.strerror}); make room there, or set HF_HOME "
            "to a folder on another disk."
        )
    if isinstance(error, OSError) and error.errno:
        return HubError, (
            f"{repo} cannot be put into the cache ({error.strerror}); check that the folder "
            "HF_HOME can be written to."
        )
    return HubError, f"{repo} cannot be fetched from {host}: {error}".replace("\n", " ")
