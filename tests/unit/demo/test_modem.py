"""The demo behind a bad line: doors lead to it, its processes are in it, and where there is none it says so."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest
from demo_job import modem as modems
from demo_job.modem import LINES, Modem
from demo_job.nodes import NodeError, free_port

from tests import cell

MISSING = cell.missing()
LISTENER = """
import socket
listener = socket.create_server(("127.0.0.1", int(__import__("sys").argv[1])))
print("ready", flush=True)
while True:
    connection = listener.accept()[0]
    connection.sendall(connection.recv(99).upper())
    connection.close()
"""
FAR = """
import socket, sys, time
began = time.monotonic()
socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
print(time.monotonic() - began, flush=True)
"""


def test_without_the_right_to_make_namespaces_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is started, and whoever reads it knows what to do."""
    monkeypatch.setattr(modems, "missing", lambda: "no namespaces with a TUN device: Operation not permitted")
    with pytest.raises(NodeError, match="needs root and /dev/net/tun: no namespaces"):
        Modem("cell")


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_a_door_leads_to_the_port_of_the_same_number_in_the_place() -> None:
    """A process that was begun there is reached from here, and the line is between it and the hub's place."""

    async def begun(modem: Modem, text: str, *words: str, hub: bool) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-c", text, *words, stdout=asyncio.subprocess.PIPE, preexec_fn=modem.enter(hub=hub)
        )

    async def scenario() -> float:
        modem, port = Modem("satellite"), free_port()
        listener = await begun(modem, LISTENER, str(port), hub=False)
        at_hub = modem.socket(hub=True)
        try:
            assert listener.stdout is not None
            assert await listener.stdout.readline() == b"ready\n"
            await modem.door(port, hub=False)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"hello")
            assert await asyncio.wait_for(reader.read(), 20) == b"HELLO"
            writer.close()
            at_hub.bind((modem.address, 0))
            at_hub.listen()
            began = time.monotonic()
            dialler = await begun(modem, FAR, modem.address, str(at_hub.getsockname()[1]), hub=False)
            told, _ = await asyncio.wait_for(dialler.communicate(), 60)
            assert time.monotonic() - began >= float(told)
            return float(told)
        finally:
            listener.kill()
            await listener.wait()
            at_hub.close()
            modem.close()

    assert asyncio.run(scenario()) >= 2 * LINES["satellite"].delay
