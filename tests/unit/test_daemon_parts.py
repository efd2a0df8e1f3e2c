"""Parts of the daemon that need no process: deadlines, the directory of memory streams, log lines, signals, what a
reload takes."""

from __future__ import annotations

import errno
import os
import re
import resource
import signal
import tempfile
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing
from leafd import native_types as t
from leafd.config.bind import load_text
from leafd.config.schema.server import ServerConfig
from leafd.config.schema.tls import Tls
from leafd.daemon.expiry import Expiry
from leafd.daemon.farewell import SECOND, Farewell
from leafd.daemon.reload import merged
from leafd.daemon.store import MemoryDirectory, make_directory, plane_limits, store_directory
from leafd.errors import ConfigError, LeafdError, StartError, UsageError
from leafd.guard import Guard
from leafd.host.descriptors import LEAST, RESERVED, connections_for, warning
from leafd.host.kill import send
from leafd.host.log import Log
from leafd.host.memory import allowed_by, connections_wanted, memory_limit
from leafd.host.systemd import DISK_S, Life
from leafd.logins.deadlines import Deadlines

from tests.certificates import Authority
from tests.rig.logs import QuietLog


def test_deadlines() -> None:
    """Each connection is looked at when its time is over, in the order of the times."""
    seen: list[tuple[int, float]] = []

    async def main() -> None:
        deadlines = Deadlines(lambda connection: seen.append((connection, trio.current_time() - began)))
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(deadlines.run)
            deadlines.add(1, 2.0)
            await trio.sleep(1)
            deadlines.add(2, 2.0)
            await trio.sleep(5)
            deadlines.add(3, 1.0)
            await trio.sleep(1.5)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert [(1, 2.0), (2, 3.0), (3, 7.0)] == [(connection, round(at, 6)) for connection, at in seen]


def test_memory_directory(tmp_path: Path) -> None:
    """What a killed process left behind goes; what a living one holds stays."""
    first = MemoryDirectory(tmp_path)
    (first.path / "data.mdb").write_bytes(b"x")
    stale = tmp_path / first.path.name.replace(first.path.name[-3:], "old")
    stale.mkdir()
    (stale / "data.mdb").write_bytes(b"x")
    second = MemoryDirectory(tmp_path)
    assert (True, False) == ((first.path / "data.mdb").exists(), stale.exists())
    assert first.path != second.path
    first.remove()
    second.remove()
    assert [] == list(tmp_path.iterdir())


def test_log_lines(tmp_path: Path) -> None:
    """Lines look like nats-server's; debug lines only where wanted."""
    path = tmp_path / "log"
    log = Log(str(path), utc=True)
    log.info("hello")
    log.debug("not this")
    log.debug_on = True
    log.debug("but this")
    log.times = False
    log.error("plain \udcff")
    log.close()
    first, second, third = path.read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(r"\[\d+\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} \[INF\] hello", first)
    assert second.endswith("[DBG] but this")
    assert re.fullmatch(r"\[\d+\] \[ERR\] plain \\xff", third)


def test_signal_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands stand for the signals that they stand for at nats-server."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr("os.kill", lambda pid, number: sent.append((pid, number)))
    (tmp_path / "pid").write_text("77\n")
    for command in ("stop", "quit", "term", "reload", "reopen", "ldm"):
        send(f"{command}={tmp_path / 'pid'}")
    expected = [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2]
    assert [(77, number) for number in expected] == sent
    with pytest.raises(UsageError):
        send("jump=1")
    with pytest.raises(LeafdError, match="holds no process id"):
        (tmp_path / "bad").write_text("x")
        send(f"quit={tmp_path / 'bad'}")


def test_signal_finds_the_only_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a pid the one running daemon is meant; none and several are errors."""
    sent: list[int] = []
    monkeypatch.setattr("os.kill", lambda pid, number: sent.append(pid))

    def process(pid: int, *words: str) -> None:
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cmdline").write_bytes(b"\0".join(word.encode() for word in words) + b"\0")

    process(5, "vi", "leafd.conf")
    with pytest.raises(LeafdError, match="no leafd server running"):
        send("reload", tmp_path)
    process(6, "/usr/bin/python3", "/usr/bin/leafd", "-c", "x")
    send("reload", tmp_path)
    assert [6] == sent
    process(7, "/usr/bin/python3", "-m", "leafd")
    with pytest.raises(LeafdError, match=r"\(6, 7\)"):
        send("reload", tmp_path)


def test_store_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The configuration decides, then systemd, then a temporary directory, which is told."""
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/leafd")
    assert (Path("/a/jetstream"), False) == store_directory(load_text("jetstream { store_dir: /a }").server)
    assert (Path("/b/jetstream"), False) == store_directory(load_text("store_dir: /b\njetstream: enabled").server)
    assert (Path("/var/lib/leafd/jetstream"), False) == store_directory(load_text("jetstream: enabled").server)
    monkeypatch.delenv("STATE_DIRECTORY")
    expected = (Path(tempfile.gettempdir()) / "nats" / "jetstream", True)
    assert expected == store_directory(load_text("jetstream: enabled").server)
    make_directory(tmp_path / "x" / "y")
    (tmp_path / "file").touch()
    with pytest.raises(StartError, match="cannot be written"):
        make_directory(tmp_path / "file" / "z")


def test_a_full_disk_stops_no_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That the directory takes no new file for lack of room is no reason not to start; any other refusal is."""

    def refuse(code: int) -> Callable[[Path], None]:
        def touch(path: Path) -> None:
            raise OSError(code, os.strerror(code), str(path))

        return touch

    monkeypatch.setattr(Path, "touch", refuse(errno.ENOSPC))
    make_directory(tmp_path)
    monkeypatch.setattr(Path, "touch", refuse(errno.EROFS))
    with pytest.raises(StartError, match="cannot be written"):
        make_directory(tmp_path)


def test_connections_follow_memory() -> None:
    """The default's 65,536 need memory for each; a number that is configured counts as it is."""

    def wanted(text: str, machine: int | None = None) -> int:
        server = load_text(text).server
        return connections_wanted(server, memory_limit(server, machine))

    assert 4096 == wanted("memory_limit: 32MB")
    assert 65536 == wanted("", 16 << 30)
    assert 50_000 == wanted("memory_limit: 32MB, max_connections: 50000")
    assert 0 == wanted("memory_limit: 32MB, max_connections: -1")


def test_plane_limits(tmp_path: Path) -> None:
    """Sizes come from the configuration, or from the machine; without sync_interval every ack waits for the disk."""
    limits = plane_limits(
        load_text("jetstream { max_file: 1GB, max_mem: 1MB, sync: '2s' }\nmax_conn: -1").server, tmp_path
    )
    assert (1 << 30, 1 << 20, 2 * 10**9, 1, connections_for(0)) == (
        limits.max_file_store,
        limits.max_memory_store,
        limits.sync_interval_ns,
        limits.jetstream,
        limits.max_connections,
    )
    for text in ("jetstream: enabled", "jetstream { sync_interval: always }"):
        assert 0 == plane_limits(load_text(text).server, tmp_path).sync_interval_ns
    assert plane_limits(load_text("jetstream: enabled").server, tmp_path).max_file_store > 0
    assert 0 == plane_limits(load_text("").server, None).jetstream


def test_negative_sizes_mean_the_default(tmp_path: Path) -> None:
    """max_memory_store and max_file_store below 0 are the machine's share, as in nats-server."""
    absent = plane_limits(load_text("jetstream: enabled").server, tmp_path)
    for text in ("max_memory_store: -1, max_file_store: -1", "max_mem: -2, max_file: -2"):
        negative = plane_limits(load_text(f"jetstream {{ {text} }}").server, tmp_path)
        assert absent.max_memory_store == negative.max_memory_store
        assert 0.9 < negative.max_file_store / absent.max_file_store < 1.1  # others write to this disk meanwhile


def test_the_default_counts_what_the_store_holds(tmp_path: Path) -> None:
    """With max_file_store unset a restart gives the same limit, however much the store has grown meanwhile."""
    before = plane_limits(load_text("jetstream: enabled").server, tmp_path).max_file_store
    with (tmp_path / "data.mdb").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 256 << 20)
    after = plane_limits(load_text("jetstream: enabled").server, tmp_path).max_file_store
    assert abs(after - before) < 100 << 20  # others write to this disk meanwhile


def test_a_reload_is_taken_over_or_refused_as_a_whole() -> None:
    """Live keys are taken; keys on which nothing depends wait and are named; any other changed key refuses it all, with
    the place of each."""
    old = load_text("port: 1\nmax_payload: 1\njetstream { domain: a }").server
    live, lines = merged(old, load_text("port: 1\nmax_payload: 2\njetstream { domain: a, max_file: 5 }\ndebug: true"))
    assert (2, True, None) == (live.max_payload, live.debug, live.jetstream and live.jetstream.max_file_store)
    assert ["<text>:3:24: jetstream.max_file_store has changed: it takes effect at the next restart"] == lines
    with pytest.raises(ConfigError) as caught:
        merged(old, load_text("port: 2\nmax_payload: 2\njetstream { domain: b }\ndebug: true"))
    what = "has changed, which takes a restart; nothing was taken over: restart leafd, or change it back"
    assert [f"<text>:1:1: port {what}", f"<text>:3:13: jetstream.domain {what}"] == str(caught.value).splitlines()


def test_the_watchdog_hears_of_threads_that_turn_and_of_nothing_else() -> None:
    """A plane that ticks and a journal that turns, or has nothing to write, prove life; one slow flush is no death."""
    stats = t.Stats(*(0 for _ in fields(t.Stats)))
    life = Life(stats, 0.0)
    assert not life.proven(stats, 1.0), "the plane has not ticked"
    assert life.proven(replace(stats, ticks=1), 2.0)
    stuck = replace(stats, ticks=2, journal_waiting=100, journal_rounds=7)
    assert life.proven(stuck, 3.0)
    assert life.proven(replace(stuck, ticks=3), 3.0 + DISK_S / 2)
    assert not life.proven(replace(stuck, ticks=4), 4.0 + DISK_S)
    assert life.proven(replace(stuck, ticks=5, journal_rounds=8), 5.0 + DISK_S), "a disk that refuses is tried again"


def test_connections_follow_from_the_descriptors() -> None:
    """What the rest of the process needs is set aside; the configuration's number counts where it is lower."""
    assert 1000 - RESERVED == connections_for(64 << 10, 1000)
    assert 100 == connections_for(100, 1000)
    assert 1000 - RESERVED == connections_for(0, 1000)
    assert LEAST == connections_for(64 << 10, RESERVED)


def test_the_bound_that_descriptors_do_not_suffice_for_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory_limit allows fewer connections than max_connections does, that is the number which counts."""
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (1000, 1000))
    server = load_text("memory_limit: 32MB").server
    at_most = allowed_by(server, 32 << 20)
    assert ("memory_limit", 4096) == at_most
    text = warning(at_most[1], at_most[0])
    assert "memory_limit allows 4096 connections, but 1000 file descriptors" in text
    assert f"enough for {1000 - RESERVED}" in text
    assert ("max_connections", 64 << 10) == allowed_by(server, 1 << 30)
    assert ("max_connections", 5000) == allowed_by(load_text("max_connections: 5000").server, 32 << 20)
    assert not warning(1000 - RESERVED, "memory_limit")


def test_expiring_certificates_are_named_once_a_day(tmp_path: Path) -> None:
    """One line at the start, one each day, and one at once when a reload brings another such certificate."""
    authority = Authority(tmp_path)
    lines: list[tuple[float, str]] = []

    class Lines(QuietLog):
        def warning(self, text: str, **about: str) -> None:
            lines.append((trio.current_time() - began, text))

    def config(name: str) -> ServerConfig:
        issued = authority.issue(name, times=("20200101000000Z", "20210101000000Z"))
        return ServerConfig(tls=Tls(cert_file=str(issued.certificate), key_file=str(issued.key)))

    configs = [config("one")]
    began = 0.0

    async def main() -> None:
        nonlocal began
        began = trio.current_time()
        expiry = Expiry(lambda: configs[-1], Lines(), Guard())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(expiry.run)
            await trio.sleep(1.5 * 86400)
            configs.append(config("two"))
            await expiry.look()
            await trio.sleep(86400 + 60)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    days = [(round(at / 86400, 2), re.sub(r".*/(\w+)\.pem .*", r"\1", text)) for at, text in lines]
    assert [(0, "one"), (1, "one"), (1.5, "two"), (2.5, "two")] == days
    assert "has expired on 2021-01-01 00:00:00 UTC: peers refuse it, replace it now" in lines[0][1]


def test_clients_and_leaves_are_sent_away_within_the_time_of_lame_duck_mode() -> None:
    """That before the first one included, and each at its moment, though each takes a while: so a supervisor that waits
    for that time does not kill a server that still has clients."""
    config = SimpleNamespace(lame_duck_grace_period=10 * SECOND, lame_duck_duration=30 * SECOND)
    closed: dict[int, float] = {}

    class Plane:
        def close_connection(self, connection: int, text: str, reason: int) -> None:
            closed[connection] = trio.current_time()
            clock.jump(0.015)

    some = [SimpleNamespace(connection=n) for n in range(1000)]
    clients = SimpleNamespace(announce=lambda ldm: None, all=lambda: some[:600])
    leafs = SimpleNamespace(links=lambda: some[600:], accepted=lambda connection: connection != 999)
    farewell = Farewell(
        cast("Any", Plane()),
        cast("Any", clients),
        cast("Any", leafs),
        cast("Any", SimpleNamespace(config=config)),
        lambda: None,
    )
    clock = trio.testing.MockClock(autojump_threshold=0)
    trio.run(farewell.lame_duck, clock=clock)
    assert list(closed) == list(range(999))  # and not a hub of this server's own
    assert 10.0 <= closed[0] < 10.1
    assert 29.0 < closed[998] <= 30.0
