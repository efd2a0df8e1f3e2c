"""A push consumer's first message comes behind the answer to its creation, and a pause behind that holds.

nats-server promises neither: its answer and its first message are on their way side by side. So leafd alone is asked.
Not here: what a consumer delivers, and pauses by themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.hostile.wires import Asker, Wire
from tests.servers import LEAFD, running

CONFIGURATION = 'listen: 127.0.0.1:{port}\njetstream { store_dir: "{store}" }\n'
TIMES = 100
FAR = "2099-01-01T00:00:00Z"


@contextmanager
def one_message() -> Iterator[tuple[int, Wire]]:
    """The port of a leafd with the stream S, which holds one message, and a connection that hears answers."""
    with running(LEAFD, CONFIGURATION) as server:
        with Asker(server.port) as asker:
            asker.asked("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
            assert asker.asked("s", "x")["seq"] == 1
        with Wire(server.port) as wire:
            wire.send(b'CONNECT {"verbose":false,"headers":true}\r\nSUB answer.* a\r\n')
            yield server.port, wire


def creation(number: int) -> bytes:
    """The request for one more consumer, behind the subscription (of that number) to what it delivers."""
    config = {"name": f"c{number}", "deliver_subject": f"d.{number}", "ack_policy": "none", "mem_storage": True}
    body = json.dumps({"stream_name": "S", "config": config}).encode()
    subject = b"$JS.API.CONSUMER.CREATE.S.c%d answer.%d %d" % (number, number, len(body))
    return b"SUB d.%d %d\r\nPUB %s\r\n%s\r\n" % (number, number, subject, body)


def heard(wire: Wire, count: int) -> list[str]:
    """The next messages: an answer by its subject, a delivery by its subscription's number."""
    found: list[str] = []
    while len(found) < count and (line := wire.heard()):
        words = line.split()
        if words[0] == b"PING":
            wire.send(b"PONG\r\n")
        elif words[0] == b"MSG":
            found.append((words[1] if words[2] == b"a" else words[2]).decode())
            wire.payload(int(words[-1]))
    return found


def test_the_answer_comes_first() -> None:
    """Each time, one consumer after the other."""
    with one_message() as (_, wire):
        for number in range(TIMES):
            wire.send(creation(number))
            assert heard(wire, 2) == [f"answer.{number}", str(number)]


def test_the_answer_comes_first_where_many_are_made_at_once() -> None:
    """Each consumer has its answer and then its message, however many requests are on their way."""
    with one_message() as (_, wire):
        wire.send(b"".join(creation(number) for number in range(TIMES)))
        found = heard(wire, 2 * TIMES)
        for number in range(TIMES):
            assert found.index(f"answer.{number}") < found.index(str(number))


def test_a_pause_right_behind_the_creation_holds() -> None:
    """The end of the wait for the answer does not end a pause that was asked for meanwhile."""
    body = json.dumps({"pause_until": FAR}).encode()
    with one_message() as (port, wire):
        for number in range(TIMES):
            pause = b"PUB $JS.API.CONSUMER.PAUSE.S.c%d answer.pause%d %d\r\n%s\r\n" % (number, number, len(body), body)
            wire.send(creation(number) + pause)
        awaited = {f"answer.pause{number}" for number in range(TIMES)}
        while awaited:
            found = heard(wire, 1)
            assert found
            awaited -= set(found)
        with Asker(port) as asker:
            assert asker.asked("s", "y")["seq"] == 2
            waiting = [asker.asked(f"$JS.API.CONSUMER.INFO.S.c{number}")["num_pending"] for number in range(TIMES)]
        assert min(waiting) > 0
