"""Consumers that nobody uses: with the shortest threshold one is there for who has made it, and then gone."""

from __future__ import annotations

import time

import pytest

from tests.hostile.wires import Asker
from tests.rig.waiting import eventually
from tests.servers import KINDS, running

CONFIGURATION = 'listen: 127.0.0.1:{port}\njetstream { store_dir: "{store}" }\n'
GONE_S = 10.0
WAIT_NS = 50_000_000
SOON_S = 0.2
"""At the best of several times: the machine may be busy."""
NOT_FOUND = 10014
ORDERS = {"DELETE": 0, "INFO": 0, "PAUSE": 0, "RESET": 0, "UNPIN": 10160}
TIMES = 10


def body(name: str) -> dict[str, object]:
    """A consumer that is inactive after a nanosecond."""
    return {"stream_name": "S", "config": {"name": name, "ack_policy": "explicit", "inactive_threshold": 1}}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", ORDERS)
def test_it_is_there_for_who_has_just_made_it(kind: str, order: str) -> None:
    """Each order to it right after the answer to its creation is obeyed, and it is not listed for ever."""
    with running(kind, CONFIGURATION) as server, Asker(server.port) as asker:
        asker.asked("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        for number in range(TIMES):
            name = f"c{number}"
            assert 0 == asker.err_code(f"$JS.API.CONSUMER.CREATE.S.{name}", body(name))
            asked = {"group": "g"} if order == "UNPIN" else b""
            assert ORDERS[order] == asker.err_code(f"$JS.API.CONSUMER.{order}.S.{name}", asked)
        eventually(
            lambda: not asker.asked("$JS.API.CONSUMER.NAMES.S")["consumers"],
            "consumers that nobody uses stay",
            seconds=GONE_S,
        )
        assert NOT_FOUND == asker.err_code("$JS.API.CONSUMER.DELETE.S.c0")


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_pushes_goes_as_soon_as_nobody_has_listened_for_its_threshold(kind: str) -> None:
    """The official Go client's own tests ask for it a tenth of a second later."""
    with running(kind, CONFIGURATION) as server, Asker(server.port) as asker:
        asker.asked("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        took = []
        for number in range(TIMES):
            config = {
                "name": f"p{number}",
                "ack_policy": "none",
                "deliver_subject": "d",
                "inactive_threshold": 50_000_000,
            }
            begun = time.monotonic()
            subject = f"$JS.API.CONSUMER.CREATE.S.p{number}"
            assert 0 == asker.err_code(subject, {"stream_name": "S", "config": config})
            eventually(lambda: not asker.asked("$JS.API.CONSUMER.NAMES.S")["consumers"], "it stays", seconds=GONE_S)
            took.append(time.monotonic() - begun)
        assert min(took) < SOON_S, took
