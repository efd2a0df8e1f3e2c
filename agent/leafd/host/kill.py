"""`leafd --signal`: finds a running daemon and sends it the signal that the command stands for."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

from leafd.errors import LeafdError, UsageError
from leafd.files import read_file

_PID_MAX: Final = 64
_SIGNALS: Final = {
    "stop": signal.SIGKILL,
    "quit": signal.SIGINT,
    "term": signal.SIGTERM,
    "reload": signal.SIGHUP,
    "reopen": signal.SIGUSR1,
    "ldm": signal.SIGUSR2,
}


def send(request: str, processes: Path = Path("/proc")) -> None:
    """request is `command` or `command=pid-or-pid-file`."""
    command, _, target = request.partition("=")
    number = _SIGNALS.get(command)
    if number is None:
        raise UsageError(f"unknown signal {command!r}: one of {', '.join(_SIGNALS)}")
    pid = _pid(target) if target else _only_running(processes)
    try:
        os.kill(pid, number)
    except ProcessLookupError as error:
        raise LeafdError(f"no process {pid} is running: is the pid file stale?") from error
    except PermissionError as error:
        raise LeafdError(f"process {pid} belongs to another user: use sudo") from error


def _pid(target: str) -> int:
    if target.isdigit():
        return int(target)
    try:
        text = read_file(target, _PID_MAX).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise LeafdError(f"{target} is neither a process id nor a readable pid file: {error}") from error
    if not text.isdigit():
        raise LeafdError(f"{target} holds no process id")
    return int(text)


def _only_running(processes: Path) -> int:
    """The one daemon of this machine; several or none are an error, as in the reference."""
    found = []
    for entry in processes.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        names = [os.path.basename(word) for word in words[:2]]
        if b"leafd" in names or (b"-m" in words[:4] and b"leafd" in words[:5]):
            found.append(int(entry.name))
    if not found:
        raise LeafdError("no leafd server running")
    if len(found) > 1:
        listed = ", ".join(str(pid) for pid in sorted(found))
        raise LeafdError(f"several leafd servers are running ({listed}): name one, --signal <command>=<pid>")
    return found[0]
