"""The doctor's end of a conversation with a server that says what it wants."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing
from leafd.doctor import wire
from leafd.doctor.wire import End, Line, Session
from leafd.wire_client import Message


def conversation(play: Callable[[Session, trio.abc.Stream], Awaitable[None]], *, leaf: bool = True) -> None:
    """A session, and the other end of its connection."""

    async def run() -> None:
        near, far = trio.testing.memory_stream_pair()
        session = Session(Line(near), leaf=leaf)
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.run)
                await play(session, far)
                nursery.cancel_scope.cancel()

    trio.run(run)


@pytest.mark.parametrize(
    "said",
    [
        b"MSG\r\n",
        b"LMSG a -1\r\n",
        b"LMSG a 99999999\r\n",
        b"LMSG a 9999999999999999999999\r\n",
        b"HMSG a 1\r\n",
        b"HMSG a x y\r\n",
        b"x" * (wire.LIMITS.line + 100_000),
    ],
)
@pytest.mark.parametrize("leaf", [True, False], ids=["leaf", "client"])
def test_what_cannot_be_understood_ends_the_session_and_nothing_else(said: bytes, leaf: bool) -> None:
    """Sizes that are none or too large, missing words, a line without an end: whoever waits hears of the end."""

    async def play(session: Session, far: trio.abc.Stream) -> None:
        async with trio.open_nursery() as nursery:

            async def say() -> None:
                try:
                    await far.send_all(said)
                except trio.BrokenResourceError:
                    pass  # it has heard enough

            nursery.start_soon(say)
            with pytest.raises(End):
                await session.settled()
            nursery.cancel_scope.cancel()
        assert session.ended

    conversation(play, leaf=leaf)


def test_an_answer_comes_with_its_header_apart() -> None:
    """A leaf's messages by subject, queue and reply in each form that there is."""

    async def play(session: Session, far: trio.abc.Stream) -> None:
        channel: list[trio.MemoryReceiveChannel[Message]] = []

        async def subscribe() -> None:
            channel.append(await session.subscribe("a"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(subscribe)
            await trio.testing.wait_all_tasks_blocked()
            await far.send_all(b"PONG\r\n")
        await far.send_all(b"LMSG a 2\r\nhi\r\nLMSG a r 0\r\n\r\nLMSG a + r q 0\r\n\r\nLMSG a | q 0\r\n\r\n")
        head = b"NATS/1.0 503\r\n\r\n"
        await far.send_all(b"HMSG a r %d %d\r\n%shi\r\n" % (len(head), len(head) + 2, head))
        found = [await channel[0].receive() for _ in range(5)]
        assert ["", "r", "r", "", "r"] == [one.reply for one in found]
        assert (503, b"hi") == (found[4].status, found[4].payload)

    conversation(play)


def test_a_flood_is_bounded() -> None:
    """Interest, errors and messages that nobody takes are kept up to a bound."""

    async def play(session: Session, far: trio.abc.Stream) -> None:
        for start in range(0, wire.INTEREST_MAX + 2_000, 1_000):
            await far.send_all(b"".join(b"LS+ s.%d\r\n-ERR 'x'\r\n" % (start + at) for at in range(1_000)))
            await trio.testing.wait_all_tasks_blocked()
        assert (wire.INTEREST_MAX, wire.ANSWERS_MAX) == (len(session.interest), len(session.errors))

    conversation(play)


def test_several_may_ask_at_the_same_time() -> None:
    """What they say comes one after the other, and each gets its own answer, whatever the order."""

    async def play(session: Session, far: trio.abc.Stream) -> None:
        answers: list[bytes] = []

        async def ask(number: int) -> None:
            (found,) = await session.answers(f"q.{number}", b"", wait_s=15, more_s=0)
            answers.append(found.payload)
            assert found.payload == f"q.{number}".encode()

        async def serve() -> None:
            line = Line(far)
            pending: list[tuple[str, str]] = []
            while True:
                word, rest = wire.verb(await line.line())
                if word == "PING":
                    await line.say(b"PONG\r\n")
                elif word == "LMSG":
                    subject, reply, _ = rest.split(" ")
                    await line.line()
                    pending.append((subject, reply))
                if len(pending) == 20:
                    for subject, reply in reversed(pending):
                        await line.say(f"LMSG {reply} {len(subject)}\r\n{subject}\r\n".encode())
                    pending = []

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            async with trio.open_nursery() as asking:
                for number in range(20):
                    asking.start_soon(ask, number)
            nursery.cancel_scope.cancel()
        assert 20 == len(answers)

    conversation(play)


def test_a_document_that_is_none_is_empty() -> None:
    """Answers come from anybody."""
    for payload in (b"", b"[]", b"{", b"\xff", b"[" * 100_000):
        assert {} == Message("a", 0, "", b"", payload).document()
