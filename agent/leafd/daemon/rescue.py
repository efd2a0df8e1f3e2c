"""A lost majority: one server of the group of all servers goes on alone, and the others follow it when they come back.

    leafd cluster rescue --> a file in the store's directory --> the next start of that server:
        what its log has is carried out, also what nobody knows to be agreed on: it may have been answered
        a group of another name, of this disk alone, with these rows; a row has the old group's name
    its leader tells each server that is linked --> one of the old group leaves that, and is let in as a new one is

A server that has the cluster's login can write such a letter, so it is judged: the group's leader stays where the disk
that is said to have gone on alone takes part in the group, or is none of it; the others wait for what it does.

The lost servers may have agreed on more, with others that are lost, too: that is what a rescue loses. Two groups are
there until those who come back have heard of the new one. So one server alone may be rescued, and the others are not to
be started where they do not reach it.

The file has first nothing in it, then what was decided, so that a crash in between changes nothing of it. Not here: the
words of the command (cli/cluster_words.py), the new group itself (native/meta).
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import trio

from leafd import native_types as t
from leafd.cluster.council import DISK_SIZE, LOOK_S, group_name
from leafd.cluster.founding import MEMBERS_MAX, Disk, Members, Promises
from leafd.cluster.founding_bytes import write_promises
from leafd.cluster.repetition import Repeated
from leafd.files import read_file, sync_directory
from leafd.gojson import dump
from leafd.native_meta import LEADER, MetaLook, MetaMember, is_silent, look_in, rows_in
from leafd.records import dataclass
from leafd.rescues import GROUP as FILE

if TYPE_CHECKING:
    from leafd.native_plane import Plane

ROW: Final = b"r/"
"""The row of a group that was replaced by the one that has the row: behind it the old name, 8 bytes. It has the disk
that went on alone; those that older versions wrote have none."""
RECORD: Final = b"meta/rescued"
"""The name of the group that this disk was rescued from."""
LEADERLESS_ELECTIONS: Final = 3
"""A group that can elect a leader has one by then: so many times what a member waits before it wants an election."""
KEPT_S: Final = 60.0
"""So long is a letter judged at most; it is said again, see cluster/repetition.py."""
_SIZE_MAX: Final = 4096
_NUMBER_END: Final = 1 << 64
_AGAIN_S: Final = 0.1
_PATIENCE_S: Final = 60.0
_LATER: Final = (t.Status.AGAIN, t.Status.FULL)


class RescueError(Exception):
    """The rescue cannot be carried out. The text says why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The new group. index: of its log, from which it begins."""

    old: int
    token: int
    index: int

    def members(self, own: Disk) -> Members:
        """The list from which all servers make the group's name: this disk, and a number that no other rescue has."""
        return frozenset((own, Disk(self.token, self.token)))


def is_asked_for(folder: Path | None) -> bool:
    """Whether this start is to rescue the group."""
    return folder is not None and (folder / FILE).exists()


async def carry_out(folder: Path, plane: Plane, own: Disk, *, there: bool, record: bytes) -> tuple[bytes, bytes]:
    """Does it, or goes on with it: the records of what this disk has promised from then on, and of the old group.
    record: the key of the first. Raises RescueError, PlaneError."""
    plan = _planned(folder)
    if plan is None and not there:
        raise RescueError("this disk has no part of a group that could be rescued")
    if plan is None:
        plan = await _decide(plane)
        _keep(folder, plan)
    members = plan.members(own)
    with trio.move_on_after(_PATIENCE_S) as waiting:
        while not await _replaced(plane, group_name(members), own, plan.index):  # noqa: ASYNC110
            await trio.sleep(_AGAIN_S)
    if waiting.cancelled_caught:
        raise RescueError("what its log has cannot be carried out now: the next start goes on with it")
    promises = own.disk.to_bytes(DISK_SIZE, "big") + write_promises(Promises(members=members, founded=True))
    await plane.record_put(record, promises)
    old = plan.old.to_bytes(8, "big")
    await plane.record_put(RECORD, old)
    try:
        (folder / FILE).unlink()
        sync_directory(folder)
    except OSError as error:
        raise RescueError(f"{folder / FILE} cannot be removed: {error.strerror}") from error
    return promises, old


async def _replaced(plane: Plane, name: int, own: Disk, index: int) -> bool:
    try:
        await plane.meta_replace(name, own, index)
    except t.PlaneError as error:
        if error.status not in _LATER:
            raise
        return False
    return True


async def _decide(plane: Plane) -> Plan:
    look, _ = look_in(await plane.meta_look())
    revisions = [revision for revision, _ in rows_in(await plane.meta_rows()).values()]
    return Plan(look.name, random.getrandbits(63) | 1, max(look.last, *revisions, 0) + 1)


def _planned(folder: Path) -> Plan | None:
    """The plan in the file; None: nothing was decided yet. Raises RescueError."""
    try:
        content = read_file(folder / FILE, _SIZE_MAX)
        if not content.strip():
            return None
        found = json.loads(content)
        return Plan(int(found["old"]), int(found["token"]), int(found["index"]))
    except OSError as error:
        raise RescueError(f"{folder / FILE} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError):
        raise RescueError(f"{folder / FILE} is not what a rescue has written: remove it, and ask again") from None


def _keep(folder: Path, plan: Plan) -> None:
    text = json.dumps({"old": plan.old, "token": plan.token, "index": plan.index})
    new = folder / f"{FILE}.new"
    try:
        with new.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(folder / FILE)
        sync_directory(folder)
    except OSError as error:
        raise RescueError(f"{folder / FILE} cannot be written: {error.strerror}") from error


def written_row(own: Disk) -> bytes:
    """The row of the group from which this disk was rescued."""
    return dump({"by": list(own)})


def replaced_groups(rows: Mapping[bytes, tuple[int, bytes]]) -> dict[int, Disk | None]:
    """The groups in whose place this one is, by its rows, and the disk of each that went on alone. None: the row does
    not say it."""
    found: dict[int, Disk | None] = {}
    for key, (_, value) in sorted(rows.items()):
        if key.startswith(ROW):
            name = int.from_bytes(key[len(ROW) :], "big")
            try:
                peer, disk = json.loads(value)["by"]
                found[name] = Disk(int(peer), int(disk))
            except (ValueError, KeyError, TypeError):
                found[name] = None
    return found


def news(groups: Mapping[int, Disk | None], members: Members) -> dict[str, Any]:
    """A letter of the leader to servers of these groups."""
    by = [list(one) if one is not None else None for one in groups.values()]
    return {"news": "rescued", "groups": list(groups), "by": by, "members": [list(one) for one in sorted(members)]}


def heard(letter: dict[str, Any]) -> tuple[dict[int, Members], Members]:
    """The groups of such a letter, each with the disks of which one has gone on alone, and the list of the one in their
    place. Raises ValueError, KeyError, TypeError."""
    members = frozenset(Disk(int(peer), int(disk)) for peer, disk in letter["members"])
    peers = {one.peer for one in members}
    if not members or len(members) > MEMBERS_MAX or len(peers) != len(members):
        raise ValueError("no list of a group's members")
    if not all(0 < one.peer < _NUMBER_END and 0 <= one.disk < _NUMBER_END for one in members):
        raise ValueError("no server")  # what is kept of it could not be read at the next start
    groups = [int(one) for one in letter["groups"]]
    alone = [frozenset((Disk(*map(int, one)),)) if one is not None else members for one in letter.get("by", ())]
    return dict(zip(groups, alone or [members] * len(groups), strict=True)), members


Verdict = Literal["leave", "wait", "stay"]


def judged(
    look: MetaLook, members: Iterable[MetaMember], alone: Members, *, own: Disk, stood_s: float, asked_s: float
) -> Verdict:
    """The answer to such a letter. alone: the disks of which one is said to have gone on alone; stood_s: for how long
    this server has led, or known of no leader; asked_s: since the letter came, of which the look may have missed the
    last LOOK_S.

    A leader knows whether the disk takes part in its group: it answers. Where another server leads, that one leaves
    first if the letter is true, and then there is no leader any more."""
    election_s = look.election_ns / 1e9
    if look.role != LEADER:
        return "wait" if look.leader or stood_s < LEADERLESS_ELECTIONS * election_s else "leave"
    claimed = [one for one in members if (one.peer, one.disk) in alone]
    if not claimed or own in alone or any(0 <= one.heard_ns / 1e9 < asked_s - LOOK_S for one in claimed):
        return "stay"
    return "leave" if stood_s >= election_s and all(is_silent(one) for one in claimed) else "wait"


class Announcer:
    """Tells servers of a group that this one replaced, which come back, that they are to leave it."""

    def __init__(self, tell: Callable[[int, bytes], Awaitable[None]]) -> None:
        self._tell = tell
        self._said: Repeated[int] = Repeated()

    async def tick(self, now_s: float, said: dict[str, Any] | None, linked: Collection[int]) -> None:
        """The passing of time. said: news; None: there are none."""
        self._said.keep(linked if said is not None else ())
        if said is None:
            return
        letter = dump(said)
        for peer in linked:
            if self._said.is_due(peer, letter, now_s):
                await self._tell(peer, letter)
