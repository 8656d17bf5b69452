"""Show the built book: `python -m booksite.serve` (what `make serve` calls)."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from booksite.settings import BUILD, Folders
from booksite.terminal import say
from lnattn_book.page.places import repository

#: This machine only: a book that is shown is not published.
HOST = "127.0.0.1"


class Host(SimpleHTTPRequestHandler):
    """Shows the site's own page where an address leads nowhere, as hosts of sites do."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        page = Path(self.directory, "404.html")
        if code != HTTPStatus.NOT_FOUND or not page.is_file():
            super().send_error(code, message, explain)
            return
        body = page.read_bytes()
        self.send_response(code, message)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def serve(folder: Path, port: int) -> int:
    """Serve a folder until Ctrl-C; the exit status."""
    if not (folder / "index.html").is_file():
        print("there is no book yet; run: make book", file=sys.stderr)
        return 1
    handler = partial(Host, directory=str(folder))
    try:
        server = ThreadingHTTPServer((HOST, port), handler)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        problem = "is in use, perhaps by another make serve" if taken else error.strerror
        print(f"port {port} {problem}; take another one: make serve PORT=8001", file=sys.stderr)
        return 1
    with server:
        say(f"the book is at http://{HOST}:{server.server_port}/ (stop with Ctrl-C)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


def port_number(text: str) -> int:
    """A port that a program may ask for; 0 lets the system choose one."""
    if text.isdecimal() and int(text) < 2**16:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port; give a number from 1024 to 65535.")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m booksite.serve", description=__doc__)
    parser.add_argument("--port", type=port_number, default=8000)
    options = parser.parse_args(arguments)
    return serve(Folders(repository() / BUILD).html, options.port)


if __name__ == "__main__":
    sys.exit(main())
