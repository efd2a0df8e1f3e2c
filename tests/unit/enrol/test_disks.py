"""What boxes say of their disks: judged as what anybody could say."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import trio
from leafd import native_types as t
from leafd.daemon.box_disks import ANSWER_MAX, BoxDisks, Disk, disk_of


def answer(storage: object, most: object = -1) -> bytes:
    return json.dumps({"type": "x", "storage": storage, "limits": {"max_storage": most}}).encode()


def test_an_answer_tells_what_is_stored_and_the_limit_where_there_is_one() -> None:
    assert Disk(5, None) == disk_of(answer(5))
    assert Disk(0, 10) == disk_of(answer(0, 10))


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"storage": 1e3}', answer(-1), answer(True), answer("5"),
        answer(1 << 64), b'{"error": {"code": 503}}', answer(5) + b" " * ANSWER_MAX,
    ],
)  # fmt: skip
def test_what_is_no_answer_is_not_known(payload: bytes) -> None:
    assert disk_of(payload) is None


@pytest.mark.parametrize("most", [-1, 0, "10", None, 1 << 63, [], True])
def test_a_limit_that_is_none_is_left_out(most: object) -> None:
    assert disk_of(answer(5, most)) == Disk(5, None) == disk_of(b'{"storage": 5, "limits": 3}')


class Fleet:
    """A plane whose boxes answer at once, each by the connection of its number."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: Callable[[str, str], list[tuple[int, str, int]]] = lambda name, reply: [
            (int(name.partition("-")[2]), reply, 7)
        ]
        self.handlers: dict[int, t.Handler] = {}

    def subscribe(self, account: int, subject: str, handler: t.Handler) -> int:
        self.handlers[1] = handler
        return 1

    def unsubscribe(self, account: int, subscription: int) -> None:
        del self.handlers[subscription]

    def publish(self, account: int, subject: str, payload: bytes, *, reply: str = "") -> None:
        self.asked.append(subject)
        for connection, to, stored in self.answers(subject.split(".")[1], reply):
            self.handlers[1](t.Message(1, account, connection, 1, to, "", b"", answer(stored)))


def run(function: Callable[..., Any], *arguments: object) -> Any:
    import trio.testing

    return trio.run(function, *arguments, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_box_is_asked_once_a_minute_however_often_somebody_looks() -> None:
    fleet = Fleet()

    async def looks() -> None:
        disks = BoxDisks(fleet)
        for _ in range(50):
            assert {"box-1": Disk(7, None), "box-2": Disk(7, None)} == await disks.of(3, {"box-1": 1, "box-2": 2})
        assert fleet.asked == ["$JS.box-1.API.INFO", "$JS.box-2.API.INFO"]
        assert not fleet.handlers
        await trio.sleep(61)
        await disks.of(3, {"box-1": 1})
        assert len(fleet.asked) == 3

    run(looks)


def test_a_box_cannot_answer_for_another_one() -> None:
    """Nor for itself twice, and not with a subject that nobody was asked by."""
    fleet = Fleet()
    told: list[str] = []

    def answers(name: str, reply: str) -> list[tuple[int, str, int]]:
        told.append(reply)
        if name == "box-1":
            return [(1, reply.rpartition(".")[0] + ".guess", 1), (1, reply, 1), (1, reply, 2)]
        return [(1, reply, 666)]

    fleet.answers = answers

    async def looks() -> None:
        assert {"box-1": Disk(1, None), "box-2": None} == await BoxDisks(fleet).of(3, {"box-1": 1, "box-2": 2})

    run(looks)
    assert len(set(told)) == 2
