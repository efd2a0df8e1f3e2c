"""A daemon that is asked to end while it starts, at moments that are counted and not timed: each run has the same."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from leafd.host.start_signals import ENDING

from tests.servers import LEAFD, free_port, make

MOMENTS = 20
# Interpreter events (an import, a file that is opened, a socket) are the clock of a start. MOMENT 0: how many there are
# until the daemon is ready, which is when run.py enables collections; it ends then.
HARNESS = """
import gc, os, signal, sys
import leafd  # in a checkout, what builds the extension is loaded by now
from leafd.__main__ import main
moment, number = int(os.environ["MOMENT"]), int(os.environ["SIGNAL"])
events, enable = 0, gc.enable

def count(event, _):
    global events
    events += 1
    if events == moment:
        os.kill(os.getpid(), number)

def at_ready():
    enable()
    if events < moment or not moment:  # (a start may have a few events less than the one they were counted in)
        print(events)
        os.kill(os.getpid(), number)

gc.enable = at_ready
sys.addaudithook(count)
sys.exit(main())
"""
CONFIG = 'port: {port}\njetstream { store_dir: "{store}" }\n'


def started(file: Path, moment: int, number: int) -> subprocess.CompletedProcess[str]:
    """A daemon that sends itself the signal at that moment."""
    return subprocess.run(
        [sys.executable, "-c", HARNESS, "-c", str(file)],
        env=os.environ | {"MOMENT": str(moment), "SIGNAL": str(int(number))},
        capture_output=True,
        text=True,
        timeout=120,
    )


def stored(directory: Path, *, publish: bool) -> int:
    """How many messages the stream holds, after one more where that is wanted."""
    server = make(LEAFD, CONFIG, directory)
    server.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port), 20) as connection, connection.makefile("rb") as file:
            body = b'{"name":"S","subjects":["s"]}'
            connection.sendall(b'CONNECT {"verbose":false}\r\nSUB in 1\r\n')
            requests = [(b"$JS.API.STREAM.CREATE.S", body), (b"s", b"x")] if publish else []
            for subject, payload in [*requests, (b"$JS.API.STREAM.INFO.S", b"")]:
                connection.sendall(b"PUB %s in %d\r\n%s\r\n" % (subject, len(payload), payload))
                while not (line := file.readline()).startswith(b"MSG in"):
                    assert line
                answer = file.read(int(line.split()[-1]) + 2)
            return int(answer.partition(b'"messages":')[2].partition(b",")[0])
    finally:
        server.stop()


# A store that takes for ever to open: a lock that its own thread waits for is nothing that a signal interrupts.
STUCK = """
import ctypes, sys
from leafd.__main__ import main
from leafd.native_plane import Plane
libc, lock = ctypes.CDLL(None), ctypes.create_string_buffer(128)

def opened(*_):
    print("opening", flush=True)
    libc.pthread_mutex_lock(lock)
    libc.pthread_mutex_lock(lock)

Plane.open = opened
sys.exit(main())
"""


def test_a_store_that_takes_long_to_open_does_not_keep_the_process(tmp_path: Path) -> None:
    """Whoever asks it to end waits seconds and not minutes, although C code hears no signal."""
    file = tmp_path / "box.conf"
    file.write_text(f"port: {free_port()}\njetstream {{ store_dir: '{tmp_path}' }}\n")
    with subprocess.Popen([sys.executable, "-c", STUCK, "-c", str(file)], stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        assert b"opening\n" == daemon.stdout.readline()
        daemon.send_signal(signal.SIGTERM)
        assert 0 == daemon.wait(120)


def test_a_start_can_be_broken_off_at_any_moment(tmp_path: Path) -> None:
    """TERM and ^C end a start with status 0 and no traceback, whenever they come, and the store is as it was."""
    assert 1 == stored(tmp_path, publish=True)
    files = []
    for name in ("store", "new"):  # one that is there already, and one that the start makes
        files.append(tmp_path / f"{name}.conf")
        files[-1].write_text(f'port: {free_port()}\njetstream {{ store_dir: "{tmp_path / name}" }}\n')
    last = int(started(files[0], 0, signal.SIGTERM).stdout)

    def lane(number: int) -> list[tuple[int, int, str]]:
        found = []
        for step in range(MOMENTS // 2):
            moment = last * (2 * step + number + 1) // (MOMENTS + 1)
            done = started(files[number], moment, ENDING[step % 2])
            found.append((moment, done.returncode, done.stderr))
        return found

    with ThreadPoolExecutor(2) as pool:
        ended = [one for found in pool.map(lane, range(2)) for one in found]

    for at, status, said in ended:
        assert (0, True) == (status, said.endswith("Server Exiting..\n")), f"event {at} of {last}: {said}"
        assert "Traceback" not in said, f"event {at} of {last}: {said}"
        assert "Exception" not in said, f"event {at} of {last}: {said}"
    assert 1 == stored(tmp_path, publish=False)


AGAIN = """
import os, signal, sys
from leafd.host import start_signals
start_signals.hold()
if len(sys.argv) > 1:
    try:
        start_signals.judge()
    except start_signals.Unwanted:
        sys.exit(7)
    sys.exit(8)
if "before" in os.environ["MOMENT"]:
    os.kill(os.getpid(), signal.SIGTERM)
if not start_signals.kept():
    sys.exit(9)
os.kill(os.getpid(), signal.SIGTERM)
os.execv(sys.executable, [sys.executable, "-c", os.environ["PROGRAM"], "again"])
"""


def test_a_daemon_that_is_asked_to_end_while_it_begins_again_ends() -> None:
    """Before the process begins again it does not; after that the one that begins hears of it."""
    for moment, status in (("before", 9), ("after", 7)):
        environment = os.environ | {"MOMENT": moment, "PROGRAM": AGAIN}
        assert status == subprocess.run([sys.executable, "-c", AGAIN], env=environment, timeout=60).returncode
