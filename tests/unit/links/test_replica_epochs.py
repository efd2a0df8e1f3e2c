"""A source's machine whose origin tells its epochs: where it goes on, and how often it believes another word.

Not here: what follows from them (test_epochs.py), the rest of the machine (test_replica.py).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from leafd.links.epochs import Epochs
from leafd.links.replica import Replica, State
from leafd.links.steps import Ask, Moves, PutBack, Rewind, Run
from leafd.native_codes import IngestAt

from tests.unit.links.replica_stage import link_to
from tests.unit.links.test_replica import ORIGIN, RESET, SLOT, ask, created


def met(sequence: int, durable: str = "") -> Replica:
    """A source whose origin has told its epochs, and of which all was taken up to there."""
    origin = replace(ORIGIN, durable=durable, durable_deliver="d.hub" if durable else "")
    replica = Replica(replace(SLOT, origin=origin), sequence - 20, "i", 1_700_000_000_000_000_000)
    replica.reached_by(link_to("hub"))
    (order,) = replica.poll(0.0)
    assert isinstance(order, Ask)
    assert f"\r\nLeafd-Epoch: {sequence - 20}\r\n".encode() in order.header
    (run,) = replica.answered(order.number, "i", RESET if durable else created("c"), 0.1, epochs="0:a 21:b")
    assert isinstance(run, Run)
    assert run.epochs == Epochs("i", ((21, "b"),)), "of which of them the position is nobody knows"
    replica.lost(sequence, 10.0, 0.0, 1_700_000_000_000_000_001)
    return replica


def test_a_source_goes_on_where_the_epochs_of_its_origin_part() -> None:
    """Whatever the stamps are; and what it left stays known. The stored position is moved before anything is taken."""
    replica = met(40)
    order, _ = ask(replica, 10.0)
    assert b"\r\nLeafd-Epoch: 40 b\r\n" in order.header
    moves = replica.answered(order.number, "i", created("c"), 10.1, "90 1700000000000000001", epochs="21:b 31:c")
    assert [Moves("c", 40, 30)] == moves
    order, request = ask(replica, 10.1)
    assert b"\r\nLeafd-Epoch: 30 b\r\n" in order.header
    assert 31 == request["config"]["opt_start_seq"]
    (run,) = replica.answered(order.number, "i", created("d"), 10.2, epochs="21:b 31:c")
    assert isinstance(run, Run)
    assert (run.begins, run.last_sequence, run.epochs.moved) == (IngestAt.NEXT, 30, (40, 30))
    replica.settled(run.epochs, run.epochs)
    replica.lost(35, 20.0, 0.0, 1_600_000_000_000_000_000)
    order, _ = ask(replica, 20.0)
    assert b"\r\nLeafd-Epoch: 35 c\r\n" in order.header
    moves = replica.answered(order.number, "i", created("e"), 20.1, epochs="0:a 21:b 45:e")
    assert [Moves("e", 35, 40)] == moves, "the store of before is back"


def test_a_durable_consumer_is_taken_from_where_the_epochs_part() -> None:
    """It was set back already, and delivers all that is there."""
    replica = met(40, "hub")
    (order,) = replica.poll(10.0)
    assert isinstance(order, Ask)
    moves, run = replica.answered(order.number, "i", RESET, 10.1, epochs="21:b 31:c")
    assert Moves("hub", 40, 30) == moves
    assert isinstance(run, Run)
    assert (run.last_sequence, run.epochs.moved) == (30, (40, 30))


def test_a_durable_consumer_that_may_come_by_another_link_has_no_epochs() -> None:
    """It may have delivered something of the next one before that is heard of."""
    replica = met(40, "hub")
    replica.reached_by(link_to("hub"), alone=False)
    (order,) = replica.poll(10.0)
    assert isinstance(order, Ask)
    (run,) = replica.answered(order.number, "i", RESET, 10.1, epochs="21:b 31:c")
    assert isinstance(run, Run)
    assert (run.last_sequence, run.epochs.lineage) == (40, ())


def test_an_origin_that_tells_of_no_epochs_any_more_is_judged_by_stamps() -> None:
    """As one of an older version is, from then on."""
    replica = met(40)
    order, _ = ask(replica, 10.0)
    (run,) = replica.answered(order.number, "i", created("c"), 10.1, "90 1700000000000000001")
    assert isinstance(run, Run)
    assert run.epochs.lineage == ()
    replica.lost(50, 20.0, 0.0, 1_700_000_000_000_000_002)
    order, _ = ask(replica, 20.0)
    assert b"\r\nLeafd-Epoch: 50\r\n" in order.header
    said = replica.answered(order.number, "i", created("c"), 20.1, "30 0", epochs="0:a 21:b 31:c")
    assert [PutBack("c", 30)] == said


@pytest.mark.parametrize("epochs", ["", "0:d 31:e"])
def test_a_source_that_knows_neither_stamp_nor_epoch_asks_once_more_and_says_no_epoch(epochs: str) -> None:
    """Its origin believes that who says one moves. So it says only then that it was put back, and what is lost."""
    replica = Replica(SLOT, 40, "i", 0, None, Epochs("i", ((0, "a"),)))
    replica.reached_by(link_to("hub"))
    order, _ = ask(replica, 0.0)
    assert b"\r\nLeafd-Epoch: 40 a\r\n" in order.header
    assert [Rewind("c")] == replica.answered(order.number, "i", created("c"), 0.1, epochs=epochs)
    again, request = ask(replica, 0.1)
    assert b"\r\nLeafd-Epoch: 40\r\n" in again.header
    assert 41 == request["config"]["opt_start_seq"]
    (run,) = replica.answered(again.number, "i", created("c"), 0.2, epochs=epochs)
    assert isinstance(run, Run)
    assert run.last_sequence == 40


def test_an_origin_that_tells_of_other_epochs_each_time_is_asked_ever_more_seldom() -> None:
    """What it says is not believed without end."""
    replica, now_s, asked = met(40), 10.0, 0
    while now_s < 70.0:
        order, _ = ask(replica, now_s)
        asked += 1
        replica.answered(order.number, "i", created("c"), now_s, epochs=f"21:b {40 - asked}:{asked:x}")
        now_s = max(replica.deadline_s, now_s)
        assert replica.state is State.IDLE
    assert asked < 12
