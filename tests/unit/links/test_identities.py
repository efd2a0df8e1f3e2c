"""The streams that origins of copies were before are known after a start of the server. Records are played here."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
import trio
from leafd.links.earlier import IDENTITY_SIZE_MAX, KEPT, Earlier
from leafd.links.epochs import Epochs
from leafd.links.identities import Identities
from leafd.links.steps import Run

from tests.rig.planes import Unwilling
from tests.unit.links.replica_stage import SLOT


class Cut(Exception):
    """The power is gone."""


class Plane(Unwilling):
    """Keeps records, and the position of one source."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[bytes, bytes] = {}
        self.position = 0
        self.writes_left = 1000

    def _writes(self) -> None:
        self.writes_left -= 1
        if self.writes_left < 0:
            raise Cut

    async def record_put(self, key: bytes, value: bytes) -> None:
        self._writes()
        self.kept[key] = value

    async def ingest_stand(self, stream: int, key: str, sequence: int) -> None:
        self._writes()
        self.position = sequence


def earlier(**positions: int) -> Earlier:
    found = Earlier()
    for identity, sequence in positions.items():
        found.leave(identity, sequence, sequence * 10)
    return found


def at_a_start(plane: Plane) -> Identities:
    """What the next process reads."""
    found = Identities(plane)
    for key, value in plane.kept.items():
        found.load(key, value)
    return found


def test_what_an_origin_was_is_known_after_a_start() -> None:
    """Also how far its present stream was taken, of which nothing has come since it is there again: of two machines
    with one name all would else be taken once more at each start."""
    plane = Plane()
    identities = Identities(plane)

    async def main() -> None:
        await identities.leave(SLOT, earlier(ONE=7, TWO=9).packed)
        await identities.remember(SLOT, "ONE")

    trio.run(main)
    found = at_a_start(plane)
    assert found.of(SLOT) == "ONE"
    assert found.earlier(SLOT).taken("TWO") == (9, 90)
    assert found.position(SLOT, (0, 0)) == (7, 70)
    assert found.position(SLOT, (8, 80)) == (8, 80), "what the store says is newer"


def test_two_that_take_turns_and_have_nothing_new_write_nothing() -> None:
    """They may take the link from each other each second, for weeks."""
    plane = Plane()
    identities = Identities(plane)

    async def main() -> None:
        await identities.leave(SLOT, earlier(ONE=7, TWO=9).packed)
        plane.kept.clear()
        await identities.leave(SLOT, earlier(TWO=9, ONE=7).packed)
        assert not plane.kept
        await identities.leave(SLOT, earlier(TWO=9, ONE=8).packed)
        assert plane.kept

    trio.run(main)


def test_of_a_stream_that_others_led_nothing_is_believed() -> None:
    """They may have taken more; of the streams beside it all stays."""
    plane = Plane()
    other = replace(SLOT, stream=SLOT.stream + 1)

    async def main() -> None:
        for slot in (SLOT, other):
            await Identities(plane).leave(slot, earlier(ONE=7).packed)
            await Identities(plane).remember(slot, "TWO")

    trio.run(main)
    found = at_a_start(plane)
    found.forget(SLOT.stream)
    assert [found.of(one) for one in (SLOT, other)] == ["", "TWO"]
    assert [found.earlier(one).taken("ONE") for one in (SLOT, other)] == [None, (7, 70)]


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b'{"ONE":7}', b'{"ONE":[1]}', b'{"ONE":["x","y"]}'])
def test_a_record_that_is_none_says_nothing(value: bytes) -> None:
    """It costs what it was there for: the origin is taken from its first message."""
    assert Earlier.unpacked(value).taken("ONE") is None


def test_a_bounded_number_of_streams_with_short_names_is_kept() -> None:
    """An origin that is made anew for ever, or names itself at length, fills nothing."""
    many = earlier(**{f"S{number}": number + 1 for number in range(KEPT + 3)})
    many.leave("x" * (IDENTITY_SIZE_MAX + 1), 5, 5)
    again = Earlier.unpacked(many.packed)
    assert [number for number in range(KEPT + 3) if again.taken(f"S{number}")] == list(range(3, KEPT + 3))
    assert again.taken("x" * (IDENTITY_SIZE_MAX + 1)) is None


@pytest.mark.parametrize("writes", range(4))
def test_a_source_that_moves_stands_where_it_was_or_where_it_is_to_be(writes: int) -> None:
    """Whichever of its writes is the last one: by what it finds the next process knows which of them it is."""
    before = Epochs("i", ((0, "a"), (21, "b")))
    plane = Plane()
    plane.position = 40

    async def main() -> None:
        await Identities(plane).remember(SLOT, "i")
        await Identities(plane).stand(SLOT, before)
        plane.writes_left = writes
        with suppress(Cut):
            await at_a_start(plane).stand(SLOT, before.goes_on("i", ((21, "b"), (31, "c")), 40, 30))

    trio.run(main)
    found = at_a_start(plane)
    position, _ = found.position(SLOT, (plane.position, 7 if plane.position == 40 else 0))
    assert (position, found.epochs(SLOT).at(position)) == ((40, "b") if writes == 0 else (30, "b"))
    again = found.epochs(SLOT).found(plane.position)
    assert again.stands("i", ((21, "b"), (31, "c")), position) == 30
    assert again.moved == ((40, 30) if writes in (1, 2) else ())


def test_of_another_stream_no_epochs_are_known() -> None:
    """One that was made anew has other ones."""
    plane = Plane()

    async def main() -> None:
        await Identities(plane).remember(SLOT, "i")
        await Identities(plane).stand(SLOT, Epochs("i", ((0, "a"),)))
        await Identities(plane).remember(SLOT, "j")

    trio.run(main)
    assert at_a_start(plane).epochs(SLOT) == Epochs()
    found = at_a_start(plane)
    found.forget(SLOT.stream)
    assert found.epochs(SLOT) == Epochs()


def test_a_source_that_has_a_durable_consumer_since_stands_in_the_epochs_of_before() -> None:
    """Its origin was put back meanwhile, from 40 to 30; that position is to be stored."""
    plane = Plane()
    durable = replace(SLOT, origin=replace(SLOT.origin, durable="hub", durable_deliver="d.hub"))
    positions = {(SLOT.stream, SLOT.origin.key): (40, 7)}
    run = Run("d.hub", "hub", 0, "i", epochs=Epochs("i", ((0, "a"), (21, "b"), (31, "c"))))

    async def main() -> None:
        await Identities(plane).remember(SLOT, "i")
        await Identities(plane).stand(SLOT, Epochs("i", ((0, "a"), (21, "b"))))

    trio.run(main)
    found = at_a_start(plane)
    last, epochs = found.goes_on(durable, run, positions)
    assert (last, epochs.moved, epochs.at(last)) == (30, (0, 30), "b")
    assert found.goes_on(durable, replace(run, epochs=Epochs("i")), positions) == (40, Epochs("i"))
    assert found.goes_on(durable, replace(run, last_sequence=5), positions) == (5, run.epochs)
    assert found.goes_on(durable, replace(run, identity="j"), positions) == (0, run.epochs)
