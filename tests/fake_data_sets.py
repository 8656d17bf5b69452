"""A stand-in for the hub's data sets on this machine, to which `datasets` itself talks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import PurePosixPath
from urllib.parse import parse_qs, unquote

from fake_hub import Answers, running


@dataclass
class DataSet:
    """One repository of files at one commit; `log` has every request: method and path."""

    repo: str
    commit: str
    files: dict[str, bytes]
    log: list[tuple[str, str]] = field(default_factory=list)
    url: str = ""

    def folders(self) -> set[str]:
        """All folders of the files."""
        parents = (path for name in self.files for path in PurePosixPath(name).parents)
        return {str(path) for path in parents} - {"."}

    def below(self, folder: str, recursive: bool) -> list[dict[str, object]]:
        """What lies in a folder, or anywhere below it."""
        prefix = f"{folder}/" if folder else ""
        names = (name for name in [*self.files, *self.folders()] if name.startswith(prefix))
        depth = prefix.count("/")
        return [self.entry(name) for name in names if recursive or name.count("/") == depth]

    def entry(self, name: str) -> dict[str, object]:
        """What the hub says about a file or a folder."""
        if name not in self.files:
            return {"type": "directory", "path": name, "size": 0, "oid": "0" * 40}
        content = self.files[name]
        oid = sha1(content, usedforsecurity=False).hexdigest()
        return {"type": "file", "path": name, "size": len(content), "oid": oid}


class _Handler(Answers):
    data: DataSet

    def do_POST(self) -> None:
        """Paths of which the client asks whether they are there."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        asked = (
            json.loads(body)["paths"] if body.startswith("{") else parse_qs(body).get("paths", [])
        )
        there = {*self.data.files, *self.data.folders()}
        self._json([self.data.entry(name) for name in asked if name in there])

    def do_GET(self) -> None:
        path = unquote(self.path.split("?")[0])
        self.data.log.append((self.command, path))
        api, files = f"/api/datasets/{self.data.repo}", f"/datasets/{self.data.repo}/resolve/"
        if path.startswith(files):
            revision, _, name = path.removeprefix(files).partition("/")
            return self._file(revision, name)
        if path != api and not path.startswith(f"{api}/"):
            return self._refuse("RepoNotFound")
        what, _, rest = path.removeprefix(api).strip("/").partition("/")
        revision, _, folder = rest.partition("/")
        if revision not in ("", "main", self.data.commit):
            return self._refuse("RevisionNotFound")
        if what == "tree":
            return self._json(self.data.below(folder, "recursive=true" in self.path.lower()))
        siblings = [{"rfilename": name} for name in self.data.files]
        return self._json({"id": self.data.repo, "sha": self.data.commit, "siblings": siblings})

    def _file(self, revision: str, name: str) -> None:
        if revision not in ("main", self.data.commit):
            return self._refuse("RevisionNotFound")
        if name not in self.data.files:
            return self._refuse("EntryNotFound")
        content = self.data.files[name]
        headers = {"ETag": f'"{self.data.entry(name)["oid"]}"', "Accept-Ranges": "bytes"}
        start, stop = 0, len(content)
        if text := self.headers.get("Range"):
            first, _, last = text.removeprefix("bytes=").partition("-")
            start, stop = int(first), min(int(last) + 1 if last else stop, stop)
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(content)}"
        self._send(206 if text else 200, content[start:stop], **headers)

    def _refuse(self, code: str) -> None:
        self._send(404, b"{}", **{"X-Error-Code": code})

    def _json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), **{"Content-Type": "application/json"})

    def _send(self, code: int, body: bytes, **headers: str) -> None:
        self.send(code, body, **{"X-Repo-Commit": self.data.commit, **headers})


@contextmanager
def serving(data: DataSet) -> Iterator[DataSet]:
    """Serve a data set on a free port of this machine."""
    with running(_Handler, data=data) as data.url:
        yield data
