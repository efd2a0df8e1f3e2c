"""Ports that systemd has opened: leafd takes the sockets that it is handed, and says which it has no use for."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from leafd.errors import ConfigError
from leafd.host.socket_activation import FIRST, Handed, assign, take

from tests.rig.waiting import PATIENCE_S
from tests.servers import free_port

# What systemd does: the descriptors begin at 3, and the variables name the process that they are meant for.
HAND_OVER = """
import os, sys
count = int(sys.argv[1])
for number, descriptor in enumerate(map(int, sys.argv[3 : 3 + count])):
    os.dup2(descriptor, 3 + number)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(count), LISTEN_FDNAMES=sys.argv[2])
os.execv(sys.executable, [sys.executable, "-m", "leafd", *sys.argv[3 + count :]])
"""


@contextlib.contextmanager
def listening(*hosts: str) -> Iterator[list[socket.socket]]:
    """A listening socket on a free port for each of the addresses, with high descriptors."""
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(socket.create_server((host, 0))) for host in hosts]
        yield made


def handed_over(sockets: list[socket.socket], names: str, *words: str) -> subprocess.Popen[str]:
    """A daemon that has them."""
    # (Not below 3 + their number: a descriptor must not be overwritten before it is put in its place.)
    with contextlib.ExitStack() as stack:
        high = []
        for one in sockets:
            descriptor = fcntl.fcntl(one.fileno(), fcntl.F_DUPFD_CLOEXEC, 50)
            stack.callback(os.close, descriptor)
            high.append(descriptor)
        return subprocess.Popen(
            [sys.executable, "-c", HAND_OVER, str(len(high)), names, *map(str, high), *words],
            pass_fds=high,
            stderr=subprocess.PIPE,
            text=True,
        )


def greeting(port: int) -> bytes:
    """What whoever connects hears first."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
        return connection.recv(4)


def port_of(sock: socket.socket) -> int:
    return int(sock.getsockname()[1])


def test_the_first_client_is_served_that_came_before_the_daemon(tmp_path: Path) -> None:
    """Each kind of listener is taken over, by its address or by its name; who waited in it is served."""
    with listening("127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1") as sockets:
        client, leaf, web, monitor = map(port_of, sockets)
        file = tmp_path / "box.conf"
        file.write_text(  # the client's port is found by its address, the others by their names
            f"listen: 127.0.0.1:{client}\nleafnodes {{ port: -1 }}\nhttp_port: -1\n"
            "websocket { port: -1, no_tls: true }\n"
        )
        with contextlib.ExitStack() as early:
            waiting = [
                early.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_S))
                for port in (client, leaf)
            ]
            page = early.enter_context(socket.create_connection(("127.0.0.1", monitor), PATIENCE_S))
            page.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            browser = early.enter_context(socket.create_connection(("127.0.0.1", web), PATIENCE_S))
            browser.sendall(b"nonsense\r\n\r\n")
            with handed_over(sockets, "leafd.socket:leaf:websocket:monitor", "-c", str(file)) as daemon:
                try:
                    assert [b"INFO", b"INFO"] == [one.recv(4) for one in waiting]
                    assert page.recv(4096).startswith(b"HTTP/1.")
                    assert browser.recv(4096).startswith(b"HTTP/1.1 400")
                finally:
                    daemon.send_signal(signal.SIGTERM)
                assert 0 == daemon.wait(PATIENCE_S)
        # They are still open here, as in systemd: who comes between two daemons waits for the next.
        with (
            socket.create_connection(("127.0.0.1", client), PATIENCE_S) as connection,
            handed_over(sockets[:1], "client", "-p", "-1") as daemon,
        ):
            try:
                assert b"INFO" == connection.recv(4)
            finally:
                daemon.send_signal(signal.SIGTERM)


@pytest.mark.skipif(shutil.which("systemd-socket-activate") is None, reason="systemd-socket-activate is not installed")
def test_a_first_client_starts_the_daemon() -> None:
    """systemd's own tool opens the port, and leafd is started by the first connection and answers it."""
    port = free_port()
    kept = [f"-E{name}" for name in ("PATH", "HOME") if name in os.environ]
    daemon = subprocess.Popen(
        [
            "systemd-socket-activate",
            "-l",
            f"127.0.0.1:{port}",
            "--fdname=client",
            *kept,
            sys.executable,
            "-m",
            "leafd",
            "-a",
            "127.0.0.1",
            "-p",
            str(port),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert daemon.stderr is not None
    try:
        for line in daemon.stderr:
            if "Listening on" in line:
                break
        try:
            heard = greeting(port)
        except OSError as error:
            heard = repr(error).encode()
    finally:
        daemon.send_signal(signal.SIGTERM)
        _, said = daemon.communicate(timeout=PATIENCE_S)
    assert b"INFO" == heard, said


def test_a_socket_that_fits_nothing_is_named() -> None:
    """It ends the start with one line that says which socket, what the configuration has, and what to correct."""
    with listening("127.0.0.1", "127.0.0.1") as sockets:
        with handed_over(sockets, "client:mqtt", "-p", "-1", "-T=false") as daemon:
            _, said = daemon.communicate(timeout=PATIENCE_S)
        assert 1 == daemon.returncode
        line = next(one for one in said.splitlines() if "[FTL]" in one).partition("[FTL] ")[2]
        assert (
            f"descriptor 4 (mqtt, 127.0.0.1:{port_of(sockets[1])}) of systemd is none of the configuration's "
            "listeners: client (0.0.0.0:-1); correct ListenStream= or FileDescriptorName= in the .socket unit, or the "
            "configuration"
        ) == line


def test_two_sockets_for_one_listener_are_refused() -> None:
    """Nobody's connections wait for ever in a socket that is not served."""
    with listening("127.0.0.1", "127.0.0.1") as (one, other):
        handed = [Handed(3, "client", one), Handed(4, "client", other)]
        with pytest.raises(ConfigError, match=r"descriptor 3 .* and descriptor 4 .* are both for client"):
            assign(handed, {"client": ("127.0.0.1", 4222)})


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "localhost", "127.0.0.1"])
def test_addresses_are_compared_by_what_they_mean(host: str) -> None:
    """All addresses of either kind are the same place, and a name is the addresses that it stands for."""
    with listening("127.0.0.1" if host in ("localhost", "127.0.0.1") else "0.0.0.0") as (one,):
        for name in ("leafd.socket", "client"):  # the address goes before the name
            assert {"leaf": one} == assign(
                [Handed(3, name, one)], {"client": ("127.0.0.1", 1), "leaf": (host, port_of(one))}
            )


def test_only_listening_sockets_are_taken(tmp_path: Path) -> None:
    """A file, a connection and a socket of another family are refused by number; another process's are left alone."""
    assert [] == take({"LISTEN_PID": "1", "LISTEN_FDS": "1"})
    program = (
        "import os, sys, socket\n"
        "made = {'file': lambda: open('/dev/null'), 'idle': socket.socket, 'none': lambda: None,\n"
        "        'unix': lambda: socket.socket(socket.AF_UNIX)}[sys.argv[1]]()\n"
        "os.dup2(made.fileno(), 3) if made else os.closerange(3, 9)\n"
        "from leafd.host.socket_activation import take\n"
        "from leafd.errors import ConfigError\n"
        "env = {'LISTEN_PID': str(os.getpid()), 'LISTEN_FDS': '1'}\n"
        "try: take(env)\n"
        "except ConfigError as error: print(error, env)\n"
    )
    for kind, complaint in (
        ("file", "is no socket"),
        ("idle", "is no listening TCP socket"),
        ("unix", "is no listening TCP socket"),
        ("none", "Bad file descriptor"),
    ):
        done = subprocess.run([sys.executable, "-c", program, kind], capture_output=True, text=True, timeout=PATIENCE_S)
        assert (f"descriptor {FIRST} of systemd " in done.stdout, complaint in done.stdout) == (True, True), done
        assert done.stdout.endswith("{}\n"), "the variables are used up"
