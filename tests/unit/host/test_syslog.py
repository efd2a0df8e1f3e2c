"""The log's way to syslog, over real sockets: what it writes, that it never waits, and that what is lost is told."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from leafd.host import syslog
from leafd.host.syslog import PENDING_MAX, Syslog

PATIENCE_S = 20.0


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that has broken is tried again with the next line."""
    monkeypatch.setattr(syslog, "AGAIN_S", 0.0)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(PATIENCE_S)
        yield made


def accepted(listener: socket.socket) -> socket.socket:
    there, _ = listener.accept()
    there.settimeout(PATIENCE_S)
    return there


def test_a_line_by_udp_is_one_packet_with_facility_severity_and_time() -> None:
    """Facility daemon (3); a warning is severity 4: 3 * 8 + 4. The time is RFC 3339, with the zone."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there:
        there.bind(("127.0.0.1", 0))
        there.settimeout(PATIENCE_S)
        way = Syslog(f"udp://127.0.0.1:{there.getsockname()[1]}")
        assert way.send("WRN", "the disk is slow")
        way.close()
        line = there.recv(4096).decode()
    assert re.fullmatch(r"<28>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d \S+ leafd\[\d+\]: the disk is slow\n", line)


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
def test_a_socket_of_this_machine_may_be_of_either_kind(kind: socket.SocketKind, tmp_path: Path) -> None:
    """rsyslog's is of packets, that of some containers a stream."""
    path = str(tmp_path / "log")
    with socket.socket(socket.AF_UNIX, kind) as there:
        there.bind(path)
        there.settimeout(PATIENCE_S)
        if kind == socket.SOCK_STREAM:
            there.listen()
        way = Syslog(f"unix://{path}")
        assert way.send("INF", "text")
        heard = accepted(there) if kind == socket.SOCK_STREAM else there
        assert heard.recv(4096).endswith(b": text\n")
        heard.close()
        way.close()


def test_where_nobody_listens_lines_are_lost_and_told_when_somebody_does(tmp_path: Path) -> None:
    """The first thing that syslog hears is how many it has not heard."""
    path = str(tmp_path / "log")
    way = Syslog(f"unix://{path}")
    assert [False, False] == [way.send("INF", "one"), way.send("INF", "two")]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as there:
        there.bind(path)
        there.settimeout(PATIENCE_S)
        assert way.send("INF", "three")
        told, line = there.recv(4096), there.recv(4096)
    way.close()
    assert b"2 lines were lost: syslog did not take them in time" in told
    assert line.endswith(b": three\n")


def test_a_reader_that_takes_nothing_holds_nobody_up_and_memory_is_bounded(listener: socket.socket) -> None:
    """Whatever the kernel does not take waits up to a bound; further lines are lost, and nothing blocks."""
    way = Syslog(f"tcp://127.0.0.1:{listener.getsockname()[1]}")
    assert way.send("INF", "first")
    there = accepted(listener)
    sent = [way.send("INF", "x" * 8000) for _ in range(4000)]
    assert not all(sent)
    assert len(way._pending) <= PENDING_MAX
    there.close()
    way.close()


def test_lines_that_waited_for_a_connection_that_broke_are_counted(listener: socket.socket) -> None:
    """Each line is there whole, or among those that are told as lost."""
    way = Syslog(f"tcp://127.0.0.1:{listener.getsockname()[1]}")
    assert way.send("INF", "first")
    there = accepted(listener)
    count = 1
    while len(way._pending) < PENDING_MAX // 2:
        assert way.send("INF", f"{count} " + "x" * 8000)
        count += 1
    waiting = way._pending.count(b"\n")
    assert waiting > 1
    there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # its end is a reset
    there.close()
    while way.send("INF", "next"):
        waiting += 1
    assert way.send("INF", "again")
    with accepted(listener) as other, other.makefile("rb") as lines:
        told, again = lines.readline(), lines.readline()
    way.close()
    found = re.search(rb": (\d+) lines were lost", told)
    assert found is not None
    assert waiting + 1 == int(found[1])
    assert again.endswith(b": again\n")
