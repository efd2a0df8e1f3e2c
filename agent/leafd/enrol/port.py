"""The socket that `leafd enrol` speaks to: a file in the daemon's directory, for users that may use that directory.

    {"do":"token","pattern":"box-0001","uses":1,"lasts_s":86400}\n    -->    {"token":"lfd1-...","id":...}\n
                                                                      or    {"error":"..."}\n

One line each way, then the end. A user that may open the file may enrol and retire: root, and the daemon's own user.
The monitoring port would not do, since everybody on the machine reaches that. Not here: what a command does
(daemon/boxes.py), its words (cli/enrol.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import trio

from leafd.errors import LeafdError, StartError
from leafd.guard import Guard

SOCKET: Final = "socket"
LINE_MAX: Final = 64 << 10
ANSWER_MAX: Final = 16 << 20
WAIT_S: Final = 10.0
CONNECTIONS_MAX: Final = 8
PATH_MAX: Final = 107
"""Bytes of a socket's path, as the kernel takes it."""


class Wrong(LeafdError):
    """The command is refused; the text says why."""


Do = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]


async def serve(
    directory: Path, do: Do, guard: Guard, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Answers until cancelled. Raises StartError."""
    path = directory / SOCKET
    listener = _listening(path)
    seats = trio.Semaphore(CONNECTIONS_MAX)
    try:
        async with trio.open_nursery() as nursery:
            task_status.started()
            while True:
                await seats.acquire()
                try:
                    connection, _ = await listener.accept()
                except OSError:  # no descriptor at the moment
                    seats.release()
                    await trio.sleep(0.1)
                    continue
                nursery.start_soon(_one, trio.SocketStream(connection), do, guard, seats)
    finally:
        listener.close()
        with contextlib.suppress(OSError):
            path.unlink()


def _listening(path: Path) -> trio.socket.SocketType:
    if len(os.fsencode(path)) > PATH_MAX:
        raise StartError(f"{path} is too long for a socket: give the enrol block a directory with a shorter name")
    try:
        path.unlink(missing_ok=True)  # of a daemon that was killed: nobody else is here, the directory is locked
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            made.bind(str(path))
        finally:
            os.umask(before)
        made.listen(CONNECTIONS_MAX)
    except OSError as error:
        raise StartError(f"{path}: no socket can be made there: {error.strerror}") from error
    return trio.socket.from_stdlib_socket(made)


async def _one(stream: trio.SocketStream, do: Do, guard: Guard, seats: trio.Semaphore) -> None:
    try:
        async with stream:
            with trio.move_on_after(WAIT_S):
                answer = await _answered(await _line(stream), do, guard)
                await stream.send_all(json.dumps(answer).encode() + b"\n")
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass  # the asker has gone
    finally:
        seats.release()


async def _line(stream: trio.SocketStream) -> bytes:
    found = bytearray()
    while not found.endswith(b"\n") and len(found) <= LINE_MAX:
        more = await stream.receive_some(LINE_MAX)
        if not more:
            break
        found += more
    return bytes(found)


async def _answered(line: bytes, do: Do, guard: Guard) -> dict[str, Any]:
    try:
        asked = json.loads(line)
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        return {"error": "that is no command"}
    try:
        return await do(asked)
    except Wrong as error:
        return {"error": str(error)}
    except Exception as error:
        guard.caught("a command about boxes", error)
        return {"error": "unexpected error: the daemon's log has it"}


def ask(directory: Path, what: Mapping[str, Any]) -> dict[str, Any]:
    """For a command: blocks until it is answered. Raises LeafdError."""
    path = directory / SOCKET
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(WAIT_S)
            connection.connect(str(path))
            connection.sendall(json.dumps(what).encode() + b"\n")
            with connection.makefile("rb") as file:
                line = file.readline(ANSWER_MAX)
    except OSError as error:
        why = error.strerror or f"no answer within {WAIT_S:.0f} s"
        raise LeafdError(
            f"{path}: {why}: does leafd run here with an enrol block? Root may use it, and the daemon's user"
        ) from error
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise LeafdError(f"{path}: the answer is not understood: is this leafd of the same version?")
    if "error" in found:
        raise LeafdError(str(found["error"]))
    return found
