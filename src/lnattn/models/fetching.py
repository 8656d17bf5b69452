"""Fetching files of a hub repository into the cache that all programs share.

huggingface_hub throws away what it has of a file when a connection breaks, and retries a silent hub
for minutes. Here one loop (`_Patience`) retries for seconds, what has arrived stays for the next
run, and a file gets its name in the cache when its checksum is the one that the hub states.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from huggingface_hub import HfApi, constants, get_session, hf_hub_url
from huggingface_hub.errors import (
    HfHubHTTPError,
    HTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.file_download import repo_folder_name
from huggingface_hub.utils import WeakFileLock, build_hf_headers, hf_raise_for_status

from lnattn.errors import HubError
from lnattn.progress import progress_bar, say

#: Seconds of silence after which a request is given up.
TIMEOUT = 8.0
#: Pauses before a request is made again: with `TIMEOUT`, 29 seconds at a hub that never answers.
PAUSES = (1.0, 4.0)
#: A hub that asks for a longer pause than this, in seconds, is not waited for.
LONGEST_PAUSE = 15.0

#: Bytes that are written at a time.
BLOCK = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class PassingHubError(HubError):
    """The hub is busy or silent, or the connection broke: another try may succeed."""

    #: Seconds that the hub asks to wait.
    pause = 0.0


@dataclass(frozen=True)
class RemoteFile:
    """What the hub states of a file: its size in bytes, and its SHA-256 or git's SHA-1 of it."""

    size: int
    checksum: str


@dataclass(frozen=True)
class Repository:
    """A model of the hub at one commit: its files by name, and its folder in the cache."""

    repo: str
    commit: str
    home: Path
    files: Mapping[str, RemoteFile | None]

    @property
    def folder(self) -> Path:
        """The snapshot of this commit in the cache."""
        return self.home / "snapshots" / self.commit

    @classmethod
    def at(
        cls, repo: str, revision: str, seconds: float | None = None, tries: int = 1 + len(PAUSES)
    ) -> Repository:
        """The repository at a commit, branch or tag; `HubError` where the hub does not say."""
        patience = _Patience(tries)
        while True:
            try:
                with hub_errors(repo):
                    info = HfApi().model_info(
                        repo, revision=revision, files_metadata=True, timeout=seconds or TIMEOUT
                    )
                break
            except PassingHubError as error:
                patience.wait(error)
        if not re.fullmatch("[0-9a-f]{40}", str(info.sha)):
            raise HubError(f"{_host()} states no commit of {repo}; check HF_ENDPOINT.")
        home = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=repo, repo_type="model")
        files = {file.rfilename: _remote_file(file) for file in info.siblings or ()}
        found = cls(repo, str(info.sha), home, files)
        if revision != found.commit:  # where huggingface_hub looks a branch up without a network
            with hub_errors(repo):
                (home / "refs" / revision).parent.mkdir(parents=True, exist_ok=True)
                (home / "refs" / revision).write_text(found.commit)
        return found

    def about(self, name: str) -> RemoteFile:
        """What the hub states of a file; `HubError` where it does not."""
        file = self.files.get(name)
        if file is None:
            lack = "states no checksum of" if name in self.files else "has no"
            raise HubError(f"{_host()} {lack} {self.repo}/{name}; check the model's name.")
        return file

    def fetch(self, name: str) -> Path:
        """A file's path in the snapshot, after fetching what is not there yet of it.

        Raises `HubError` where it cannot be had, or is not what the hub says it is.
        """
        about, place, label = self.about(name), self.folder / name, f"{self.repo}/{name}"
        blob = self.home / "blobs" / about.checksum
        part = blob.with_name(f"{blob.name}.incomplete")
        with hub_errors(self.repo):
            for folder in (blob.parent, self.folder):
                folder.mkdir(parents=True, exist_ok=True)
            lock = self.home.parent / ".locks" / self.home.name / f"{blob.name}.lock"
            with WeakFileLock(lock):
                if _has_size(place, about.size):
                    return place
                if not _has_size(blob, about.size):
                    self._receive(name, part, about.size)
                    _verify(part, about, label)
                    part.replace(blob)
                place.unlink(missing_ok=True)
                try:
                    place.symlink_to(os.path.relpath(blob, place.parent))
                except OSError:  # a file system without links
                    shutil.copyfile(blob, place)
        return place

    def mark_absent(self, name: str) -> None:
        """Remember, as huggingface_hub does, that this commit has no such file."""
        marker = self.home / ".no_exist" / self.commit / name
        with suppress(OSError):
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()

    def blocks(self, name: str, begin: int, end: int) -> Iterator[bytes]:
        """The bytes of a file from `begin` to `end`; a broken connection is taken up again."""
        at, patience = begin, _Patience()
        while at < end:
            try:
                with hub_errors(self.repo), self._stream(name, at, end) as response:
                    skip = at if response.status_code == 200 else 0  # a hub that sends all of it
                    for block in response.iter_bytes(BLOCK):
                        wanted = block[skip : skip + end - at]
                        skip = max(0, skip - len(block))
                        if wanted:
                            at, patience = at + len(wanted), _Patience()
                            yield wanted
                        if at == end:
                            return
                raise PassingHubError(f"{_host()} sent a part of {self.repo}/{name} only.")
            except PassingHubError as error:
                patience.wait(error)

    @contextmanager
    def _stream(self, name: str, begin: int, end: int) -> Iterator[Any]:
        url = hf_hub_url(self.repo, name, revision=self.commit, endpoint=constants.ENDPOINT)
        span = {"Range": f"bytes={begin}-{end - 1}", "Accept-Encoding": "identity"}
        headers = {**build_hf_headers(), **span}
        with get_session().stream("GET", url, headers=headers, timeout=TIMEOUT) as response:
            hf_raise_for_status(response)
            yield response

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
            with part.open("ab") as file, bar:
                for block in self.blocks(name, have, size):
                    file.write(block)
                    bar.update(len(block))
        except OSError as error:
            if error.errno in _FULL:
                part.unlink()  # what cannot be completed would only keep the disk full
            raise


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _remote_file(file: Any) -> RemoteFile | None:
    """Size and checksum of a listed file, None where they are no size or no checksum.

    The checksum becomes the name of a file, so nothing but hexadecimal digits may pass.
    """
    checksum, pattern = (file.lfs.sha256, "[0-9a-f]{64}") if file.lfs else (file.blob_id, "")
    known = isinstance(checksum, str) and re.fullmatch(pattern or "[0-9a-f]{40}", checksum)
    return RemoteFile(file.size, checksum) if known and isinstance(file.size, int) else None


def _verify(part: Path, about: RemoteFile, label: str) -> None:
    """Compare a file with its size and checksum on the hub; remove a wrong one."""
    have, tag = part.stat().st_size, about.checksum
    digest = hashlib.sha256() if len(tag) == 64 else hashlib.sha1(usedforsecurity=False)
    if len(tag) == 40:  # git hashes a blob with its length in front
        digest.update(f"blob {have}\0".encode())
    with part.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    if have != about.size or digest.hexdigest() != tag:
        part.unlink()
        raise HubError(
            f"{label} arrived with another checksum than the hub states ({have} of {about.size} "
            "bytes) and was removed; it was damaged on the way, try again."
        )


class _Patience:
    """Waits after a failure, and raises it when `PAUSES` are used up; says once that it waits."""

    def __init__(self, tries: int = 1 + len(PAUSES)) -> None:
        self._pauses = iter(PAUSES[: tries - 1])
        self._said = False

    def wait(self, error: PassingHubError) -> None:
        pause = next(self._pauses, None)
        if pause is None:
            raise error
        if not self._said:
            say(f"{_host()} is silent or busy; it is asked {len(PAUSES)} more times.")
        self._said = True
        time.sleep(max(pause, error.pause))


def _host() -> str:
    return urlsplit(constants.ENDPOINT).netloc


@contextmanager
def hub_errors(repo: str) -> Iterator[None]:
    """Turn whatever goes wrong between here and the hub into one `HubError`."""
    try:
        yield
    except HubError:
        raise
    except HfHubHTTPError as error:
        raise _refusal(error, repo) from error
    except HTTPError as error:
        raise PassingHubError(
            f"the connection to {_host()} failed ({error or type(error).__name__}); check the "
            "network, or use the embedded model 'book-gpt2' or a local folder."
        ) from error
    except OSError as error:
        if error.errno in _FULL:
            raise HubError(
                f"the disk of the cache is full ({error.strerror}); make room there, or set "
                "HF_HOME to a folder on another disk."
            ) from error
        raise HubError(
            f"{repo} cannot be put into the cache ({error.strerror}); check that the folder "
            "HF_HOME can be written to."
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HubError(
            f"what {_host()} answers about {repo} is no list of its files; check HF_ENDPOINT, and "
            "whether this network asks for a login."
        ) from error


def _refusal(error: HfHubHTTPError, repo: str) -> HubError:
    """An error for an answer that refuses: passing for a busy hub, final for all others."""
    response, host = error.response, _host()
    code = response.status_code
    if isinstance(error, RepositoryNotFoundError) or code in (401, 403):
        return HubError(
            f"{host} refuses {repo} ({code}): there is no such public model, or it needs a login; "
            "check its name, or run 'hf auth login'."
        )
    if isinstance(error, RevisionNotFoundError):
        return HubError(f"{repo} has no such revision; check it, or leave it away.")
    if code == 404:
        return HubError(f"{host} has no {response.url.path}; check the model's name.")
    asked = response.headers.get("Retry-After", "")
    pause = float(asked) if asked.isdigit() else 0.0
    if pause > LONGEST_PAUSE:
        return HubError(
            f"{host} answers {code} and asks to wait {asked} seconds; try again later, or use the "
            "embedded model 'book-gpt2'."
        )
    kind = PassingHubError if code in (408, 429) or code >= 500 else HubError
    refused = kind(f"{host} answers {code} for {repo}; try again later.")
    if isinstance(refused, PassingHubError):
        refused.pause = pause
    return refused
