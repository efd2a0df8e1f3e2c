"""Whether a hub's machine is heard from (links/echo.py), by requests that are faked or sent over a line that is cut."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing
from leafd.guard import Guard
from leafd.links import dialling, echo, leaf, reach
from leafd.links.echo import Heard
from leafd.links.link import RemoteStatus, status_of
from leafd.links.ways import Ways

from tests import cell
from tests.cell import HUB, HUB_ADDRESS, LEAF, Link

MISSING = cell.missing()
in_places = pytest.mark.skipif(bool(MISSING), reason=MISSING)
PLACE: echo.Place = (trio.socket.AF_INET, (HUB_ADDRESS, 7422))
CUT = Link(loss=1.0)
GOOD = Link(delay=0.05)


def asked(said: str) -> tuple[Heard, float]:
    """What comes of answers ("+") and their absence ("-"), one each ten seconds, and when."""

    async def play() -> tuple[Heard, float]:
        answers = iter(said)

        async def ask(number: int, seconds: float) -> bool:
            if next(answers) == "+":
                return True
            await trio.sleep(seconds)
            return False

        began = trio.current_time()
        return await echo.heard(ask, 10.0), trio.current_time() - began

    return trio.run(play, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize(
    ("said", "heard", "after"),
    [
        ("--+", Heard.AGAIN, 20),
        ("-----+", Heard.AGAIN, 50),
        ("+++", Heard.ALWAYS, 20),
        ("-++", Heard.ALWAYS, 20),
        ("+--+", Heard.AGAIN, 30),
        ("-+--+", Heard.AGAIN, 40),
    ],
)
def test_an_answer_after_a_silence_is_news_and_one_without_is_none(said: str, heard: Heard, after: float) -> None:
    """A machine that answers all the time tells nothing of a hub that does not."""
    what, when = asked(said)
    assert what is heard
    assert when == pytest.approx(after)


async def nothing() -> None:
    await trio.sleep_forever()


async def refused() -> None:
    raise ConnectionRefusedError


async def reached() -> str:
    return "a connection"


def dialled(dial: Callable[[], Awaitable[object]]) -> object:
    async def play() -> object:
        return await echo.unless_heard((trio.socket.AF_INET, ("127.0.0.1", 9)), 1.0, dial)

    return trio.run(play)


def test_what_comes_of_the_dial_comes_through() -> None:
    """A connection as it is, and a failure as the same exception, in no group."""
    assert dialled(reached) == "a connection"
    with pytest.raises(ConnectionRefusedError):
        dialled(refused)


@in_places
def test_a_machine_behind_a_good_line_answers_for_28_bytes_each_way() -> None:
    with cell.joined(GOOD) as joined:
        joined.echoes()
        trio.run(trio.sleep, 2.0)  # what a place that is new says of itself
        joined.carried[:] = [0, 0]
        with joined.at(LEAF):
            assert trio.run(echo.answers, PLACE)
        assert joined.carried[LEAF] == 28
        assert joined.carried[HUB] >= 28


@in_places
def test_who_may_not_ask_sends_nothing() -> None:
    """The dial goes on alone."""
    with cell.joined(GOOD) as joined:
        joined.echoes("1 0")
        with joined.at(LEAF):
            assert not trio.run(echo.answers, PLACE)


@in_places
def test_a_dial_that_waits_is_given_up_when_the_line_is_back() -> None:
    """And not before. Its own packet may be a minute and a half away."""
    with cell.joined(CUT) as joined:
        joined.echoes()
        with joined.at(LEAF):

            async def play() -> list[object]:
                found: list[object] = []

                async def waits() -> None:
                    found.append(await echo.unless_heard(PLACE, 0.5, nothing))

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(waits)
                    await trio.sleep(3.0)
                    assert not found
                    joined.change(GOOD)
                    with trio.fail_after(60):
                        while not found:
                            await trio.sleep(0.05)
                return found

            assert trio.run(play) == [Heard.AGAIN]
        assert joined.tried[HUB] >= 6 * 28


def of_hub(monkeypatch: pytest.MonkeyPatch, found: list[object]) -> tuple[RemoteStatus, list[float]]:
    """A remote of which each attempt has what it finds, and how often each of them asks for an echo."""
    status = status_of(leaf.Remote(urls=("nats-leaf://hub:7422",), account=1, account_name="A"))
    status.place, status.place_of, status.echoes, status.attempts = PLACE, "hub:7422", True, 4
    asked_each: list[float] = []
    results = itertools.chain(found)

    async def unless_heard(place: echo.Place, each_s: float, dial: object) -> object:
        asked_each.append(each_s)
        return next(results)

    async def connect(*about: object) -> None:
        asked_each.append(0.0)
        raise TimeoutError

    monkeypatch.setattr(echo, "unless_heard", unless_heard)
    monkeypatch.setattr(dialling, "connect", connect)
    return status, asked_each


def attempt(status: RemoteStatus) -> None:
    async def play() -> None:
        assert await reach.connected(status, Ways(), "nats-leaf://hub:7422") is None

    try:
        trio.run(play)
    except TimeoutError:
        pass
    status.attempts += 1


def test_what_is_heard_begins_short_attempts_and_these_send_no_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """They ask each second by themselves; requests come back with the fourth."""
    status, asked_each = of_hub(monkeypatch, [Heard.AGAIN, Heard.AGAIN])
    for _ in range(5):
        attempt(status)
    assert [each > 0 for each in asked_each] == [True, False, False, False, True]


def test_a_machine_that_answers_for_a_hub_that_does_not_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until there is a link, when it is asked anew whether it answers."""
    status, asked_each = of_hub(monkeypatch, [Heard.ALWAYS])
    for _ in range(8):
        attempt(status)
    assert [each > 0 for each in asked_each] == [True, *[False] * 7]

    async def answers(place: echo.Place) -> bool:
        return True

    monkeypatch.setattr(echo, "answers", answers)
    trio.run(reach.learn_echoes, status, Guard())
    assert status.echoes
