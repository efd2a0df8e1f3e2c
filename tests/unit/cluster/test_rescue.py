"""A rescue that is cut off after any step goes on with what was decided, and what cannot be read is no order.

The plane is a fake that keeps what it was asked for. Not here: the new group itself (tests/native/test_plane_meta.c),
servers (tests/interop/test_meta_group.py).
"""

from __future__ import annotations

import contextlib
import struct
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from leafd import native_types as t, rescues
from leafd.cluster.council import group_name, promises_in
from leafd.cluster.founding import Disk
from leafd.daemon import rescue
from leafd.native import layout
from leafd.native_meta import LEADER, MetaLook, MetaMember

OWN, OLD, KEY = Disk(7, 70), 99, b"key"


class CutError(Exception):
    """The process ends here."""


@dataclass
class Plane:
    """Ends the process at its n-th call; what calls before that did stays. replaced: the groups that were made."""

    cut: int = -1
    group: int = OLD
    records: dict[bytes, bytes] = field(default_factory=dict)
    replaced: list[tuple[int, int]] = field(default_factory=list)
    busy: int = 0
    """So often it is asked to come again."""

    def _step(self) -> None:
        self.cut -= 1
        if self.cut == 0:
            raise CutError

    async def meta_look(self) -> bytes:
        known = {"name": self.group, "last": 40}
        return layout("meta_look_t").pack({name: known.get(name, 0) for name in MetaLook.__match_args__})

    async def meta_rows(self) -> bytes:
        return struct.pack(">BIQ", 1, 1, 55) + b"kv"

    async def meta_replace(self, name: int, own: tuple[int, int] | None, index: int) -> None:
        if self.busy:
            self.busy -= 1
            raise t.PlaneError(t.Status.AGAIN, "later")
        assert own == OWN
        self._step()
        if self.group != name:
            self.group = name
            self.replaced.append((name, index))
        self._step()

    async def record_put(self, key: bytes, value: bytes) -> None:
        self._step()
        self.records[key] = value
        self._step()


async def rescued(plane: Plane, folder: Path, *, there: bool = True) -> tuple[bytes, bytes]:
    return await rescue.carry_out(folder, cast(Any, plane), OWN, there=there, record=KEY)


@pytest.mark.parametrize("cut", range(1, 8))
def test_a_rescue_that_was_cut_off_goes_on_with_what_was_decided(cut: int, tmp_path: Path) -> None:
    """One new group is made, and the records say so; the log of the new group begins behind all that there was."""
    plane = Plane(cut=cut, busy=2)
    (tmp_path / rescues.GROUP).touch()
    with pytest.raises(CutError) if cut < 7 else contextlib.nullcontext():
        trio.run(rescued, plane, tmp_path)
    plane.cut = -1
    if cut < 7:
        assert rescue.is_asked_for(tmp_path)
        trio.run(rescued, plane, tmp_path)
    assert not rescue.is_asked_for(tmp_path)
    ((name, index),) = plane.replaced
    assert index == 56
    kept = promises_in(plane.records[KEY], OWN.disk)
    assert kept.founded
    assert OWN in kept.members
    assert group_name(kept.members) == name
    assert name not in (OLD, group_name([OWN]))
    assert plane.records[rescue.RECORD] == OLD.to_bytes(8, "big")


def test_a_second_rescue_makes_another_group(tmp_path: Path) -> None:
    """Its members are the same disk, and yet servers of the first one must not be taken for its own."""
    plane = Plane()
    for _ in range(2):
        (tmp_path / rescues.GROUP).touch()
        trio.run(rescued, plane, tmp_path)
    (first, _), (second, _) = plane.replaced
    assert first != second


@pytest.mark.parametrize("content", ["{", "[]", '{"old": 1, "token": 2}', '{"old": 1, "token": 2, "index": "x"}', "7"])
def test_what_is_no_order_is_not_followed(content: str, tmp_path: Path) -> None:
    """The group stays as it is, and the log says what to do."""
    plane = Plane()
    (tmp_path / rescues.GROUP).write_text(content)
    with pytest.raises(rescue.RescueError, match="remove it, and ask again"):
        trio.run(rescued, plane, tmp_path)
    assert plane.replaced == []


def test_a_disk_without_a_group_rescues_none(tmp_path: Path) -> None:
    """A rescue on a disk that has no group is refused: it would found a second group."""
    plane = Plane(group=0)
    (tmp_path / rescues.GROUP).touch()
    with pytest.raises(rescue.RescueError, match="no part of a group"):
        trio.run(partial(rescued, plane, tmp_path, there=False))
    assert plane.replaced == []


def test_a_letter_without_a_sound_list_of_members_names_no_group() -> None:
    """A server that hears such a letter stays in the group that it is in."""
    other = Disk(8, 80)
    said = rescue.news({OLD: other, OLD + 1: None}, frozenset((OWN,)))
    assert rescue.heard(said) == ({OLD: frozenset((other,)), OLD + 1: frozenset((OWN,))}, frozenset((OWN,)))
    older = {name: value for name, value in said.items() if name != "by"}
    assert rescue.heard(older) == (dict.fromkeys((OLD, OLD + 1), frozenset((OWN,))), frozenset((OWN,)))
    many = [[peer, 1] for peer in range(1, 11)]
    wrong: list[tuple[Any, Any]] = [([1], []), (1, [[1, 2]]), ([1], [[1]]), ([1], 7), ([1], many), ([1], [[0, 1]])]
    wrong += [([1], [[1, 1], [1, 2]]), ([1], [[-1, 2]]), ([1], [[1, 1 << 64]])]
    for groups, members in wrong:
        with pytest.raises((ValueError, TypeError)):
            rescue.heard({"groups": groups, "members": members})
    for by in (7, [[1, 2], [1, 2]], [[1]], [["x", 1]]):
        with pytest.raises((ValueError, TypeError)):
            rescue.heard({"groups": [1], "members": [[1, 2]], "by": by})


def test_rows_of_replaced_groups_say_who_went_on_alone() -> None:
    """Those of older versions say the group alone."""
    keys = [rescue.ROW + name.to_bytes(8, "big") for name in (OLD, OLD + 1, OLD + 2)]
    rows = {keys[0]: (1, rescue.written_row(OWN)), keys[1]: (2, b"{}"), keys[2]: (3, b"[]"), b"m/x": (4, b"{}")}
    assert rescue.replaced_groups(rows) == {OLD: OWN, OLD + 1: None, OLD + 2: None}


ALONE, ELECTION_NS = Disk(8, 80), 1_500_000_000
SECOND = 1_000_000_000


def judged(role: int, *, heard_ns: int = -1, alone: Disk = ALONE, leader: int = OWN.peer, **since: float) -> str:
    zeros = dict.fromkeys(MetaLook.__match_args__, 0)
    look = MetaLook(**zeros | {"role": role, "leader": leader, "election_ns": ELECTION_NS})
    members = [MetaMember(*one, lag=0, heard_ns=ns, voter=1, copies=0) for one, ns in ((OWN, -1), (ALONE, heard_ns))]
    asked = {"stood_s": 60.0, "asked_s": 0.0} | since
    return rescue.judged(look, members, frozenset((alone,)), own=OWN, **asked)


def test_a_leader_stays_where_the_server_that_went_on_alone_answers_it() -> None:
    """It leaves once that one has said nothing for as long as makes a member offline, and all have had the time to."""
    assert judged(LEADER) == "leave"
    assert judged(LEADER, stood_s=1.4) == "wait"
    assert judged(LEADER, heard_ns=6 * SECOND) == "leave"
    assert judged(LEADER, heard_ns=4 * SECOND) == "wait"  # it may have been stopped just now, to be rescued
    assert judged(LEADER, heard_ns=SECOND // 5, asked_s=1.1) == "wait"
    assert judged(LEADER, heard_ns=SECOND // 5, asked_s=1.3) == "stay"
    assert judged(LEADER, heard_ns=4 * SECOND, asked_s=4.9) == "wait"
    assert judged(LEADER, alone=Disk(9, 90)) == "stay"
    assert judged(LEADER, alone=Disk(ALONE.peer, 81)) == "stay"
    assert judged(LEADER, alone=OWN) == "stay"


def test_who_does_not_lead_waits_for_what_its_leader_does() -> None:
    """A group that can elect a leader has one within three times what its members wait."""
    for role in (0, 1, 2):
        assert judged(role) == "wait"
        assert judged(role, leader=0) == "leave"
        assert judged(role, leader=0, stood_s=4.4) == "wait"
        assert judged(role, leader=0, stood_s=4.6) == "leave"
