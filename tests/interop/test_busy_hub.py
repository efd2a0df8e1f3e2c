"""A hub at which more leaves log in than it can greet tells them when to come again: asked of leaves of both kinds."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests import servers
from tests.rig.waiting import PATIENCE_S, eventually

AGAIN_S = 4
HUB = """
listen: 127.0.0.1:{port}
server_name: hub
leafnodes { listen: "127.0.0.1:{leaf_port}" }
"""
LEAF = """
listen: 127.0.0.1:{port}
server_name: leaf
leafnodes { reconnect: "200ms", remotes: [ { url: "nats-leaf://127.0.0.1:HUB" } ] }
"""
BUSY = """
import runpy, sys
from pathlib import Path
from leafd.logins import arrivals

class Room:
    '''None, while the file is there.'''
    def __init__(self, file): self.file = Path(file)
    def __le__(self, waiting): return self.file.exists()

arrivals.NEWCOMERS_MAX = Room(sys.argv[1])
sys.argv = ["leafd", *sys.argv[5:]]
runpy.run_module("leafd", run_name="__main__")
"""


@contextmanager
def busy_hub(directory: Path) -> Iterator[tuple[servers.Server, Path]]:
    """It has no room for newcomers as long as that file is there."""
    full, program = directory / "full", directory / "busy.py"
    full.touch()
    program.write_text(BUSY)
    (directory / "hub").mkdir()
    hub = servers.make(servers.LEAFD, HUB, directory / "hub")
    hub.start(before=[sys.executable, str(program), str(full)])
    try:
        yield hub, full
    finally:
        hub.stop()


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_leaf_that_a_busy_hub_turns_away_says_so_and_is_linked_when_there_is_room(kind: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        hub, full = stack.enter_context(busy_hub(tmp_path))
        leaf = stack.enter_context(servers.running(kind, LEAF.replace("HUB", str(hub.ports["leaf_port"]))))
        eventually(lambda: "Server is busy: try again in 1 s" in leaf.log, lambda: leaf.log)
        assert "Leafnode connection created" not in hub.log
        full.unlink()
        eventually(lambda: "Leafnode connection created" in hub.log, lambda: leaf.log + hub.log)


def test_a_leaf_comes_when_the_busy_hub_said_and_not_before() -> None:
    """Its own interval is a fifth of a second."""
    with socket.create_server(("127.0.0.1", 0)) as hub:
        hub.settimeout(PATIENCE_S)
        info = {"server_id": "N", "server_name": "hub", "client_id": 1, "info_on_connect": True, "try_again_s": AGAIN_S}
        with servers.running(servers.LEAFD, LEAF.replace("HUB", str(hub.getsockname()[1]))):
            one, _ = hub.accept()
            with one:
                one.sendall(f"INFO {json.dumps(info)}\r\n".encode())
                one.settimeout(PATIENCE_S)
                said = b""
                while some := one.recv(4096):
                    said += some
                told = time.monotonic()
                assert b"CONNECT" not in said
            hub.accept()[0].close()
            assert time.monotonic() - told >= AGAIN_S - 0.1
