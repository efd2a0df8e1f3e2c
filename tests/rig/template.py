"""A leafd starts from a process that has loaded its modules already: a fork, in place of the quarter of a second of the
processor that loading them takes. Of a run's thousands of servers few are started for the sake of their start.

    python tests/rig/template.py FD     the process to fork from; the descriptor is that of a Template

From the fork on it goes its usual way, through main(), with its own arguments, directory and streams. A process is
started so only where it finds what the template found: the same environment, limits and network. Others are programs of
their own, as on a box, and so are those of tests that look at memory or at the start itself (marked "anew"). All are in
a nightly run, or with LEAFD_TEST_ANEW=1.

Not here: servers (tests/servers.py).
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import pkgutil
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, ClassVar, Final, NoReturn

ORDER_BYTES_MAX: Final = 65536
PID: Final = struct.Struct("=i")
ENDED: Final = struct.Struct("=id")
"""The status as Python has it, and the seconds that it took of the processor."""
LIMITS: Final = tuple(sorted(value for name, value in vars(resource).items() if name.startswith("RLIMIT_")))


class Forked:
    """A process of the template's, with what tests use of a Popen. The template tells by a pipe how it ended."""

    def __init__(self, owner: Template, pid: int, told: int, words: Sequence[str]) -> None:
        self.pid = pid
        self._owner = owner
        self.returncode: int | None = None
        self._words = list(words)
        self._told = told
        self._asking = threading.Lock()

    def __del__(self) -> None:
        if self.returncode is None:
            os.close(self._told)

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._look(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(self._words, timeout or 0)
        return status

    def _look(self, seconds: float | None) -> int | None:
        with self._asking:
            if self.returncode is None and select.select([self._told], [], [], seconds)[0]:
                said = os.read(self._told, ENDED.size)
                os.close(self._told)
                # (Without the template nobody knows how its processes end.)
                self.returncode, seconds = ENDED.unpack(said) if said else (-signal.SIGKILL, 0.0)
                self._owner.count(seconds)
            return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


Process = subprocess.Popen[bytes] | Forked


class Template:
    """The process that others are forked from. It starts when the first is wanted."""

    seconds: ClassVar[float] = 0.0
    """Processor seconds of all that have ended whose template is still there: no usage of children has them yet."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._orders: socket.socket | None = None
        self._around = _around()
        self._ordering = threading.Lock()

    def start(self, words: Sequence[str], directory: Path, streams: Sequence[IO[bytes]]) -> Forked | None:
        """`python -m leafd` with these words and standard streams (input, output, errors), or None where the process
        would not find what the template found, or the template is gone."""
        with self._ordering:
            if self._around != _around():
                return None
            if self._orders is None:
                self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    line = [sys.executable, __file__, str(theirs.fileno())]
                    self._process = subprocess.Popen(line, pass_fds=[theirs.fileno()])
            told, tells = os.pipe()
            order = json.dumps({"words": list(words), "directory": str(directory)}).encode()
            said = b""
            with contextlib.suppress(ConnectionError):
                socket.send_fds(self._orders, [order], [*(stream.fileno() for stream in streams), tells])
                said = self._orders.recv(PID.size)
            os.close(tells)
            if said:
                return Forked(self, PID.unpack(said)[0], told, words)
            os.close(told)
            self.close()  # It ended, as where the machine had no memory left. The next has another.
            return None

    def count(self, seconds: float) -> None:
        self._seconds += seconds
        Template.seconds += seconds

    def close(self) -> None:
        if self._orders is not None and self._process is not None:
            self._orders.close()
            self._orders = None
            self._process.wait()
            self.count(-self._seconds)


def _around() -> object:
    """The state that a process inherits and a test may have changed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    network = os.stat("/proc/thread-self/ns/net").st_ino
    return environment, [resource.getrlimit(limit) for limit in LIMITS], network, os.sched_getaffinity(0)


# ---- the template's process


def load() -> None:
    """All modules of the daemon's. What is garbage then is given back, so that no process begins with room to spare."""
    import leafd

    for module in pkgutil.walk_packages(leafd.__path__, "leafd."):
        importlib.import_module(module.name)
    make_ready()
    end_start = importlib.import_module("leafd.host.garbage").end_start
    end_start(importlib.import_module("leafd.native_functions").give_back)


def make_ready() -> None:
    """Objects that the daemon makes when it first needs them, and keeps, the same in each process: the types of each
    block's keys, the constructors of records, the table of commands. That is a quarter of what is left of a start."""
    from leafd import records
    from leafd.config.schema import section
    from leafd.native import command_rows

    blocks = [section.Section]
    for block in blocks:
        blocks += block.__subclasses__()
    for block in blocks[1:]:
        section.hints(block)
    lazy = records._init_when_needed(object).__qualname__
    for module in [one for name, one in sys.modules.items() if name.startswith("leafd.")]:
        every: list[Any] = [one for one in vars(module).values() if isinstance(one, type)]
        for record in every:
            if getattr(vars(record).get("__init__"), "__qualname__", "") == lazy:
                record.__init__ = records._init_of(record)
    command_rows()


def serve(orders: socket.socket) -> None:
    """Forks a process for each order until nobody is there to give one; returns in the forked process, ready for
    main()."""
    waiting = select.poll()
    waiting.register(orders, select.POLLIN)
    children: dict[int, tuple[int, int]] = {}  # by descriptor: the process, and the pipe that hears how it ended
    while True:
        for handle, _ in waiting.poll():
            if handle in children:
                pid, tells = children.pop(handle)
                waiting.unregister(handle)
                _, status, usage = os.wait4(pid, 0)
                ended = ENDED.pack(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime)
                with contextlib.suppress(BrokenPipeError):
                    os.write(tells, ended)
                os.close(tells)
                os.close(handle)
                continue
            order, handles, _, _ = socket.recv_fds(orders, ORDER_BYTES_MAX, 4)
            if not order:
                sys.exit(0)
            pid = os.fork()
            if pid == 0:
                orders.detach()
                become(json.loads(order), handles[:3])
                return
            for stream in handles[:3]:
                os.close(stream)
            child = os.pidfd_open(pid)
            children[child] = pid, handles[3]
            waiting.register(child, select.POLLIN)
            orders.send(PID.pack(pid))


def become(order: dict[str, str | list[str]], streams: list[int]) -> None:
    """The steps of the kernel and of Python for a program that is started."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 65536)
    os.chdir(str(order["directory"]))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    module = sys.modules["leafd.__main__"].__file__
    sys.argv = [str(module), *order["words"]]
    sys.orig_argv = [sys.executable, "-m", "leafd", *order["words"]]
    sys.path[0] = os.getcwd()


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who gives orders ends this process
    load()
    serve(socket.socket(fileno=int(sys.argv[1])))
    from leafd.__main__ import main as leafd

    return leafd()


def end(status: int) -> NoReturn:
    """Ends the process without taking down what it has loaded. To free every object would first copy every page of
    the template's, which takes a third of a server's processor time. A program of its own, as a nightly run starts
    them, is taken down as on a box."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    end(main())
