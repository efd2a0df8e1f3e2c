"""What is stored of an origin's epochs for sources with durable consumers, while they change and run.

Not here: what a source makes of epochs (test_epochs.py, test_replica_epochs.py), the records (test_identities.py).
"""

from __future__ import annotations

import trio.testing
from leafd import native_types as t
from leafd.links.epochs import Epochs
from leafd.links.identities import EPOCHS_RECORD
from leafd.links.replicas import Replicas

from tests.unit.links.replica_stage import SLOT, FakePlane, link_to, on_mock_clock
from tests.unit.links.test_replicas import DURABLE, RESET


def header(epochs: str) -> bytes:
    return f"NATS/1.0\r\nNats-Stream-Identity: ID\r\nLeafd-Epochs: {epochs}\r\n\r\n".encode()


def stored(plane: FakePlane) -> Epochs:
    """By the newest record, which is that of the slot that was taken up last."""
    return Epochs.unpacked([call[2] for call in plane.calls if call[0] == "record" and EPOCHS_RECORD in call[1]][-1])


@on_mock_clock
async def test_what_was_taken_before_a_source_got_a_durable_consumer_stays_known(
    plane: FakePlane, replicas: Replicas
) -> None:
    """Also behind the next start of that one: the store of before may come back at any time."""
    replicas.link_up(link_to("hub"))
    replicas.set_slots(10, [SLOT])
    await trio.testing.wait_all_tasks_blocked()
    plane.answer({"name": "c"}, header("0:a 21:b"))
    await trio.testing.wait_all_tasks_blocked()
    plane.sequence = 40
    replicas.set_slots(10, [])
    replicas.set_slots(10, [DURABLE])
    await trio.testing.wait_all_tasks_blocked()
    plane.answer(RESET, header("0:a 21:b 31:c"))
    await trio.testing.wait_all_tasks_blocked()
    assert ("stand", 10, DURABLE.origin.key, 30) in plane.calls
    assert dict(stored(plane).taken) == {"a": 20, "b": 40}
    plane.sequence = 35
    replicas.ingest_event(t.Ingest(10, 1, t.IngestCode.GAP, 0, 35))
    await trio.sleep(5)
    plane.answer(RESET, header("31:c 36:d"))
    await trio.testing.wait_all_tasks_blocked()
    assert stored(plane).lineage == ((0, "a"), (21, "b"), (31, "c"), (36, "d"))
    assert dict(stored(plane).taken) == {"a": 20, "b": 40, "c": 35}


@on_mock_clock
async def test_what_a_durable_consumer_delivers_of_a_store_that_was_put_back_is_of_no_epoch(
    plane: FakePlane, replicas: Replicas
) -> None:
    """On the disk as well, and at once: a process that begins here would else take it for messages of the last one."""
    replicas.link_up(link_to("hub"))
    replicas.set_slots(10, [DURABLE])
    await trio.testing.wait_all_tasks_blocked()
    plane.answer(RESET, header("0:a"))
    await trio.testing.wait_all_tasks_blocked()
    assert stored(plane).lineage == ((0, "a"),)
    replicas.ingest_event(t.Ingest(10, 1, t.IngestCode.BACK, 0, 5))
    await trio.testing.wait_all_tasks_blocked()
    assert stored(plane).lineage == ()
    assert "stop" not in [call[0] for call in plane.calls], "it goes on by itself"
