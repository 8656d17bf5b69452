"""No test reaches another machine: who tries gets an error, and the test fails whatever it does."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


def is_here(host: Any) -> bool:
    """Whether an address or a name is one of this machine."""
    if host in (None, "", "localhost", socket.gethostname()):
        return True
    try:
        return ipaddress.ip_address(str(host).partition("%")[0]).is_loopback
    except ValueError:
        return False


def is_an_address(host: Any) -> bool:
    """Whether nobody need be asked where a host is."""
    try:
        ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:
        return False
    return True


@contextmanager
def refused() -> Iterator[list[str]]:
    """Every connection to another machine is refused, and written down."""
    tried: list[str] = []
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex
    look_up = socket.getaddrinfo

    def check(end: socket.socket, address: Any) -> None:
        inner = end.family in (socket.AF_INET, socket.AF_INET6)
        # To connect a datagram's socket sends nothing: it asks which address is this machine's.
        if inner and end.type != socket.SOCK_DGRAM and not is_here(address[0]):
            tried.append(str(address[0]))
            raise ConnectionRefusedError(f"a test must not reach {address[0]}")

    def watched(end: socket.socket, address: Any) -> None:
        check(end, address)
        return connect(end, address)

    def watched_ex(end: socket.socket, address: Any) -> int:
        check(end, address)
        return connect_ex(end, address)

    def looked_up(host: Any, *rest: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if not is_here(name) and not is_an_address(name):
            tried.append(str(name))
            raise socket.gaierror(socket.EAI_NONAME, f"a test must not ask for {name}")
        return look_up(host, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", watched)
        patch.setattr(socket.socket, "connect_ex", watched_ex)
        patch.setattr(socket, "getaddrinfo", looked_up)
        yield tried


@pytest.fixture(scope="session", autouse=True)
def connections() -> Iterator[list[str]]:
    """The machines that tests have tried to reach."""
    with refused() as tried:
        yield tried


@pytest.fixture(autouse=True)
def reaches_no_host(connections: list[str]) -> Iterator[None]:
    """Fail a test that asked another machine, whatever it made of the refusal."""
    connections.clear()
    yield
    assert not connections, f"this test asks {', '.join(connections)}; give it a stand-in"
