"""What of its origins a source's hole took, and that what fills it believes them only where that is known.

Played against a plane that has a list of messages, and origins that are lists, too. Not here: holes that
damage made in a real store (crash/test_source_holes.py).
"""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import trio.testing
from leafd import native_types as t
from leafd.links.holes import Copy, Hole, Holes
from leafd.links.lag import SlotInfo
from leafd.links.origin import Origin

from tests.rig.logs import KeptLog
from tests.rig.planes import Unwilling
from tests.unit.links.replica_stage import SLOT

LINK = 1
START = 1_767_225_600_000_000_000
"""2026-01-01, when the first message was published."""
A = replace(SLOT, number=1, origin=Origin("A", "$JS.box.API"))
B = replace(SLOT, number=2, origin=Origin("B", "$JS.box.API"))


@dataclass
class World(Unwilling):
    """A stream with a hole, and its origins: of each sequence the second of its publication and its id."""

    here: dict[int, tuple[str, int]]
    """By sequence: the origin's name, and its sequence there; an empty name: it was published here."""
    origins: dict[str, dict[int, tuple[int, str]]]
    words: str = "word"
    """Of the origins' messages; others were taken."""
    newest: dict[str, int] = field(default_factory=dict)
    """Of each origin, the sequence that was taken last."""
    newest_ts: int = START + 10**15
    start: dict[int, tuple[str, int]] = field(default_factory=dict)
    asked: list[tuple[str, int]] = field(default_factory=list)
    handlers: dict[int, t.Handler] = field(default_factory=dict)
    ended: list[int] = field(default_factory=list)
    """Sequences up to which the hole was told to be done."""
    lag: int = 0
    told: dict[int, int] = field(default_factory=dict)
    """By slot: the origin's sequence that was taken last, as the running copy says."""

    def __post_init__(self) -> None:
        super().__init__()
        self.start = dict(self.here)

    async def message_get(self, stream: int, mode: int, *, sequence: int = 0, **parts: Any) -> t.StoredMessage | None:
        if sequence not in self.here:
            return None
        name, origin = self.here[sequence]
        slot = {"A": A, "B": B}.get(name)
        header = b"NATS/1.0\r\n\r\n"
        if slot is not None:
            index = slot.origin.index
            tail = f"{index[0]} {origin} {index[1]} {index[2]} {name}.x"
            header = f"NATS/1.0\r\nNats-Stream-Source: {tail}\r\n\r\n".encode()
        return t.StoredMessage(sequence, START + sequence, b"s", header, b"word %d" % origin)

    async def stream_state(self, stream: int, **parts: Any) -> t.StreamState:
        last = max(self.here)
        return t.StreamState(len(self.here), 0, 1, last, START, START + last, 1, 0, 0, 0, 0)

    def subscribe(self, account: int, subject: str, handler: t.Handler, **parts: Any) -> int:
        self.handlers[len(self.handlers) + 1] = handler
        return len(self.handlers)

    def unsubscribe(self, account: int, subscription: int) -> None: ...

    async def publish_counted(
        self, account: int, subject: str, payload: bytes, *, reply: str = "", **parts: Any
    ) -> int:
        name, at = subject.split(".")[-1], json.loads(payload)["seq"]
        self.asked.append((name, at))
        body: dict[str, Any] = {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}
        if (found := next((one for one in sorted(self.origins[name]) if one >= at), 0)) != 0:
            second, message_id = self.origins[name][found]
            header = f"NATS/1.0\r\nNats-Msg-Id: {message_id}\r\n\r\n" if message_id else ""
            body = {"message": {
                "subject": f"{name}.x", "seq": found, "time": f"2026-01-01T00:00:{second:02}Z",
                "hdrs": b64encode(header.encode()).decode(),
                "data": b64encode(f"{self.words} {found}".encode()).decode(),
            }}  # fmt: skip
        self.handlers[len(self.handlers)](t.Message(1, account, LINK, 2, reply, "", b"", json.dumps(body).encode()))
        return 1

    async def stream_fill(
        self, stream: int, last: int, *, sequence: int, ts: int = 0, subject: str = "",
        origin: tuple[int, int] | None = None, **parts: Any,
    ) -> bool:  # fmt: skip
        if origin is not None:
            assert sequence not in self.here
            self.here[sequence] = ("A" if origin[0] == 1 else "B", origin[1])
        if sequence == last:
            self.ended.append(last)
        return origin is not None

    async def info(self, stream: int, number: int) -> SlotInfo:
        return SlotInfo(running=True, known=True, lag=self.lag, sequence=self.told.get(number, 0))

    def taken(self) -> dict[str, tuple[int, int]]:
        """The records of what was taken last."""
        found = {}
        for slot in (A, B):
            name = slot.origin.stream
            sequences = [origin for one, origin in self.start.values() if one == name]
            found[slot.origin.key] = self.newest.get(name, max(sequences, default=0)), self.newest_ts
        return found

    def fill(self, first: int, last: int, copied: Copy | None = None, certain: bool = True) -> list[str]:
        """What the log says then."""
        log = KeptLog()
        copied = copied or Copy((A, B), limited=False, counts=False, removes=False, taken=self.taken())
        holes = Holes(self, log, lambda stream: copied, self.info, lambda slot, connection: connection == LINK)

        async def run() -> None:
            await holes.fill(Hole(SLOT.stream, first, last, certain))

        trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
        return log.texts


def every(first: int, last: int) -> dict[int, tuple[int, str]]:
    """An origin that has all of these, a second apart."""
    return {sequence: (sequence % 60, "") for sequence in range(first, last + 1)}


def of_a(first: int, last: int, shift: int = 0) -> dict[int, tuple[str, int]]:
    return {sequence: ("A", sequence + shift) for sequence in range(first, last + 1)}


def test_what_lies_between_its_neighbours_is_put_back() -> None:
    """Of one origin: as many as the hole has, each at its place."""
    world = World(of_a(1, 10, 5) | of_a(16, 20, 5), {"A": every(6, 25), "B": {}})
    (line,) = world.fill(11, 15)
    assert of_a(1, 20, 5) == world.here
    assert line.endswith("5 were fetched again: all of it")


def test_a_hole_at_the_end_goes_up_to_what_was_taken_last() -> None:
    """What came to the origin later is not of the hole."""
    world = World(of_a(1, 10), {"A": every(1, 40), "B": {}}, newest={"A": 15})
    world.fill(11, 15)
    assert of_a(1, 15) == world.here


def test_damage_that_the_running_daemon_meets_goes_by_what_each_slot_has_taken_by_now() -> None:
    """The start knew of no hole, and noted nothing: B has nothing behind the hole, and what it took last is asked."""
    here = {1: ("B", 1), 2: ("A", 1), 5: ("A", 3)}
    world = World(here, {"A": every(1, 3), "B": every(1, 9)})
    world.told = {A.number: 3, B.number: 2}
    world.fill(3, 4, Copy((A, B), limited=False, counts=False, removes=False, taken=None))
    assert {("A", 2), ("B", 2)} == {world.here[3], world.here[4]}


def test_the_first_messages_of_a_stream_come_back() -> None:
    world = World(of_a(6, 9), {"A": every(1, 9), "B": {}})
    world.fill(1, 5)
    assert of_a(1, 9) == world.here


def test_two_origins_are_put_in_the_order_of_their_stamps() -> None:
    here = {1: ("A", 1), 2: ("B", 1), 7: ("A", 4), 8: ("B", 4)}
    world = World(here, {"A": {n: (10 * n, "") for n in range(1, 5)}, "B": {n: (10 * n + 5, "") for n in range(1, 5)}})
    world.fill(3, 6)
    assert {3: ("A", 2), 4: ("B", 2), 5: ("A", 3), 6: ("B", 3)} == {n: world.here[n] for n in range(3, 7)}


def test_an_origin_whose_neighbours_follow_each_other_is_not_asked() -> None:
    world = World({1: ("B", 1), 2: ("A", 1), 5: ("A", 4), 6: ("B", 2)}, {"A": every(1, 4), "B": every(1, 2)})
    world.fill(3, 4)
    assert {"A"} == {name for name, _ in world.asked}


def test_what_was_removed_beside_the_hole_does_not_come_back() -> None:
    """Sequence 10 was removed here: whether 8 of A was there, or in the hole, nobody knows. B is known."""
    here = {sequence: ("A", sequence) for sequence in range(1, 9)}
    here |= {9: ("B", 1), 11: ("B", 2), 14: ("B", 4), 15: ("A", 12)}
    world = World(here, {"A": every(1, 12), "B": every(1, 4)})
    (line,) = world.fill(12, 13)
    assert ("B", 3) == world.here[12]
    assert 13 not in world.here
    assert "1 were fetched again; of the other 1 the origin is not known: A are possible" in line


def test_what_the_origin_has_no_more_stays_away() -> None:
    world = World(of_a(1, 10) | of_a(16, 20), {"A": every(14, 20), "B": {}})
    (line,) = world.fill(11, 15)
    assert [("A", 14), ("A", 15)] == [world.here[n] for n in (11, 12)]
    assert [15] == world.ended
    assert "2 were fetched again; the other 3 its origins do not have" in line


def test_where_the_origin_has_more_than_was_lost_nothing_is_put_back() -> None:
    """One of them had not been taken; without an id nobody knows which."""
    world = World(of_a(1, 10) | {12: ("A", 13)}, {"A": every(1, 13), "B": {}})
    (line,) = world.fill(11, 11)
    assert 11 not in world.here
    assert "more messages than were lost" in line


def test_a_duplicate_that_was_not_taken_is_told_by_its_id() -> None:
    origin = every(1, 13) | {11: (11, "once"), 12: (12, "once")}
    world = World(of_a(1, 10) | {12: ("A", 13)}, {"A": origin, "B": {}})
    world.fill(11, 11)
    assert ("A", 11) == world.here[11]


def test_a_hole_with_removed_messages_is_left() -> None:
    world = World(of_a(1, 10) | of_a(16, 20), {"A": every(1, 20), "B": {}})
    (line,) = world.fill(11, 15, certain=False)
    assert "some of them had been removed before" in line
    assert world.asked == []


@pytest.mark.parametrize(
    ("copied", "why"),
    [
        (Copy((A, B), limited=False, counts=True, removes=False, taken={}), "counters"),
        (Copy((A, B), limited=False, counts=False, removes=True, taken={}), "acknowledged messages are removed"),
    ],
)
def test_streams_that_change_what_they_take_are_left(copied: Copy, why: str) -> None:
    world = World(of_a(1, 10) | of_a(16, 20), {"A": every(1, 20), "B": {}})
    (line,) = world.fill(11, 15, copied)
    assert why in line
    assert world.asked == []


def test_another_stream_under_that_name_gives_nothing() -> None:
    """Its message before the hole is another one than was taken."""
    world = World(of_a(1, 10) | of_a(16, 20), {"A": every(1, 40), "B": {}}, words="other")
    (line,) = world.fill(11, 15)
    assert "stream A is another one than it was taken from" in line
    assert world.here == world.start


def test_without_a_neighbour_at_the_origin_newer_messages_give_it_away() -> None:
    """The origin has none of those beside the hole, and what it has is newer than all that was taken of it."""
    world = World(of_a(1, 10), {"A": every(12, 15), "B": {}}, newest={"A": 15}, newest_ts=START)
    (line,) = world.fill(11, 15)
    assert "stream A is another one than it was taken from" in line
    assert world.here == world.start


def test_an_origin_that_began_anew_is_not_asked() -> None:
    """Behind the hole its sequences are lower than before it."""
    world = World(of_a(1, 10) | of_a(16, 20, -14), {"A": every(1, 6), "B": {}}, newest={"A": 6})
    (line,) = world.fill(11, 15)
    assert world.asked == []
    assert "of the other 5 the origin is not known: A are possible" in line


def test_what_was_published_here_is_lost() -> None:
    """Between those of the origin others had stood, which nobody else has."""
    here = of_a(1, 10) | {11: ("", 0), 16: ("", 0), 17: ("A", 13)}
    world = World(here, {"A": every(1, 13), "B": {}})
    (line,) = world.fill(12, 15)
    assert [("A", 11), ("A", 12)] == [world.here[n] for n in (12, 13)]
    assert "the other 2 its origins do not have, or they were published here" in line


def test_after_a_restart_it_goes_on_where_it_was() -> None:
    """The record says that up to 12 has been done."""
    world = World(of_a(1, 12) | of_a(16, 20), {"A": every(1, 20), "B": {}})
    world.fill(13, 15)
    assert of_a(1, 20) == world.here
