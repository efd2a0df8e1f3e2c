"""What a source knows of its origin's epochs, and where it stands when the origin was put back: by hand, and in many
lives by chance of a box and its hub, without a clock, in which the hub gets each message once.

Not here: requests and answers (test_replica.py), the records (test_replicas_contract.py).
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field

import pytest
from leafd.lineage import Lineage, begun, behind, first_of_all, lineage_of, text_of
from leafd.links.epochs import Epochs, told

BASE = ((0, "0"), (101, "a"))


def taken(*lineage: tuple[int, str], sequence: int, then: Lineage = ()) -> Epochs:
    """Of an origin with these epochs all was taken up to there; then: it had these a while before."""
    before = Epochs("i").goes_on("i", then, 0, 0) if then else Epochs("i")
    return before.goes_on("i", lineage, sequence, sequence)


def test_a_source_goes_on_where_its_origin_goes_on() -> None:
    """Also when the origin was started again since."""
    epochs = taken(*BASE, sequence=120)
    assert epochs.stands("i", BASE, 120) == 120
    assert epochs.stands("i", ((101, "a"), (131, "b")), 120) == 120


def test_behind_the_last_sequence_that_both_have_all_is_new() -> None:
    """Whichever of the two has more of that epoch."""
    epochs = taken(*BASE, (151, "c"), sequence=180)
    assert epochs.stands("i", (*BASE, (141, "b")), 180) == 140
    assert epochs.stands("i", (*BASE, (161, "b")), 180) == 150
    assert epochs.stands("i", ((0, "0"), (51, "b")), 180) == 50


def test_what_was_taken_of_an_epoch_stays_known() -> None:
    """An older copy is put back, and then the newer one."""
    epochs = taken(*BASE, (151, "c"), sequence=180).goes_on("i", (*BASE, (141, "b")), 180, 140)
    assert epochs.moved == (180, 140)
    assert epochs.settled().moved == ()
    assert epochs.stands("i", (*BASE, (151, "c"), (171, "d")), 145) == 170
    assert epochs.stands("i", (*BASE, (151, "c"), (191, "d")), 145) == 180


def test_what_neither_knows_is_no_answer() -> None:
    """Epochs that were forgotten, another stream, a position that is of no epoch, an origin that tells of none."""
    epochs, other = taken(*BASE, sequence=120), ((0, "0"), (51, "b"))
    assert epochs.stands("i", ((1, "e"), (95, "f")), 120) is None
    assert epochs.stands("j", other, 120) is None
    assert epochs.goes_on("i", (), 120, 120).stands("i", other, 130) is None
    assert Epochs().stands("", other, 130) is None


def test_what_comes_behind_a_position_of_no_epoch_has_one() -> None:
    """So the next time it is known, and before that it is not taken for one of these."""
    epochs = Epochs().goes_on("i", BASE, 120, None)
    assert [epochs.at(sequence) for sequence in (120, 121)] == ["", "a"]
    assert epochs.stands("i", (*BASE, (111, "b")), 120) is None
    assert epochs.stands("i", (*BASE, (131, "b")), 140) == 130


@pytest.mark.parametrize("moved", [(), (180, 140)])
def test_a_record_has_all_of_it(moved: tuple[int, ...]) -> None:
    """And what is no record has nothing."""
    epochs = Epochs("i", BASE, (("c", 180), ("0", 100)), moved)
    assert Epochs.unpacked(epochs.packed) == epochs
    for packed in (b"", b"{}", b"[]", b"null", b'{"identity":"i","lineage":"2:a 1:b","taken":{}}'):
        assert Epochs.unpacked(packed) == Epochs()


def test_an_origin_says_what_it_likes() -> None:
    """What is no lineage is none."""
    assert told("") == told("x") == told("1:a " * 10_000) == told("1:ä") == ()
    assert told(text_of(BASE)) == BASE


# ---- lives by chance


@dataclass
class Box:
    """Its disk. A copy has come to it before all else."""

    chance: random.Random
    messages: list[int] = field(default_factory=list)
    lineage: Lineage = ()

    def start(self) -> None:
        epoch = f"{self.chance.getrandbits(64):016x}"
        self.lineage = begun(self.lineage, len(self.messages), epoch) if self.lineage else first_of_all(epoch)

    def comes(self, epoch: str) -> Lineage:
        """As jetstream/epochs.py has it."""
        return lineage_of(text_of(behind(self.lineage, epoch)))


@dataclass
class Hub:
    """Its disk: what it has, its position and the record of epochs."""

    messages: list[int] = field(default_factory=list)
    stored: int = 0
    record: bytes = b"{}"

    def position(self) -> tuple[Epochs, int]:
        """As identities.py has it."""
        epochs = Epochs.unpacked(self.record)
        return epochs.found(self.stored), epochs.position(self.stored)

    def meets(self, box: Box, chance: random.Random) -> None:
        """Takes some; its power may go at each write."""
        epochs, sequence = self.position()
        while True:
            theirs = box.comes(epochs.at(sequence))
            stands = epochs.stands("i", theirs, sequence)
            assert stands is not None
            epochs = epochs.goes_on("i", theirs, sequence, stands)
            if stands == sequence:
                break
            sequence = stands
        cut = chance.choice((0, 1, 2, 3, 3, 3, 3))
        if epochs.moved:
            if cut == 0:
                return
            self.record = epochs.packed
            if cut == 1:
                return
            self.stored = sequence
        if cut == 2:
            return
        self.record = epochs.settled().packed
        for number in box.messages[sequence : sequence + chance.choice((0, 1, 3, 100, 100))]:
            self.messages.append(number)
            self.stored += 1


def live(seed: int, steps: int) -> None:
    """One life; at its end the hub has all that the box has, and nothing twice."""
    chance = random.Random(seed)
    box, hub, copies, number = Box(chance), Hub(), list[Box](), 0
    box.start()
    for step in range(steps):
        what = chance.choice(("store", "store", "meet", "meet", "start", "copy", "image", "back"))
        if what == "store":
            for _ in range(chance.randint(1, 4)):
                box.messages.append(number)
                number += 1
        elif what == "meet":
            hub.meets(box, chance)
        elif what in ("copy", "image"):
            copies = [*copies, copy.copy(box)][-3:]
            copies[-1].messages = list(box.messages)
            if what == "copy":
                box.start()
        elif what == "start" or (what == "back" and copies):
            box = copy.copy(chance.choice(copies)) if what == "back" else box
            box.messages = list(box.messages)
            box.start()
        assert len(hub.messages) == len(set(hub.messages)), f"seed {seed}, step {step}"
    for _ in range(20):
        hub.meets(box, chance)
    assert set(box.messages) <= set(hub.messages), f"seed {seed}"
    assert len(hub.messages) == len(set(hub.messages)), f"seed {seed}"


def test_in_many_lives_the_hub_has_each_message_once() -> None:
    """Starts, copies of a box that stands or runs, older and newer ones put back, cuts at the hub at each write."""
    for seed in range(400):
        live(seed, 40)
