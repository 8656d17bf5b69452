"""A stand-in for the Hugging Face hub on this machine, which can be told to misbehave.

`huggingface_hub` and `transformers` themselves talk to it (`talk_to`).
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import constants

if TYPE_CHECKING:
    import pytest


@dataclass(frozen=True)
class Request:
    """What a client asked for: GET or HEAD, the path, and the range of bytes (None: all of it)."""

    method: str
    path: str
    span: tuple[int, int | None] | None


@dataclass
class FakeHub:
    """One model repository at one commit, served from memory; every request is recorded.

    files: name → content. faults: path ending → what to do with the next requests for it, in order:
    ("cut", n) closes the connection before byte n of the file; ("status", code, headers) refuses;
    ("wrong", n) flips a bit of byte n; ("slow", seconds) waits before it answers.
    """

    repo: str
    commit: str
    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, list[tuple]] = field(default_factory=dict)
    log: list[Request] = field(default_factory=list)
    url: str = ""
    _entries: dict[str, tuple[bytes, dict[str, Any]]] = field(default_factory=dict)

    def add_folder(self, folder: Path) -> None:
        """Publish every file of a local folder."""
        for path in folder.iterdir():
            self.files[path.name] = path.read_bytes()

    def spans(self, name: str) -> list[tuple[int, int | None]]:
        """The ranges of a file's bytes that were sent, in order; all of it is (0, None)."""
        return [
            request.span or (0, None)
            for request in self.log
            if request.method == "GET" and request.path.endswith(f"/{name}")
        ]

    def fetched(self) -> dict[str, int]:
        """How many bytes of each file were asked for, over all requests together."""
        bytes_of: dict[str, int] = {}
        for name, content in self.files.items():
            for start, stop in self.spans(name):
                last = len(content) if stop is None else min(stop, len(content))
                bytes_of[name] = bytes_of.get(name, 0) + last - start
        return bytes_of

    def entry(self, name: str) -> dict[str, Any]:
        """What the hub says about a file; those with weights are kept apart, by their SHA-256."""
        content = self.files[name]
        known, entry = self._entries.get(name, (None, {}))
        if known is content:
            return entry
        blob = f"blob {len(content)}\0".encode() + content
        git = hashlib.sha1(blob, usedforsecurity=False).hexdigest()
        entry = {"rfilename": name, "size": len(content), "blobId": git}
        if name.endswith(".safetensors"):
            sha = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"sha256": sha, "size": len(content), "pointerSize": 134}
        self._entries[name] = content, entry
        return entry


class Answers(BaseHTTPRequestHandler):
    """Answers with a code, headers and a body, HEAD as GET; says nothing of it on the terminal."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def send(self, code: int, body: bytes, cut: int | None = None, **headers: str) -> None:
        """The answer; cut: close the connection before this byte of the body."""
        self.send_response(code)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            with suppress(ConnectionError):  # the client has given up
                self.wfile.write(body[:cut])
        if cut is not None and cut < len(body):
            self.wfile.flush()
            self.connection.shutdown(2)
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing: the requests are in the log of what is served."""


class _Handler(Answers):
    hubs: tuple[FakeHub, ...]

    def do_GET(self) -> None:  # noqa: C901 (a branch for each answer of a hub)
        path = self.path.split("?")[0]
        hub = next((one for one in self.hubs if f"/{one.repo}/" in f"{path}/"), self.hubs[0])
        start, stop = 0, None
        if text := self.headers.get("Range"):
            first, _, last = text.removeprefix("bytes=").partition("-")
            start, stop = int(first), int(last) + 1 if last else None
        request = Request(self.command, path, (start, stop) if text else None)
        hub.log.append(request)
        fault = next((f for end, f in hub.faults.items() if f and path.endswith(end)), None)
        kind, *values = fault.pop(0) if fault else ("serve",)
        if kind == "status":
            return self.send(values[0], b"", **values[1])
        if kind == "more" and self.command == "GET":
            return self._more(*values)
        if kind == "slow":
            threading.Event().wait(values[0])
        if path.startswith(f"/api/models/{hub.repo}/tree/"):  # of chat templates
            return self.send(404, b"", **{"X-Error-Code": "EntryNotFound"})
        if path.startswith(f"/api/models/{hub.repo}"):
            return self._about(hub, path.partition("/revision/")[2])
        repo, _, rest = path.strip("/").partition("/resolve/")
        revision, _, name = rest.partition("/")
        if repo != hub.repo:
            return self.send(404, b"", **{"X-Error-Code": "RepoNotFound"})
        commit = {"X-Repo-Commit": hub.commit}
        if revision not in ("main", hub.commit):
            return self.send(404, b"", **{"X-Error-Code": "RevisionNotFound"})
        if name not in hub.files:
            return self.send(404, b"", **{"X-Error-Code": "EntryNotFound"}, **commit)
        content, entry = hub.files[name], hub.entry(name)
        if kind == "wrong":
            content = bytearray(content)
            content[values[0]] ^= 1
        headers = {"ETag": f'"{entry["blobId"]}"', "Accept-Ranges": "bytes", **commit}
        if "lfs" in entry:
            headers |= {"X-Linked-ETag": f'"{entry["lfs"]["sha256"]}"'}
            headers |= {"X-Linked-Size": str(len(content))}
        stop = min(stop or len(content), len(content))
        if text:
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(content)}"
        cut = max(values[0] - start, 0) if kind == "cut" else None
        return self.send(206 if text else 200, bytes(content[start:stop]), cut, **headers)

    def _more(self, piece: bytes, times: int, pause: float, packed: bool) -> None:
        """An answer of so many pieces, of no length that is stated; packed: as gzip."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        with suppress(ConnectionError):  # the client has had enough
            for _ in range(times):
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                self.wfile.flush()
                threading.Event().wait(pause)
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def _about(self, hub: FakeHub, revision: str) -> None:
        """The repository's commit and its files."""
        if revision not in ("", "main", hub.commit):
            return self.send(404, b"", **{"X-Error-Code": "RevisionNotFound"})
        files = [hub.entry(name) for name in hub.files]
        about = {"id": hub.repo, "sha": hub.commit, "siblings": files}
        return self.send(200, json.dumps(about).encode(), **{"Content-Type": "application/json"})


@contextmanager
def serving(hub: FakeHub, *others: FakeHub, port: int = 0) -> Iterator[FakeHub]:
    """Serve repositories on a port of this machine, a free one unless it is named."""
    with running(_Handler, port, hubs=(hub, *others)) as hub.url:
        yield hub


@contextmanager
def running(handler: type[Answers], port: int = 0, **served: object) -> Iterator[str]:
    """The address of a server on this machine; served: what its handler is to know."""
    server = ThreadingHTTPServer(("127.0.0.1", port), type("Handler", (handler,), served))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def talk_to(hub: FakeHub, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Make the clients of this process ask a hub, with all caches in a folder."""
    # Read from the environment when huggingface_hub is imported; a test comes later.
    template = f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    for name, value in {
        "ENDPOINT": hub.url,
        "HUGGINGFACE_CO_URL_TEMPLATE": template,
        "HF_HUB_CACHE": str(folder / "hf"),
        "HF_TOKEN_PATH": str(folder / "token"),
        "HF_HUB_OFFLINE": False,
    }.items():
        patch.setattr(constants, name, value)
    patch.setenv("LNATTN_CACHE", str(folder / "cache"))
    for name in ("LNATTN_MODEL", "LNATTN_MODEL_WHY", "HF_TOKEN"):
        patch.delenv(name, raising=False)
