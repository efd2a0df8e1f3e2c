"""Streams take messages whatever max_payload says, also where the store could not hold one that large."""

from __future__ import annotations

import json

import pytest

from tests.interop.jwt_peer import Peer, close_all
from tests.rig.raw import RawClient
from tests.servers import KINDS, running


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", ["8MB", "64MB"])
@pytest.mark.parametrize("storage", ["memory", "file"])
def test_small_messages_find_room_beside_a_large_max_payload(kind: str, size: str, storage: str) -> None:
    """A publisher is answered at once: no room is kept for a message that a batch cannot hold at all."""
    text = f'listen: "127.0.0.1:{{port}}"\nmax_payload: {size}\njetstream {{ store_dir: "{{store}}" }}\n'
    with running(kind, text.replace("{{", "{").replace("}}", "}")) as server:
        try:
            peer = Peer(server)
            body = json.dumps({"name": "S", "subjects": ["s"], "storage": storage})
            assert b'"error"' not in peer.answers("$JS.API.STREAM.CREATE.S", body)[0]
            assert [1, 2] == [json.loads(peer.answers("s", b"x")[0])["seq"] for _ in range(2)]
        finally:
            close_all()


@pytest.mark.parametrize("kind", KINDS)
def test_who_sends_too_much_gets_the_error_and_then_a_reset(kind: str) -> None:
    """Clients report the end of a connection as a broken one, by the reset; nats.java's tests ask for it."""
    text = "listen: 127.0.0.1:{port}\nmax_payload: 1000\n"
    with running(kind, text) as server, RawClient(server) as client:
        stream = client.socket
        client.publish("a", bytes(1001))
        said = b""
        with pytest.raises(ConnectionResetError):
            while True:
                some = stream.recv(4096)
                assert some, said
                said += some
    assert b"-ERR 'Maximum Payload Violation'" in said
