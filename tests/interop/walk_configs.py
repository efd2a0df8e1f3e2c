"""Runs configs/hub.conf and configs/leaf.conf as they stand, on their own ports, in a network of its own.

    walk_configs.py HUB_KIND LEAF_KIND      (as root; started by test_configs.py)

Each line printed is something that was seen; the exit status is not 0 when something was not.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import socket
import struct
import sys
import tempfile
from pathlib import Path

import nats
import nats.errors
from nats.aio.client import Client

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests import servers  # noqa: E402  (the path comes first)

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
UP_AND_RUNNING = 1 | 64


def own_network() -> None:
    """Leaves the machine's network for an empty one, where every port is free."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "no network namespace")
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", UP_AND_RUNNING))


async def api(client: Client, subject: str, body: object = None) -> dict[str, object]:
    """A JetStream request, tried again until the link has brought the interest."""
    async with asyncio.timeout(20):
        while True:
            try:
                answer = await client.request(subject, json.dumps(body).encode() if body else b"", timeout=2)
                return dict(json.loads(answer.data))
            except (nats.errors.NoRespondersError, nats.errors.TimeoutError):
                await asyncio.sleep(0.1)


async def look() -> None:
    options: dict[str, object] = {"allow_reconnect": False, "connect_timeout": 5}
    hub = await nats.connect("nats://acc:acc@127.0.0.1:4222", **options)
    leaf = await nats.connect("nats://acc:acc@127.0.0.1:4111", **options)
    assert "hub" == (await api(hub, "$JS.API.INFO"))["domain"]
    assert "leaf" == (await api(leaf, "$JS.API.INFO"))["domain"]
    print("each side has its own domain")
    made = await api(hub, "$JS.leaf.API.STREAM.CREATE.TEST", {"name": "TEST", "subjects": ["test"]})
    assert made.get("did_create"), made
    await leaf.jetstream().publish("test", b"from the leaf")
    got = await api(hub, "$JS.leaf.API.STREAM.INFO.TEST")
    assert isinstance(got["state"], dict)
    assert 1 == got["state"]["messages"]
    print("the hub manages the leaf's domain")
    for port in (4222, 4111):
        with contextlib.suppress(nats.errors.Error):
            await nats.connect(f"nats://acc:wrong@127.0.0.1:{port}", **options)
            raise AssertionError(f"a wrong password was taken at {port}")
    print("a wrong password is refused")
    admin = await nats.connect("nats://admin:admin@127.0.0.1:4222", **options)
    inbox = await admin.subscribe("answers")
    await admin.publish("$SYS.REQ.SERVER.PING", b"", reply="answers")
    names = set()
    for _ in range(2):
        names.add(json.loads((await inbox.next_msg(timeout=5)).data)["server"]["name"])
    assert {"hub-server", "leaf-server"} == names
    print("the system account sees both servers")
    for client in (hub, leaf, admin):
        await client.close()


def main() -> None:
    own_network()
    with tempfile.TemporaryDirectory(prefix="leafd-configs-") as directory, contextlib.ExitStack() as stack:
        for file in (ROOT / "configs").glob("*.conf"):
            shutil.copy(file, directory)
        os.chdir(directory)
        for kind, name, port in ((sys.argv[1], "hub", 4222), (sys.argv[2], "leaf", 4111)):
            server = servers.Server(kind, Path(directory), "", {"port": port})
            server.start(f"{name}.conf")
            stack.callback(server.stop)
        asyncio.run(look())


if __name__ == "__main__":
    main()
