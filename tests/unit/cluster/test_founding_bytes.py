"""The bytes of founding: what is written is read again, and nothing else is taken for a message or for promises."""

from __future__ import annotations

import random
import struct
import zlib
from typing import Final

import pytest
from leafd.cluster.founding import (
    MEMBERS_MAX,
    NO_BALLOT,
    SETTLE_S,
    Accepted,
    Ballot,
    Disk,
    Founded,
    Founding,
    Hello,
    Members,
    Message,
    Offer,
    Prepare,
    Promised,
    Promises,
    Refused,
)
from leafd.cluster.founding_bytes import (
    MESSAGE_MAX,
    DamagedError,
    read_message,
    read_promises,
    write_message,
    write_promises,
)

A, B, C = Disk(1, 10), Disk(2, 20), Disk(3, (1 << 64) - 1)
FIRST, SECOND = Ballot(1, A), Ballot(1 << 40, C)
THREE: Final[Members] = frozenset({A, B, C})
NINE: Final[Members] = frozenset(Disk(peer, peer) for peer in range(1, MEMBERS_MAX + 1))
MESSAGES: Final[tuple[Message, ...]] = (
    Prepare(FIRST),
    Promised(SECOND, NO_BALLOT, frozenset()),
    Promised(SECOND, FIRST, THREE),
    Refused(FIRST, SECOND),
    Offer(SECOND, NINE),
    Accepted(FIRST),
    Founded(THREE),
    Hello(),
)
PROMISES: Final = (
    Promises(),
    Promises(FIRST),
    Promises(SECOND, FIRST, THREE),
    Promises(SECOND, SECOND, NINE, founded=True),
    Promises(members=THREE, founded=True),
)


def sealed(data: bytes) -> bytes:
    """With the checksum of what it says now: as of somebody who means it."""
    return data[:-4] + struct.pack(">I", zlib.crc32(data[:-4]))


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_read_as_it_was_written(message: Message) -> None:
    data = write_message(A, C, message)
    assert len(data) <= MESSAGE_MAX
    letter = read_message(data)
    assert letter is not None
    assert (A, C, message) == (letter.sender, letter.to, letter.message)


def test_the_bytes_of_an_offer_are_those_of_the_picture() -> None:
    """By hand, so that a change of the format does not pass for its own proof."""
    expected = b"LRB1" + bytes([4, 2, 0, 0])
    expected += struct.pack(">4Q", 1, 10, 2, 20)
    expected += struct.pack(">3Q", 1 << 40, 3, (1 << 64) - 1) + bytes(24)
    expected += struct.pack(">4Q", 1, 10, 2, 20)
    expected += struct.pack(">I", zlib.crc32(expected))
    assert expected == write_message(A, B, Offer(SECOND, frozenset({B, A})))


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_that_is_cut_or_damaged_is_none(message: Message) -> None:
    data = write_message(A, C, message)
    for size in range(len(data)):
        assert read_message(data[:size]) is None
    assert read_message(data + b"\0") is None
    for at in range(len(data)):
        harmed = bytearray(data)
        harmed[at] ^= 1 << at % 8
        assert read_message(bytes(harmed)) is None


def test_whoever_means_it_gets_no_message_past_that_could_not_be_written() -> None:
    """Any bytes under a right checksum: what is read says the same when it is written again."""
    chance = random.Random(29)
    read = 0
    for _ in range(8_000):
        data = bytearray(write_message(A, C, chance.choice(MESSAGES)))
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(4, len(data))] = chance.choice((0, 1, 2, 9, 255, chance.randrange(256)))
        letter = read_message(sealed(bytes(data)))
        if letter is not None:
            read += 1
            assert sealed(bytes(data)) == write_message(letter.sender, letter.to, letter.message)
    assert read > 400


def replaced(data: bytes, at: int, number: int) -> bytes:
    return sealed(data[:at] + struct.pack(">Q", number) + data[at + 8 :])


def test_lists_that_no_server_offers_are_refused() -> None:
    data = write_message(A, B, Offer(FIRST, THREE))
    assert read_message(sealed(data)) is not None
    assert read_message(replaced(data, 88, 0)) is None  # no server
    assert read_message(replaced(data, 88, 2)) is None  # two disks of one server
    assert read_message(replaced(data, 88, 3)) is None  # not in order
    assert read_message(replaced(data, 40, 0)) is not None  # a round of an owner
    assert read_message(replaced(replaced(replaced(data, 40, 0), 48, 0), 56, 0)) is None  # no ballot at all
    assert read_message(replaced(data, 64, 1)) is None  # a ballot that an offer has no use for
    assert read_message(replaced(data, 8, 0)) is None  # of nobody
    ten = frozenset(Disk(peer, 1) for peer in range(1, MEMBERS_MAX + 2))
    assert read_message(write_message(A, B, Offer(FIRST, ten))) is None
    assert read_message(write_message(A, B, Offer(FIRST, frozenset()))) is None
    assert read_message(write_message(A, B, Founded(frozenset()))) is None
    assert read_message(write_message(A, B, Promised(FIRST, SECOND, frozenset()))) is None
    assert read_message(write_message(A, B, Promised(FIRST, NO_BALLOT, THREE))) is None


@pytest.mark.parametrize("promises", PROMISES)
def test_promises_are_read_as_they_were_written(promises: Promises) -> None:
    assert promises == read_promises(write_promises(promises))


@pytest.mark.parametrize("promises", PROMISES)
def test_damaged_promises_are_not_those_of_a_new_disk(promises: Promises) -> None:
    """The store's checksum finds damage; what gets past it is never read as nothing promised."""
    data = write_promises(promises)
    for size in range(len(data)):
        with pytest.raises(DamagedError):
            read_promises(data[:size])
    for at in range(4):
        harmed = bytearray(data)
        harmed[at] ^= 0x80
        with pytest.raises(DamagedError):
            read_promises(bytes(harmed))


def test_promises_that_no_server_makes_are_damage() -> None:
    for wrong in (
        Promises(FIRST, SECOND),
        Promises(FIRST, members=THREE),
        Promises(founded=True),
        Promises(FIRST, FIRST, frozenset({A, Disk(1, 11)})),
    ):
        with pytest.raises(DamagedError):
            read_promises(write_promises(wrong))


def test_three_servers_found_a_group_over_bytes() -> None:
    """Each message and each promise goes through its bytes, and a server that starts anew reads what it had."""
    disks = (A, B, C)
    servers = {disk: Founding(disk, 3, Promises(), lambda: 0.5) for disk in disks}
    stored: dict[Disk, bytes] = {}
    flying: list[bytes] = []
    for tick in range(200):
        for disk in disks:
            server = servers[disk]
            if tick == 30 and disk in stored:
                server = servers[disk] = Founding(disk, 3, read_promises(stored[disk]), lambda: 0.5)
            server.see(disks)
            server.tick(tick * SETTLE_S / 20)
            saving = server.take_saving()
            if saving is not None:
                stored[disk] = write_promises(saving[1])
            flying += [write_message(disk, sending.to, sending.message) for sending in server.take_sendings()]
        arrived, flying = flying, []
        for data in arrived:
            letter = read_message(data)
            assert letter is not None
            servers[letter.to].receive(letter.sender, letter.message)
    assert {THREE} == {read_promises(data).members for data in stored.values()}
    assert all(read_promises(stored[disk]).founded for disk in disks)
