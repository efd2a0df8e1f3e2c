"""Room that a store no longer needs goes back to the file system while the daemon runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.bench.process import Api
from tests.rig.raw import RawClient
from tests.rig.waiting import PATIENCE_S, eventually

CONFIGURATION = 'listen: "127.0.0.1:{port}"\njetstream { store_dir: "{store}" }\n'
SIZE = 64 << 10
COUNT = 2_400  # 150 MB; what is kept with blocks comes to some 40
LEFT = 100


def taken(store: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in store.rglob("data.mdb"))


def fill(port: int, count: int, mark: bytes) -> None:
    with RawClient(port) as client:
        client.subscribe("acks")
        message = b"PUB given acks %d\r\n" % SIZE + mark * (SIZE // len(mark)) + b"\r\n"
        for _ in range(0, count, 100):
            client.send(message * 100)
            for _ in range(100):
                assert "stream" in client.message().document


def payload_begins(api: Api, seq: int) -> bytes:
    answer = api.must("$JS.API.STREAM.MSG.GET.GIVEN", {"seq": seq})
    return str(answer["message"]["data"]).encode()[:8]


@contextlib.contextmanager
def running(server: servers.Server) -> Iterator[Api]:
    server.start()
    try:
        api = Api(server.port)
        yield api
        api.close()
    finally:
        server.stop()


@pytest.fixture
def server(tmp_path: Path) -> servers.Server:
    return servers.make(servers.LEAFD, CONFIGURATION, tmp_path)


def test_a_purge_gives_the_disk_back_and_what_is_left_stays(server: servers.Server, tmp_path: Path) -> None:
    with running(server) as api:
        api.must("$JS.API.STREAM.CREATE.GIVEN", {"name": "GIVEN", "subjects": ["given"]})
        fill(server.port, COUNT, b"before..")
        eventually(lambda: taken(tmp_path) >= COUNT * SIZE, lambda: taken(tmp_path), seconds=PATIENCE_S)
        full = taken(tmp_path)
        api.must("$JS.API.STREAM.PURGE.GIVEN", {"keep": LEFT})
        eventually(lambda: taken(tmp_path) <= full // 2, lambda: taken(tmp_path), seconds=PATIENCE_S)
        begins = {payload_begins(api, seq) for seq in range(COUNT - LEFT + 1, COUNT + 1)}
        assert len(begins) == 1
    with running(server) as api:  # and a start does not take it again
        assert taken(tmp_path) <= full // 2
        fill(server.port, COUNT, b"after...")
        assert begins == {payload_begins(api, seq) for seq in range(COUNT - LEFT + 1, COUNT + 1)}
        assert begins.isdisjoint({payload_begins(api, seq) for seq in range(COUNT + 1, 2 * COUNT, 100)})
