"""Run chapters in the ways that Jupyter's users know, and print a table: `python tools/ways.py`.

Every way starts from the chapter's file and its folder, in the environment of this Python, and
needs no more than `pip install -e ".[book,lab]"`:

- lab: a session of JupyterLab's server, which opens the Markdown file through jupytext; its cells
  go to the session's kernel one after another, as the browser sends them;
- execute: `jupyter execute` of the notebook that jupytext makes. VS Code does the same: its
  Jupytext extension converts by the same command, its Jupyter extension starts the kernelspec
  `python3` of the chosen environment in the notebook's folder;
- jupytext: `jupytext --to ipynb --execute`;
- papermill: with a parameter, `-p MODEL book-gpt2`.

A chapter passes where no cell raises, and where every cell that is a figure on the page shows a
picture. Results are kept in `_build/ways.json`: a table can be put together in several runs.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_core.paths import jupyter_runtime_dir
from nbformat.v4 import output_from_msg

from lnattn.storage import read_json, write_json

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
RESULTS = ROOT / "_build" / "ways.json"
#: Seconds that one cell may take.
TIMEOUT = 3600


# ---- Commands ------------------------------------------------------------------------------------


def command(*words: object) -> None:
    """A command of this Python's environment, from the chapters' folder; its error is raised."""
    program, *rest = map(str, words)
    line = [str(Path(sys.executable).with_name(program)), *rest]
    done = subprocess.run(line, cwd=NOTEBOOKS, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or done.stdout.strip())


@contextmanager
def paired(chapter: Path) -> Iterator[Path]:
    """The notebook that jupytext makes of a chapter, beside it as an editor leaves it."""
    notebook = chapter.with_name(f"{chapter.stem}.way.ipynb")
    try:
        command("jupytext", "--to", "ipynb", "--output", notebook, chapter)
        yield notebook
    finally:
        notebook.unlink(missing_ok=True)


def by_execute(chapter: Path, target: Path) -> None:
    with paired(chapter) as notebook:
        command("jupyter", "execute", f"--timeout={TIMEOUT}", "--inplace", notebook)
        notebook.replace(target)


def by_jupytext(chapter: Path, target: Path) -> None:
    command("jupytext", "--to", "ipynb", "--execute", "--output", target, chapter)


def by_papermill(chapter: Path, target: Path) -> None:
    with paired(chapter) as notebook:
        command("papermill", notebook, target, "-p", "MODEL", "book-gpt2", "--no-progress-bar")


# ---- JupyterLab's server -------------------------------------------------------------------------


class Server:
    """JupyterLab's server over the book's folder, without a browser."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"http://127.0.0.1:{free.getsockname()[1]}"
        self.token = secrets.token_hex(16)
        port = self.address.rpartition(":")[2]
        lab = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
        lab += [f"--ServerApp.port={port}", f"--ServerApp.root_dir={ROOT}"]
        told = {**os.environ, "JUPYTER_TOKEN": self.token}
        self.process = subprocess.Popen(lab, env=told, stderr=subprocess.DEVNULL)

    def ask(self, path: str, body: Mapping[str, Any] | None = None, method: str = "GET") -> Any:
        """What the server answers to a request of its REST interface."""
        request = urllib.request.Request(f"{self.address}/api/{path}", method=method)
        request.add_header("Authorization", f"token {self.token}")
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(request, data) as answer:
            return json.loads(answer.read() or b"null")

    def wait(self, seconds: float = 120) -> None:
        """Until it answers; `RuntimeError` after so many seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                self.ask("status")
            except OSError:
                time.sleep(0.5)
            else:
                return
        raise RuntimeError(f"JupyterLab's server does not answer within {seconds:.0f} s.")

    def run(self, chapter: Path, target: Path) -> None:
        """Open a chapter, run its cells in a session's kernel, write what came out."""
        path = str(chapter.relative_to(ROOT))
        content = self.ask(f"contents/{path}?type=notebook&content=1")["content"]
        notebook = nbformat.from_dict(content)
        session = {"path": path, "name": chapter.name, "type": "notebook"}
        opened = self.ask("sessions", {**session, "kernel": {"name": "python3"}}, "POST")
        try:
            run_cells(notebook, opened["kernel"]["id"])
        finally:
            self.ask(f"sessions/{opened['id']}", method="DELETE")
        nbformat.write(notebook, target)


def run_cells(notebook: Any, kernel: str) -> None:
    """Run code cells in a running kernel, and keep their outputs; the first error is raised."""
    client = BlockingKernelClient()
    client.load_connection_file(str(Path(jupyter_runtime_dir(), f"kernel-{kernel}.json")))
    client.start_channels()
    try:
        client.kernel_info(reply=True, timeout=120)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = []
                run_cell(client, cell)
    finally:
        client.stop_channels()


def run_cell(client: BlockingKernelClient, cell: Any) -> None:
    def keep(message: Mapping[str, Any]) -> None:
        if message["msg_type"] in ("display_data", "execute_result", "stream", "error"):
            cell.outputs.append(output_from_msg(message))

    reply = client.execute_interactive(
        cell.source, allow_stdin=False, output_hook=keep, timeout=TIMEOUT
    )["content"]
    if reply["status"] != "ok":
        raise RuntimeError("\n".join(reply.get("traceback", [reply["status"]])))


# ---- The table -----------------------------------------------------------------------------------

COMMANDS: dict[str, Callable[[Path, Path], None]] = {
    "execute": by_execute,
    "jupytext": by_jupytext,
    "papermill": by_papermill,
}
WAYS = ("lab", *COMMANDS)


def shortcomings(chapter: Path, executed: Path) -> str:
    """What an executed chapter lacks beside its page; '' for nothing."""
    asked = jupytext.read(chapter, fmt="md:myst").cells
    figures = {cell.source for cell in asked if "figure" in cell.metadata.get("mystnb", {})}
    cells = nbformat.read(executed, as_version=4).cells
    outputs = {cell.source: cell.get("outputs", ()) for cell in cells}
    if any(output.output_type == "error" for of_cell in outputs.values() for output in of_cell):
        return "a cell raised"
    without = [source for source in figures if not any(map(_is_picture, outputs.get(source, ())))]
    return f"{len(without)} of {len(figures)} figures show no picture" if without else ""


def _is_picture(output: Any) -> bool:
    return any(kind.startswith("image/") for kind in output.get("data", ()))


def attempt(way: Callable[[Path, Path], None], chapter: Path) -> dict[str, Any]:
    """Run a chapter in one way: the seconds it took, and '' or what went wrong."""
    target = RESULTS.parent / "ways" / f"{chapter.stem}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    try:
        way(chapter, target)
        wrong = shortcomings(chapter, target)
    except RuntimeError as error:
        wrong = str(error)
    finally:
        target.unlink(missing_ok=True)
    return {"seconds": round(time.monotonic() - started), "wrong": wrong}


def table(results: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Chapters by ways, in Markdown: seconds with a tick or a cross; – where not tried."""
    lines = [f"| chapter | {' | '.join(WAYS)} |", f"|:--|{'--:|' * len(WAYS)}"]
    for chapter in sorted(results):
        row = [_shown(results[chapter].get(way)) for way in WAYS]
        lines.append(f"| {chapter} | {' | '.join(row)} |")
    return "\n".join(lines)


def _shown(result: Mapping[str, Any] | None) -> str:
    if result is None:
        return "–"
    return f"{'✗' if result['wrong'] else '✓'} {result['seconds']} s"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools/ways.py", description=__doc__)
    parser.add_argument("--way", choices=WAYS, action="append", help="one of them (default: all)")
    parser.add_argument("--again", action="store_true", help="also what is in the table")
    parser.add_argument("chapters", nargs="*", metavar="CHAPTER", help="names (default: all)")
    options = parser.parse_args(arguments)
    names = options.chapters or sorted(path.stem for path in NOTEBOOKS.glob("*.md"))
    results = read_json(RESULTS) if RESULTS.is_file() else {}
    for way in options.way or WAYS:
        todo = [name for name in names if options.again or way not in results.get(name, {})]
        with runner(way) as run:
            for name in todo:
                result = attempt(run, NOTEBOOKS / f"{name}.md")
                print(f"{way} {name}: {_shown(result)} {result['wrong']}", flush=True)
                results.setdefault(name, {})[way] = result
                write_json(RESULTS, results)
    print(table(results))
    return int(any(result["wrong"] for row in results.values() for result in row.values()))


@contextmanager
def runner(way: str) -> Iterator[Callable[[Path, Path], None]]:
    """The function that runs a chapter in a way, while what it needs is running."""
    if way != "lab":
        yield COMMANDS[way]
        return
    server = Server()
    try:
        server.wait()
        yield server.run
    finally:
        server.process.terminate()
        server.process.wait()


if __name__ == "__main__":
    sys.exit(main())
