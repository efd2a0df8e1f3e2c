"""What leafd reads of its environment and says to systemd, beside systemd's own library (libsystemd, which
systemd-python is a wrapper of). It is the oracle here and no dependency: its notify blocks while systemd's queue is
full, and leafd's control thread may not.

Not here: a real systemd (tests/packaging), socket activation (test_socket_activation.py).
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from leafd.host.systemd import Notifier

NAME = ctypes.util.find_library("systemd")

pytestmark = pytest.mark.skipif(NAME is None, reason="libsystemd is not installed")


@pytest.fixture
def library() -> ctypes.CDLL:
    return ctypes.CDLL(NAME)


@pytest.fixture
def opened() -> Iterator[Callable[[dict[str, str]], Notifier]]:
    """Makes one of an environment; the daemon's own lives as long as the process."""
    made: list[Notifier] = []

    def make(environment: dict[str, str]) -> Notifier:
        made.append(Notifier(environment))
        return made[-1]

    yield make
    for one in made:
        if one._socket is not None:
            one._socket.close()


@pytest.mark.parametrize("usec", ["", "1", "30000000", "18446744073709551615", "0", "x", "-1"])
@pytest.mark.parametrize("pid", ["", "own", "1", "x"])
def test_the_watchdog_s_rhythm_is_half_of_what_libsystemd_reads(
    library: ctypes.CDLL,
    monkeypatch: pytest.MonkeyPatch,
    opened: Callable[[dict[str, str]], Notifier],
    usec: str,
    pid: str,
) -> None:
    """For this process or for another, with numbers and with none."""
    given = {"WATCHDOG_USEC": usec, "WATCHDOG_PID": str(os.getpid()) if pid == "own" else pid}
    for name, value in given.items():
        monkeypatch.delenv(name, raising=False)
        if value:
            monkeypatch.setenv(name, value)
    found = ctypes.c_uint64(0)
    enabled = library.sd_watchdog_enabled(0, ctypes.byref(found)) > 0
    notifier = opened({"NOTIFY_SOCKET": "@nobody", **{name: value for name, value in given.items() if value}})
    assert (found.value / 2_000_000 if enabled else 0.0) == notifier.watchdog_s


@pytest.mark.parametrize("abstract", [False, True], ids=["path", "abstract"])
def test_what_is_said_is_what_libsystemd_says(
    library: ctypes.CDLL,
    monkeypatch: pytest.MonkeyPatch,
    opened: Callable[[dict[str, str]], Notifier],
    tmp_path: Path,
    abstract: bool,
) -> None:
    """The same bytes, to the same address."""
    address = f"@leafd-{os.getpid()}-{tmp_path.name}" if abstract else str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + address[1:] if abstract else address)
        listener.settimeout(60)
        notifier = opened({"NOTIFY_SOCKET": address})
        for said in ("READY=1\nSTATUS=12 clients", "STATUS=\u00fcber", "STOPPING=1", "WATCHDOG=1"):
            assert library.sd_notify(0, said.encode()) > 0
            match said.partition("="):
                case ("READY", _, rest):
                    notifier.ready(rest.partition("STATUS=")[2])
                case ("STATUS", _, text):
                    assert notifier.status(text)
                case ("STOPPING", _, _):
                    notifier.stopping()
                case _:
                    notifier.watchdog()
            assert listener.recv(4096) == listener.recv(4096) == said.encode()
