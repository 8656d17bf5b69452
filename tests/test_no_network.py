"""The guard that keeps tests from other machines."""

from __future__ import annotations

import socket
import urllib.request

import pytest
from no_network import is_here


@pytest.mark.parametrize("host", ["huggingface.co", "93.184.216.34", "::ffff:1.1.1.1", "10.0.0.1"])
def test_another_machine_cannot_be_reached_and_the_attempt_is_written_down(host, connections):
    with pytest.raises(OSError, match="a test must not"):
        socket.create_connection((host, 80), timeout=1)
    assert connections == [host]
    connections.clear()
    address = f"http://[{host}]/" if ":" in host else f"http://{host}/"
    with pytest.raises(OSError, match="a test must not"):
        urllib.request.urlopen(address, timeout=1)
    assert connections == [host]
    connections.clear()


def test_this_machine_can(connections):
    for host in ("127.0.0.1", "localhost"):
        with socket.create_server((host, 0)) as server:
            socket.create_connection(server.getsockname()[:2], timeout=5).close()
    assert connections == []
    assert is_here("::1")
