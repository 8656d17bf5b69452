"""A stand-in for the Hugging Face hub on this machine, which can be told to misbehave."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass(frozen=True)
class Request:
    """What a client asked for: path, byte range (None: all of it), and its login."""

    path: str
    span: tuple[int, int | None] | None
    login: str | None


@dataclass
class FakeHub:
    """Serves files by path and records every request.

    files: path → content. faults: path ending → what to do to the next requests for it, in order:
    ("status", code, headers), ("cut", bytes) sends so many bytes and closes the connection.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, list[tuple]] = field(default_factory=dict)
    log: list[Request] = field(default_factory=list)
    ranges: bool = True
    wrong_checksum: bool = False
    #: Address of another FakeHub that large files are redirected to.
    store: str | None = None
    commit: str | None = None
    url: str = ""

    def add_folder(self, folder: Path, repo: str, revision: str) -> None:
        """Publish every file of a local folder as a model repository at one revision."""
        for path in folder.iterdir():
            self.files[f"/{repo}/resolve/{revision}/{path.name}"] = path.read_bytes()

    def sent_bytes(self, ending: str) -> int:
        """Bytes that all requests for a file together asked for."""
        total = 0
        for request in self.log:
            if request.path.endswith(ending):
                start, stop = request.span or (0, None)
                size = len(self.files[request.path])
                total += (size if stop is None else stop) - start
        return total

    def paths(self) -> list[str]:
        return [request.path.rsplit("/", 1)[-1] for request in self.log]


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        hub = self.hub
        span = self._span()
        hub.log.append(Request(self.path, span, self.headers.get("Authorization")))
        fault = next((f for end, f in hub.faults.items() if f and self.path.endswith(end)), None)
        action = fault.pop(0) if fault else ("serve",)
        if action[0] == "status":
            return self._empty(action[1], action[2])
        content = hub.files.get(self.path)
        if content is None:
            return self._empty(404, {})
        if hub.store and self.path.endswith(".safetensors"):
            tag = hashlib.sha256(content).hexdigest()
            return self._empty(302, {"Location": hub.store + self.path, "X-Linked-Etag": tag})
        return self._content(content, span, action)

    def _content(self, content: bytes, span: tuple | None, action: tuple) -> None:
        start, stop = span if span and self.hub.ranges else (0, None)
        if span and self.hub.ranges and start >= len(content):
            return self._empty(416, {"Content-Range": f"bytes */{len(content)}"})
        stop = len(content) if stop is None else min(stop, len(content))
        body = content[start:stop]
        partial = span is not None and self.hub.ranges
        self.send_response(206 if partial else 200)
        if partial:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
        blob = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
        self.send_header("ETag", f'"{"0" * 40 if self.hub.wrong_checksum else blob}"')
        if self.hub.commit:
            self.send_header("X-Repo-Commit", self.hub.commit)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if action[0] == "cut":
            self.wfile.write(body[: action[1]])
            self.wfile.flush()
            self.connection.shutdown(2)
            self.close_connection = True
            return None
        self.wfile.write(body)
        return None

    def _span(self) -> tuple[int, int | None] | None:
        text = self.headers.get("Range")
        if text is None:
            return None
        start, _, last = text.removeprefix("bytes=").partition("-")
        return int(start), int(last) + 1 if last else None

    def _empty(self, code: int, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing: the requests are in `FakeHub.log`."""


@contextmanager
def serving(hub: FakeHub) -> Iterator[FakeHub]:
    """Run a hub on a free port of this machine."""
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
