"""The built book on a port of this machine, as a host of sites shows it."""

from __future__ import annotations

import argparse
import errno
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from site_pages import served

from booksite import serve
from lnattn_book.page.places import repository


class Silent(serve.Host):
    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("number", [0, 1024, 8000, 65535])
def test_a_port_is_a_number_of_sixteen_bits(number):
    assert serve.port_number(str(number)) == number
    with pytest.raises(argparse.ArgumentTypeError):
        serve.port_number(str(number + 65536))


def test_without_options_the_books_site_is_at_8000(monkeypatch):
    asked = []
    monkeypatch.setattr(serve, "serve", lambda *given: asked.append(given) or 5)
    assert serve.main([]) == 5
    assert serve.main(["--port", "0"]) == 5
    site = repository() / "_build" / "html"
    assert asked == [(site, 8000), (site, 0)]


def test_a_port_that_the_system_refuses_is_one_sentence(tmp_path, monkeypatch, capsys):
    def refuse(*_):
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(serve, "ThreadingHTTPServer", refuse)
    (tmp_path / "index.html").touch()
    assert serve.serve(tmp_path, 80) == 1
    assert capsys.readouterr().err.startswith("port 80 Permission denied; take another one")


def answer(address: str, request: str) -> tuple[bytes, bytes]:
    """Head and body of an answer."""
    with socket.create_connection((serve.HOST, urlsplit(address).port)) as line:
        line.sendall(f"{request}\r\n\r\n".encode())
        head, _, body = line.makefile("rb").read().partition(b"\r\n\r\n")
        return head, body


def test_the_page_for_lost_readers_is_for_them_alone(tmp_path: Path):
    page = "<p>Not here: é</p>".encode()
    (tmp_path / "404.html").write_bytes(page)
    with served(tmp_path, Silent) as address:
        for method, body in (("GET", page), ("HEAD", b"")):
            head, sent = answer(address, f"{method} /none.html HTTP/1.0")
            assert b" 404 " in head.splitlines()[0]
            assert f"Content-Length: {len(page)}".encode() in head
            assert sent == body
        for request, status in (("POST / HTTP/1.0", b"501"), ("no request", b"400")):
            said = b"".join(answer(address, request))
            assert b"Error code: " + status in said
            assert page not in said
