"""Questions and answers between servers: whole, once, or not at all."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import trio
import trio.testing
from leafd.cluster import letters
from leafd.cluster.letters import (
    ANSWER,
    COME,
    HALVES_MAX,
    MAGIC,
    PART_MAX,
    QUESTION,
    TOOK_AGE_S,
    TOOK_MAX_S,
    WHOLE_MAX,
    WINDOW,
    Letters,
)
from leafd.guard import Guard

LARGE = bytes(range(256)) * (PART_MAX // 64)


class Two:
    """Two servers, 1 and 2, and what is on its way between them."""

    def __init__(self) -> None:
        self.said: list[tuple[int, bytes]] = []
        self.heard: list[tuple[int, bytes]] = []
        self.lose: Callable[[bytes], bool] = lambda letter: False
        self.guard = Guard()
        self.takes_s = 0.0
        """Until the other end answers."""
        self.one, self.two = self._made(1), self._made(2)

    def _made(self, own: int) -> Letters:
        def send(to: int, letter: bytes) -> None:
            self.said.append((own, letter))
            if not self.lose(letter):
                other = {1: self.one, 2: self.two}[to]
                trio.lowlevel.current_trio_token().run_sync_soon(other.receive, own, letter)

        async def serve(peer: int, question: bytes) -> bytes:
            if question == b"fails":
                raise ValueError("it does")
            await trio.sleep(self.takes_s)
            return b"%d:" % peer + question

        return Letters(send, serve, lambda peer, news: self.heard.append((peer, news)), self.guard)


async def among_two(walk: Callable[[Two], object]) -> Two:
    two = Two()
    async with trio.open_nursery() as nursery:
        await nursery.start(two.one.run)
        await nursery.start(two.two.run)
        await walk(two)  # type: ignore[misc]
        nursery.cancel_scope.cancel()
    return two


@pytest.mark.parametrize("question", [b"", b"short", LARGE])
def test_a_question_is_answered_whole_however_long_it_is(question: bytes) -> None:
    """In parts that the letter takes; no more of them are on their way than the window has."""

    async def walk(two: Two) -> None:
        assert await two.one.ask(2, question, 10) == b"1:" + question

    two = trio.run(among_two, walk, clock=trio.testing.MockClock(autojump_threshold=0))
    assert max(len(letter) for _, letter in two.said) <= PART_MAX + 20
    unanswered, most = 0, 0
    for _, letter in two.said:
        unanswered += 1 if letter[4] != COME else -1
        most = max(most, unanswered)
    assert most <= 2 * WINDOW


def test_an_answer_that_comes_too_late_tells_how_long_the_next_one_takes() -> None:
    """A line becomes slow: the first question is in vain, the second waits long enough, and quick ones shorten that."""

    async def walk(two: Two) -> None:
        two.takes_s = 7.0
        assert await two.one.ask(2, b"a", 5) is None
        await trio.sleep(7)
        assert await two.one.ask(2, b"b", 5) == b"1:b"
        two.takes_s = 0.0
        for _ in range(4):
            assert await two.one.ask(2, b"c", 5) == b"1:c"
        two.takes_s = 7.0
        assert await two.one.ask(2, b"d", 5) is None

    trio.run(among_two, walk, clock=trio.testing.MockClock(autojump_threshold=0))


def test_an_answer_that_took_its_time_for_work_says_nothing_of_the_way() -> None:
    """A purge of 19 s: what was asked behind it is answered at once meanwhile, and what is lost then is given up in
    time. The same where a server stood still, and where the answer was long ago."""

    async def gives_up_in_time(two: Two) -> None:
        two.lose = lambda letter: letter[4] == QUESTION
        began_s = trio.current_time()
        assert await two.one.ask(2, b"lost", 4) is None
        assert trio.current_time() - began_s < 5
        two.lose = lambda letter: False

    async def takes(two: Two, seconds: float) -> None:
        two.takes_s = seconds
        assert await two.one.ask(2, b"purge", 60) == b"1:purge"

    async def walk(two: Two) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(takes, two, 19.0)
            await trio.sleep(1)
            two.takes_s = 0.0
            assert await two.one.ask(2, b"info", 5) == b"1:info"
        await gives_up_in_time(two)
        await takes(two, TOOK_MAX_S + 1)
        await gives_up_in_time(two)
        await takes(two, 19.0)
        await trio.sleep(TOOK_AGE_S)
        await gives_up_in_time(two)

    trio.run(among_two, walk, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_list_is_waited_for_so_long_and_no_longer() -> None:
    """As long as nats-server waits, whatever other answers took."""

    async def walk(two: Two) -> None:
        two.takes_s = 7.0
        assert await two.one.ask(2, b"a", 10) == b"1:a"
        assert await two.one.ask(2, b"b", 4, exactly=True) is None
        assert await two.one.ask(2, b"c", 4) == b"1:c"

    trio.run(among_two, walk, clock=trio.testing.MockClock(autojump_threshold=0))


def test_what_is_lost_is_no_answer_and_what_fails_is_none() -> None:
    """Whoever asks hears so after the time that he gave, or when the server goes."""

    async def walk(two: Two) -> None:
        two.lose = lambda letter: letter[4] == ANSWER
        assert await two.one.ask(2, b"x", 3) is None
        two.lose = lambda letter: letter[4] == QUESTION and int.from_bytes(letter[16:20], "big") == 1
        assert await two.one.ask(2, LARGE, 3) is None
        two.lose = lambda letter: False
        assert await two.one.ask(2, b"fails", 3) is None
        async with trio.open_nursery() as nursery:
            two.lose = lambda letter: True
            started = trio.current_time()

            async def ask() -> None:
                assert await two.one.ask(2, b"x", 60) is None

            nursery.start_soon(ask)
            await trio.sleep(1)
            two.one.lost(2)
        assert trio.current_time() - started < 2

    two = trio.run(among_two, walk, clock=trio.testing.MockClock(autojump_threshold=0))
    assert two.guard.figures()["unexpected_errors_in"] == {"a question of another server": 1}


def test_news_are_heard_and_answers_of_others_are_not() -> None:
    """A third server, or a number that nobody asked with, answers nothing."""

    async def walk(two: Two) -> None:
        await two.one.tell(2, b"news")
        two.lose = lambda letter: letter[4] == QUESTION
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                assert await two.one.ask(2, b"x", 3) is None

            nursery.start_soon(ask)
            await trio.sleep(0.1)
            number = two.said[-1][1][8:16]
            two.one.receive(3, MAGIC + bytes((ANSWER, 1, 0, 0)) + number + bytes(4) + b"forged")

    assert trio.run(among_two, walk, clock=trio.testing.MockClock(autojump_threshold=0)).heard == [(1, b"news")]


def test_any_bytes_do_no_harm_and_halves_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters of every kind, cut anywhere, and beginnings without an end."""
    monkeypatch.setattr(letters, "WHOLE_MAX", 50_000)
    chance = random.Random(7)
    sent: list[bytes] = []

    async def serve(_peer: int, _question: bytes) -> bytes:
        return b""

    one = Letters(lambda _to, letter: sent.append(letter), serve, lambda peer, news: None, Guard())
    for number in range(3000):
        head = MAGIC + bytes((chance.randrange(6), chance.randrange(3), 0, 0))
        letter = head + number.to_bytes(8, "big") + chance.randrange(2).to_bytes(4, "big") + bytes(chance.randrange(99))
        one.receive(5, letter[: chance.randrange(len(letter) + 1)] if chance.random() < 0.2 else letter)
        one.receive(5, MAGIC + bytes((QUESTION, 0, 0, 0)) + number.to_bytes(8, "big") + bytes(4) + bytes(500))
    halves = one._halves[5]
    assert 0 < len(halves) <= HALVES_MAX
    assert sum(half.size for half in halves.values()) <= 50_000 < WHOLE_MAX
