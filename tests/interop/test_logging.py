"""Where the log goes, beside nats-server: a file that is rotated, one that is reopened, syslog on this machine's and on
other addresses."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
from pathlib import Path

import pytest

from tests import servers
from tests.rig.waiting import PATIENCE_S, eventually

FILE = """
listen: "127.0.0.1:{port}"
server_name: box
log_file: "{directory}/log.txt"
debug: true
"""
STAMP = re.compile(r"log\.txt\.\d{4}(\.\d\d){5}\.\d{9}")
PRIORITY = re.compile(rb"<(\d+)>")


def clients_come(server: servers.Server, count: int) -> bool:
    """Some that say nothing and leave: a few lines of the log each. True, for conditions."""
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", server.port), 10) as client:
            client.recv(16)
    return True


def aside(server: servers.Server) -> list[Path]:
    """The files that were set aside, the oldest first."""
    return sorted(one for one in server.directory.iterdir() if STAMP.fullmatch(one.name))


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_large_log_is_set_aside(kind: str) -> None:
    """logfile_size_limit, logfile_max_num: the new file says where the old one is, and the oldest are removed."""
    with servers.running(kind, FILE + "logfile_size_limit: 2000\nlogfile_max_num: 3\n") as server:
        eventually(lambda: clients_come(server, 20) and len(aside(server)) >= 2)
        first = aside(server)[0]
        eventually(lambda: clients_come(server, 20) and not first.exists())
        assert len(aside(server)) <= 3
        assert all(one.stat().st_size > 2000 for one in aside(server))
        text = "".join(one.read_text() for one in [*aside(server), server.directory / "log.txt"])
    assert f'[INF] Rotated log, backup saved as "{server.directory}/log.txt.' in text
    assert '[INF] Purged log file "log.txt.' in text


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_log_that_was_moved_away_is_opened_anew(kind: str) -> None:
    """SIGUSR1, after logrotate has renamed the file, has the log begin a new file."""
    with servers.running(kind, FILE) as server:
        file, moved = server.directory / "log.txt", server.directory / "moved"
        eventually(file.exists)
        file.rename(moved)
        assert server.process is not None
        server.process.send_signal(signal.SIGUSR1)
        eventually(lambda: file.exists() and "File log re-opened" in file.read_text())


@pytest.mark.parametrize("kind", servers.KINDS)
def test_the_log_goes_to_syslog_by_datagrams(kind: str) -> None:
    """remote_syslog: one entry a line, with its severity, the program's name and its process id."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as heard:
        heard.bind(("127.0.0.1", 0))
        heard.settimeout(PATIENCE_S)
        there = f'remote_syslog: "udp://127.0.0.1:{heard.getsockname()[1]}"\n'
        with servers.running(kind, 'listen: "127.0.0.1:{port}"\nserver_name: box\n' + there) as server:
            entry = heard.recv(65536)
            while b"Server is ready" not in entry:
                entry = heard.recv(65536)
            assert server.process is not None
            form = rb"<\d+>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d) \S+ \S+\[%d\]: Server is ready\n"
            assert re.fullmatch(form % server.process.pid, entry)
            assert severity(entry) == 5


def severity(entry: bytes) -> int:
    """That of an entry, without the facility."""
    found = PRIORITY.match(entry)
    assert found is not None
    return int(found[1]) & 7


@pytest.mark.parametrize("kind", servers.KINDS)
def test_the_log_goes_to_syslog_by_tcp(kind: str) -> None:
    """remote_syslog over TCP: each entry ends with a line feed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        there = f'remote_syslog: "tcp://127.0.0.1:{listener.getsockname()[1]}"\n'
        with servers.running(kind, 'listen: "127.0.0.1:{port}"\nserver_name: box\n' + there):
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as lines:
                connection.settimeout(PATIENCE_S)
                assert any(line.endswith(b": Server is ready\n") for line in lines)


def test_a_syslog_that_is_away_is_found_again_and_told_what_it_missed(tmp_path: Path) -> None:
    """Nobody waits for it meanwhile; its lines go to standard error."""
    place = tmp_path / "syslog"
    configuration = f'listen: "127.0.0.1:{{port}}"\nserver_name: box\nremote_syslog: "unix://{place}"\ndebug: true\n'
    with servers.running(servers.LEAFD, configuration) as server:
        eventually(lambda: "Server is ready" in server.log)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
            heard.bind(str(place))
            heard.settimeout(0.1)
            entries = list[bytes]()

            def missed() -> bool:
                clients_come(server, 1)
                with contextlib.suppress(TimeoutError):
                    entries.append(heard.recv(65536))
                return any(b"lines were lost: syslog did not take them in time" in one for one in entries)

            eventually(missed)
            assert severity(entries[0]) == 4


def test_a_reload_changes_where_the_log_goes(tmp_path: Path) -> None:
    """From standard error to a file of limited size, and back."""
    with servers.running(servers.LEAFD, 'listen: "127.0.0.1:{port}"\nserver_name: box\ndebug: true\n') as server:
        assert server.process is not None
        plain, file = server.configuration, server.directory / "log.txt"
        filed = plain + f'log_file: "{file}"\nlog_size_limit: 1500\nlog_max_num: 2\n'
        (server.directory / "server.conf").write_text(filed)
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: file.exists() and clients_come(server, 10) and len(aside(server)) == 1)
        (server.directory / "server.conf").write_text(plain)
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: "Reloaded server configuration" in server.log)
