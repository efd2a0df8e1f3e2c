"""The guard, and the pump of the real plane under it."""

from __future__ import annotations

import pytest
import trio
from leafd import native_types as t
from leafd.guard import Guard
from leafd.native_plane import Plane


class Lines:
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def exception(self, text: str, error: BaseException) -> None:
        """Kept."""
        self.texts.append(f"{text} ({error!r})")


class Clock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def fail(guard: Guard, place: str, text: str = "boo") -> None:
    with guard.around(place):
        raise RuntimeError(text)


def test_counts_each_place() -> None:
    """Every exception is counted under what was being done."""
    guard = Guard()
    fail(guard, "a")
    fail(guard, "b")
    fail(guard, "b")

    assert {"unexpected_errors": 3, "unexpected_errors_in": {"a": 1, "b": 2}} == guard.figures()


def test_logs_each_place_once_a_minute() -> None:
    """The first exception of a place is logged with its traceback, the next ones within a minute are only counted, and
    the report after that says how many they were."""
    log, clock = Lines(), Clock()
    guard = Guard(log, clock)
    fail(guard, "a")
    assert ["Unexpected error in a: please report it (RuntimeError('boo'))"] == log.texts

    log.texts.clear()
    clock.now_s = 59.0
    fail(guard, "a")
    fail(guard, "a")
    assert [] == log.texts

    fail(guard, "b")
    assert ["Unexpected error in b: please report it (RuntimeError('boo'))"] == log.texts

    log.texts.clear()
    clock.now_s = 60.0
    fail(guard, "a")
    assert ["Unexpected error in a (2 more since the last report): please report it (RuntimeError('boo'))"] == log.texts


def test_passes_cancellation() -> None:
    """A guarded block that is cancelled is cancelled, and nothing is counted."""
    guard = Guard()

    async def main() -> None:
        with trio.move_on_after(0) as scope, guard.around("a"):
            await trio.sleep_forever()
        assert scope.cancelled_caught

    trio.run(main)
    assert 0 == guard.total


def test_pump_goes_on() -> None:
    """A handler that fails costs its own event: the next one of the same batch is handled."""
    guard = Guard()
    heard: list[str] = []

    def handler(message: t.Message) -> None:
        if message.subject == "bad":
            raise RecursionError("deep")
        heard.append(message.subject)

    async def main() -> None:
        plane = Plane.open(t.Limits(), None, None, guard)
        try:
            plane.start()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(plane.run, lambda event: None)
                plane.account(1, "A", "", 0)
                for subject in ("bad", "good"):
                    plane.subscribe(1, subject, handler)
                with trio.fail_after(5):
                    assert 1 == await plane.publish_counted(1, "bad", b"")
                    assert 1 == await plane.publish_counted(1, "good", b"")
                    while not heard:
                        await trio.sleep(0.01)
                nursery.cancel_scope.cancel()
            await plane.stop()
        finally:
            plane.close()

    trio.run(main)
    assert ["good"] == heard
    assert {"an event of the plane (Message)": 1} == guard.figures()["unexpected_errors_in"]


@pytest.mark.parametrize("number", [1 << 64, -1, 1 << 20_000], ids=["65 bits", "negative", "20,001 bits"])
def test_number_that_no_command_can_carry(number: int) -> None:
    """A number that does not fit a command is refused to whoever asked for it; the commands around it are carried
    out."""

    async def main() -> None:
        plane = Plane.open(t.Limits(), None, None)
        try:
            plane.start()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(plane.run, lambda event: None)
                plane.account(1, "A", "", 0)
                with pytest.raises(t.PlaneError, match="a number that the plane cannot take"):
                    await plane.stream_purge(1, sequence=number)
                with trio.fail_after(5):
                    assert 0 == await plane.publish_counted(1, "x", b"")
                nursery.cancel_scope.cancel()
            await plane.stop()
        finally:
            plane.close()

    trio.run(main)
