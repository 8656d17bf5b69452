"""Fetching parts of files over HTTP so that no interruption costs what has already arrived.

Every download goes to a `.part` file beside its destination. A cut connection is taken up again
where it stopped, by a range request; so is a download that an earlier process left unfinished. The
finished file is checked, if the server names a checksum, and then renamed into place.
"""

from __future__ import annotations

import hashlib
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from huggingface_hub import get_token
from tqdm import tqdm

from lnattn.errors import HubError

#: How often a request is tried, in all, before giving up, and the first pause between tries.
ATTEMPTS = 5
PAUSE_SECONDS = 1.0
#: A server that asks for a longer pause than this is not waited for.
LONGEST_PAUSE_SECONDS = 60.0
TIMEOUT_SECONDS = 20.0

_CHUNK = 1 << 20
_REDIRECTS = 5
#: A bar for less than this would only flicker.
_BAR_FROM_BYTES = 4 << 20

# Replaced in tests, so that none waits.
sleep: Callable[[float], None] = time.sleep


class NotFoundOnHub(HubError):
    """The hub has no such file (or does not show it without a login)."""


class _NothingLeft(HubError):
    """The file ends before the first byte that was asked for."""


@dataclass(frozen=True)
class Answer:
    """An open response and what the hub says about the file behind it."""

    body: Any
    status: int
    #: Headers of the hub's own answer, then of the store it redirected to; lower-case names.
    headers: dict[str, str]

    @property
    def size(self) -> int | None:
        """Length of the whole file, whether all or a part of it is being sent."""
        span = self.headers.get("content-range", "")
        text = span.rpartition("/")[2] if span else self.headers.get("content-length", "")
        return int(text) if text.isdigit() else None

    @property
    def checksum(self) -> str | None:
        """The hub's checksum: SHA-256 of a large file, git's SHA-1 of a small one, else None."""
        tag = self.headers.get("x-linked-etag") or self.headers.get("etag") or ""
        return tag.removeprefix("W/").strip('"') or None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Redirects are followed by hand: to see the hub's headers, and to keep the login there."""

    def redirect_request(self, *_: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirect)


def open_once(url: str, start: int = 0, stop: int | None = None, *, timeout: float) -> Answer:
    """One request for bytes start … stop−1 of a URL, redirects followed.

    Raises `urllib.error.HTTPError` for a refusal, and `OSError` where there is no connection.
    """
    headers = {"User-Agent": "lnattn", "Accept-Encoding": "identity"}
    if start or stop is not None:
        headers["Range"] = f"bytes={start}-{'' if stop is None else stop - 1}"
    token = get_token()
    home, seen = urllib.parse.urlsplit(url), {}
    for _ in range(_REDIRECTS):
        here = urllib.parse.urlsplit(url)
        request = urllib.request.Request(url, headers=headers)
        if token and (here.scheme, here.netloc) == (home.scheme, home.netloc):
            request.add_header("Authorization", f"Bearer {token}")
        try:
            body = _opener.open(request, timeout=timeout)
        except urllib.error.HTTPError as error:
            target = error.headers.get("Location")
            if error.code not in (301, 302, 303, 307, 308) or not target:
                raise
            seen.update({k.lower(): v for k, v in error.headers.items()})
            url = urllib.parse.urljoin(url, target)
            allowed = ("https",) if here.scheme == "https" else ("https", "http")
            if urllib.parse.urlsplit(url).scheme not in allowed:
                raise HubError(f"{home.netloc} redirects to {url!r}, which is not safe.") from error
            continue
        # Lengths are those of the file itself; everything else keeps the hub's own word.
        final = {k.lower(): v for k, v in body.headers.items()}
        for name in ("content-length", "content-range"):
            seen.pop(name, None)
        return Answer(body, body.status, {**final, **seen})
    raise HubError(f"{home.netloc} redirects in circles; try again later.")


def open_patiently(
    url: str, start: int, stop: int | None, failed: int
) -> tuple[Answer | None, int]:
    """Like `open_once`, but a passing failure is waited out.

    failed: tries that have failed so far. Returns the answer, or None after a pause, and the new
    number of failures. Raises `HubError` for a failure that will not pass, or the last try.
    """
    host = urllib.parse.urlsplit(url).netloc
    pause = PAUSE_SECONDS * 2**failed
    try:
        return open_once(url, start, stop, timeout=TIMEOUT_SECONDS), failed
    except urllib.error.HTTPError as error:
        with error:
            _raise_if_final(error, url, host)
            asked = _retry_after(error.headers.get("Retry-After"))
        reason, pause = f"answers {error.code}", pause if asked is None else asked
    except (OSError, HTTPException) as error:
        reason = f"cannot be reached ({getattr(error, 'reason', None) or error})"
    wait_or_give_up(host, reason, failed + 1, pause)
    return None, failed + 1


def wait_or_give_up(host: str, reason: str, failed: int, pause: float) -> None:
    """Sleep before the next try, or raise `HubError` when there is none left."""
    if failed >= ATTEMPTS or pause > LONGEST_PAUSE_SECONDS:
        again = f"; it asks to wait {pause:.0f} seconds" if pause > LONGEST_PAUSE_SECONDS else ""
        raise HubError(
            f"{host} {reason}, after {failed} tries{again}; check the network, or use the "
            "embedded model 'book-gpt2' or a local folder."
        )
    sleep(pause)


def _raise_if_final(error: urllib.error.HTTPError, url: str, host: str) -> None:
    path = urllib.parse.unquote(urllib.parse.urlsplit(url).path)
    if error.code == 404:
        raise NotFoundOnHub(f"{host} has no {path}; check the model's name and revision.")
    if error.code in (401, 403):
        raise NotFoundOnHub(
            f"{host} refuses {path} ({error.code}): there is no such public model, or it needs a "
            "login; check its name, or run 'hf auth login'."
        )
    if error.code == 416:
        raise _NothingLeft(f"{path} on {host} is shorter than expected; it is cut short.")
    if error.code != 429 and error.code < 500:
        raise HubError(f"{host} answers {error.code} {error.reason} for {path}.")


def _retry_after(text: str | None) -> float | None:
    """Seconds of a Retry-After header; the rare form with a date is left to the back-off."""
    try:
        return max(0.0, float(text or ""))
    except ValueError:
        return None


def fetch(url: str, path: Path, start: int = 0, stop: int | None = None) -> Answer | None:
    """Download a URL, or bytes start … stop−1 of it, to `path`; return the last answer.

    Goes on where an earlier try stopped. A whole file is compared with the hub's checksum.
    Returns None where an earlier try had already received every byte of the range.
    Raises `HubError` when the file cannot be had, or is not what the hub says it is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.touch()
    host = urllib.parse.urlsplit(url).netloc
    answer, failed, restarted = None, 0, False
    while stop is None or part.stat().st_size < stop - start:
        before = part.stat().st_size
        try:
            answer, failed = open_patiently(url, start + before, stop, failed)
        except _NothingLeft:
            if stop is not None or not before or restarted:
                raise
            part.unlink()  # longer than the file, so of another one: begin again, once
            part.touch()
            restarted = True
            continue
        except NotFoundOnHub:
            part.unlink()
            raise
        if answer is None:
            continue
        goal = answer.size if stop is None else stop
        have, reason = _receive(answer, part, before, start, goal, path.name)
        if reason is None and (goal is None or have == goal - start):
            break
        failed = 1 if have > before else failed + 1
        reason = reason or f"sent {have} of {(goal or 0) - start} bytes and closed the connection"
        wait_or_give_up(host, reason, failed, PAUSE_SECONDS * 2 ** (failed - 1))
    if answer is not None and start == 0 and stop is None:
        _verify(part, answer, host)
    part.replace(path)
    return answer


def _receive(
    answer: Answer, part: Path, have: int, start: int, goal: int | None, title: str
) -> tuple[int, str | None]:
    """Append a response to the part file; return its new length and what went wrong, if anything.

    A server that does not know range requests sends the whole file (200): what we have, and what
    we do not want, is skipped.
    """
    skip = start + have if answer.status == 200 else 0
    total = None if goal is None else goal - start
    bar = tqdm(
        total=total,
        initial=have,
        unit="B",
        unit_scale=True,
        desc=title,
        # None: shown on a terminal only, so that no notebook page is littered with bars.
        disable=True if total is not None and total < _BAR_FROM_BYTES else None,
    )
    with answer.body as body, bar, part.open("ab") as file:
        while total is None or have < total:
            try:
                chunk = body.read(_CHUNK)
            except (OSError, HTTPException) as error:
                return have, f"broke the connection off ({error or type(error).__name__})"
            if not chunk:
                break
            dropped = min(skip, len(chunk))
            skip -= dropped
            chunk = chunk[dropped : None if total is None else dropped + total - have]
            file.write(chunk)
            have += len(chunk)
            bar.update(len(chunk))
    return have, None


def _verify(part: Path, answer: Answer, host: str) -> None:
    """Compare a finished file with the hub's checksum; a wrong one is removed."""
    expected = answer.checksum
    if expected is None or len(expected) not in (40, 64):
        return  # neither a SHA-256 nor a git object: the server names no checksum
    digest = hashlib.sha256() if len(expected) == 64 else hashlib.sha1(usedforsecurity=False)
    if len(expected) == 40:  # git hashes a blob with its length in front
        digest.update(f"blob {part.stat().st_size}\0".encode())
    with part.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != expected:
        part.unlink()
        raise HubError(
            f"{part.name.removesuffix('.part')} from {host} does not have the checksum that the "
            "hub names; it was damaged on the way, try again."
        )


def offline() -> bool:
    """True where the environment forbids the network: HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE."""
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return any(os.environ.get(n, "").upper() in {"1", "ON", "YES", "TRUE"} for n in names)
