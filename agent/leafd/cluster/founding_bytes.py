"""The messages of founding a group, and the promises that a disk keeps meanwhile, as bytes. Numbers are big-endian.

    message    0 "LRB1"  4 kind  5 members  6 zero 2  8 from (peer, disk)  24 to (peer, disk)  40 ballot
              64 other ballot  88 members: 16 each (peer, disk), ascending  .. crc32 4 of all before
    ballot     0 round  8 owner (peer, disk)                                    zero where a kind has none
    promises   0 version  1 founded  2 members  3 zero  4 promised  28 accepted  52 members: 16 each

A message is whole and in order, or it is nothing: read_message looks at every byte, and what a kind has no use for is
zero. What was read from the disk and is not promises is damage, and never a disk that has promised nothing.

Not here: what messages mean (founding.py), which server a message came from (the route says it), and how it travels.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from leafd.cluster.founding import (
    MEMBERS_MAX,
    NO_BALLOT,
    Accepted,
    Ballot,
    Disk,
    Founded,
    Hello,
    Members,
    Message,
    Offer,
    Prepare,
    Promised,
    Promises,
    Refused,
)
from leafd.records import dataclass

MAGIC: Final = b"LRB1"
VERSION: Final = 1
_HEAD: Final = struct.Struct(">4sBBH")
_DISK: Final = struct.Struct(">QQ")
_BALLOT: Final = struct.Struct(">QQQ")
_CRC: Final = struct.Struct(">I")
_KEPT: Final = struct.Struct(">BBBB")
_FIXED: Final = _HEAD.size + 2 * _DISK.size + 2 * _BALLOT.size
MESSAGE_MAX: Final = _FIXED + MEMBERS_MAX * _DISK.size + _CRC.size
PREPARE, PROMISED, REFUSED, OFFER, ACCEPTED, FOUNDED, HELLO = range(1, 8)
NO_MEMBERS: Final[Members] = frozenset()


@dataclass(frozen=True, slots=True)
class Letter:
    """A message, with its sender and its receiver as it says them."""

    sender: Disk
    to: Disk
    message: Message


class DamagedError(Exception):
    """The promises on the disk cannot be read."""


def _parts(message: Message) -> tuple[int, Ballot, Ballot, Members]:
    if isinstance(message, Prepare):
        return PREPARE, message.ballot, NO_BALLOT, NO_MEMBERS
    if isinstance(message, Promised):
        return PROMISED, message.ballot, message.accepted, message.members
    if isinstance(message, Refused):
        return REFUSED, message.ballot, message.promised, NO_MEMBERS
    if isinstance(message, Offer):
        return OFFER, message.ballot, NO_BALLOT, message.members
    if isinstance(message, Accepted):
        return ACCEPTED, message.ballot, NO_BALLOT, NO_MEMBERS
    if isinstance(message, Hello):
        return HELLO, NO_BALLOT, NO_BALLOT, NO_MEMBERS
    return FOUNDED, NO_BALLOT, NO_BALLOT, message.members


def _message(kind: int, ballot: Ballot, other: Ballot, members: Members) -> Message | None:
    """A message of that kind; None: it has other parts."""
    messages: dict[int, Message] = {
        PREPARE: Prepare(ballot),
        PROMISED: Promised(ballot, other, members),
        REFUSED: Refused(ballot, other),
        OFFER: Offer(ballot, members),
        ACCEPTED: Accepted(ballot),
        FOUNDED: Founded(members),
        HELLO: Hello(),
    }
    message = messages.get(kind)
    if message is None or _parts(message) != (kind, ballot, other, members):
        return None
    if (kind in {OFFER, FOUNDED} and not members) or (kind not in {FOUNDED, HELLO} and ballot == NO_BALLOT):
        return None
    return None if kind == PROMISED and (other == NO_BALLOT) != (not members) else message


def _ballot_bytes(ballot: Ballot) -> bytes:
    return _BALLOT.pack(ballot.round, *ballot.owner)


def _read_ballot(data: bytes, at: int) -> Ballot:
    number, peer, disk = _BALLOT.unpack_from(data, at)
    return Ballot(number, Disk(peer, disk))


def _members_bytes(members: Iterable[Disk]) -> bytes:
    return b"".join(_DISK.pack(*disk) for disk in sorted(members))


def _read_members(data: bytes) -> Members | None:
    """Members; None: not ascending, two disks of one server, too many, or a server without an id."""
    disks = [Disk(*parts) for parts in _DISK.iter_unpack(data)]
    peers = [disk.peer for disk in disks]
    well = len(disks) <= MEMBERS_MAX and 0 not in peers and all(a < b for a, b in pairwise(peers))
    return frozenset(disks) if well else None


def write_message(sender: Disk, to: Disk, message: Message) -> bytes:
    """The bytes of a message, at most MESSAGE_MAX."""
    kind, ballot, other, members = _parts(message)
    head = _HEAD.pack(MAGIC, kind, len(members), 0) + _DISK.pack(*sender) + _DISK.pack(*to)
    data = head + _ballot_bytes(ballot) + _ballot_bytes(other) + _members_bytes(members)
    return data + _CRC.pack(zlib.crc32(data))


def read_message(data: bytes) -> Letter | None:
    """The message with its addresses; None: it is no message, or damaged."""
    if not _FIXED + _CRC.size <= len(data) <= MESSAGE_MAX:
        return None
    magic, kind, count, zero = _HEAD.unpack_from(data)
    if magic != MAGIC or zero != 0 or len(data) != _FIXED + count * _DISK.size + _CRC.size:
        return None
    if _CRC.unpack_from(data, len(data) - _CRC.size)[0] != zlib.crc32(data[: -_CRC.size]):
        return None
    sender, to = (Disk(*_DISK.unpack_from(data, _HEAD.size + n * _DISK.size)) for n in range(2))
    members = _read_members(data[_FIXED : -_CRC.size])
    if sender.peer == 0 or to.peer == 0 or members is None:
        return None
    at = _HEAD.size + 2 * _DISK.size
    message = _message(kind, _read_ballot(data, at), _read_ballot(data, at + _BALLOT.size), members)
    return None if message is None else Letter(sender, to, message)


def write_promises(promises: Promises) -> bytes:
    """A record of the store; what it has lost of it, the store sees."""
    head = _KEPT.pack(VERSION, promises.founded, len(promises.members), 0)
    return head + _ballot_bytes(promises.promised) + _ballot_bytes(promises.accepted) + _members_bytes(promises.members)


def read_promises(data: bytes) -> Promises:
    """Raises DamagedError: this disk may have promised anything, so it takes part in nothing."""
    fixed = _KEPT.size + 2 * _BALLOT.size
    if len(data) < fixed:
        raise DamagedError
    version, founded, count, zero = _KEPT.unpack_from(data)
    if version != VERSION or founded > 1 or zero != 0 or len(data) != fixed + count * _DISK.size:
        raise DamagedError
    members = _read_members(data[fixed:])
    accepted = _read_ballot(data, _KEPT.size + _BALLOT.size)
    if members is None or (not members and (founded or accepted != NO_BALLOT)):
        raise DamagedError
    if members and not founded and accepted == NO_BALLOT:
        raise DamagedError
    return Promises(_read_ballot(data, _KEPT.size), accepted, members, founded=bool(founded))
