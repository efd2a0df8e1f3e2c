"""How long others wait while something large ends: python -m tests.bench.ends [case ...]

Each case makes something large on a new server, ends it, and meanwhile logs in again and again: the longest login is
the figure, of leafd and of nats-server in turn, the median of some rounds, beside the longest one while nothing ends.
Not here: that no step is long (tests/native/test_plane_steps.c), which no clock decides.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.hostile.wires import Asker, Wire
from tests.servers import KINDS, Server, running

CONFIGURATION: Final = """
listen: 127.0.0.1:{port}
max_pending: 256MB
jetstream { store_dir: "{store}", max_file: 4GB, max_mem: 1GB }
no_auth_user: a
accounts {
  A {
    jetstream: enabled
    users: [ { user: a, password: a } ]
    imports: [ { service: { account: B, subject: slow } } ]
  }
  B { users: [ { user: b, password: b } ], exports: [ { service: slow } ] }
}
"""
ROUNDS: Final = 3
QUIET_S: Final = 1.0
CHUNK: Final = 5_000
End = Callable[[], None]


def plain(server: Server, user: str = "a") -> Wire:
    """A client that has logged in."""
    wire = Wire(server.port, 60.0)
    options = json.dumps({"verbose": False, "headers": True, "user": user, "pass": user})
    wire.send(f"CONNECT {options}\r\n".encode())
    settled(wire)
    return wire


def settled(wire: Wire) -> None:
    """Everything sent before was acted on."""
    wire.send(b"PING\r\n")
    while (line := wire.heard()) and not line.startswith(b"PONG"):
        if line.startswith(b"-ERR"):
            raise RuntimeError(line.decode())
    if not line:
        raise RuntimeError("no PONG")


def many(wire: Wire, count: int, line: Callable[[int], bytes]) -> None:
    """So many lines, in parts that the server acts on one after the other."""
    for first in range(0, count, CHUNK):
        wire.send(b"".join(line(number) for number in range(first, min(first + CHUNK, count))))
        settled(wire)


def asked(server: Server, subject: str, body: str | dict[str, Any] = "") -> None:
    """A request of JetStream that must succeed."""
    with Asker(server.port) as asker:
        answer = asker.asked(subject, body)
    if "error" in answer:
        raise RuntimeError(f"{subject}: {answer}")


def stream(server: Server, messages: int, header: bytes = b"", **more: object) -> None:
    """S with so many messages, each on a subject of its own. The last one of each part is acknowledged before the next
    part is sent: nats-server drops what a stream cannot take at once."""
    asked(server, "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]} | more)
    verb, sizes = (b"HPUB", b"%d %d" % (len(header), len(header) + 1)) if header else (b"PUB", b"1")
    with plain(server) as wire:
        wire.send(b"SUB in 1\r\n")
        for first in range(0, messages, CHUNK):
            end = min(first + CHUNK, messages)
            wire.send(b"".join(b"%s s.%d %s\r\n%sx\r\n" % (verb, n, sizes, header) for n in range(first, end - 1)))
            wire.send(b"%s s.%d in %s\r\n%sx\r\n" % (verb, end - 1, sizes, header))
            message(wire)
    with Asker(server.port) as asker:
        held = asker.asked("$JS.API.STREAM.INFO.S")["state"]["messages"]
    if held != messages:
        raise RuntimeError(f"{held} of {messages} messages are stored")


def message(wire: Wire) -> bytes:
    """The reply subject of the next message, which has to be one without headers."""
    while (line := wire.heard()) and (words := line.split())[:1] != [b"MSG"]:
        if words[:1] == [b"PING"]:
            wire.send(b"PONG\r\n")
        else:
            raise RuntimeError(f"{line.decode()!r} {wire.heard().decode()!r}")
    if not line:
        raise RuntimeError("no message came")
    wire.payload(int(words[-1]))
    return words[3]


def consumer(server: Server, **config: object) -> None:
    """C of S."""
    whole = {"name": "C", "durable_name": "C", "ack_policy": "explicit", "max_ack_pending": -1} | config
    asked(server, "$JS.API.CONSUMER.CREATE.S.C", {"stream_name": "S", "config": whole})


def waiting_pulls(server: Server) -> End:
    """A consumer with 300,000 waiting requests is deleted."""
    asked(server, "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
    consumer(server, max_waiting=300_000)
    wire = plain(server)
    wire.send(b"SUB in 1\r\n")
    body = b'{"batch":1,"expires":90000000000}'
    many(wire, 300_000, lambda _n: b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C in %d\r\n%s\r\n" % (len(body), body))
    return lambda: asked(server, "$JS.API.CONSUMER.DELETE.S.C")


def _delivered(server: Server, count: int, **config: object) -> bytes:
    """So many are delivered and not acknowledged; the last one's reply subject."""
    stream(server, count)
    consumer(server, **config)
    wire = plain(server)
    body = json.dumps({"batch": count, "expires": 60_000_000_000}).encode()
    wire.send(b"SUB in 1\r\nPUB $JS.API.CONSUMER.MSG.NEXT.S.C in %d\r\n%s\r\n" % (len(body), body))
    for _ in range(count):
        last = message(wire)
    wire.close()
    return last


def reset(server: Server) -> End:
    """A consumer with 200,000 unacknowledged messages is set back."""
    _delivered(server, 200_000)
    return lambda: asked(server, "$JS.API.CONSUMER.RESET.S.C")


def acknowledged(server: Server) -> End:
    """200,000 messages are acknowledged together."""
    last = _delivered(server, 200_000, ack_policy="all")
    return lambda: plain(server).send(b"PUB %s 0\r\n\r\n" % last)


def _pushed(server: Server) -> Wire:
    """200,000 messages are pushed and not acknowledged: who received them, and goes on reading."""
    wire = plain(server)
    wire.send(b"SUB d 1\r\n")
    settled(wire)
    stream(server, 200_000)
    consumer(server, deliver_subject="d")
    for _ in range(200_000):
        message(wire)
    return wire


def _read_on(wire: Wire) -> None:
    """Another process takes what comes again: the server has nobody slow, and the logins here their own time."""
    wire.socket.settimeout(None)
    subprocess.Popen(["cat"], stdin=wire.socket.fileno(), stdout=subprocess.DEVNULL)


def pushed_reset(server: Server) -> End:
    """A push consumer with 200,000 unacknowledged messages is set back."""
    _read_on(_pushed(server))
    return lambda: asked(server, "$JS.API.CONSUMER.RESET.S.C")


def pushed_deleted(server: Server) -> End:
    """A push consumer with 200,000 unacknowledged messages is deleted."""
    _read_on(_pushed(server))
    return lambda: asked(server, "$JS.API.CONSUMER.DELETE.S.C")


def pushed_left(server: Server) -> End:
    """The receiver of a push consumer with 200,000 unacknowledged messages leaves."""
    return _pushed(server).close


def purge(server: Server) -> End:
    """A stream of 400,000 messages is purged."""
    stream(server, 400_000)
    return lambda: asked(server, "$JS.API.STREAM.PURGE.S")


def expiry(server: Server) -> End:
    """100,000 messages expire together, each leaving a marker."""
    header = b"NATS/1.0\r\nNats-TTL: 30s\r\n\r\n"
    begun = time.monotonic()
    stream(server, 100_000, header, allow_msg_ttl=True, subject_delete_marker_ttl=5_000_000_000, allow_rollup_hdrs=True)
    time.sleep(max(27 - (time.monotonic() - begun), 0))
    return lambda: time.sleep(max(33 - (time.monotonic() - begun), 0))


def subscriptions(server: Server) -> End:
    """A client of 300,000 subscriptions leaves."""
    wire = plain(server)
    many(wire, 300_000, lambda n: b"SUB a.%d %d\r\n" % (n, n))
    return wire.close


def replies(server: Server) -> End:
    """A client leaves that waits for 60,000 answers of another account."""
    responder = plain(server, "b")
    responder.send(b"SUB slow 1\r\n")
    settled(responder)
    threading.Thread(target=lambda: all(iter(responder.line, b"")), daemon=True).start()
    wire = plain(server)
    many(wire, 60_000, lambda _n: b"PUB slow _I.1 0\r\n\r\n")
    return wire.close


CASES: Final = {
    one.__name__: one
    for one in (
        waiting_pulls,
        reset,
        pushed_reset,
        pushed_deleted,
        pushed_left,
        acknowledged,
        purge,
        expiry,
        subscriptions,
        replies,
    )
}


def login(server: Server) -> float:
    """How long one takes, in seconds."""
    begun = time.monotonic()
    plain(server).close()
    return time.monotonic() - begun


@contextmanager
def logins(server: Server) -> Iterator[list[float]]:
    """One after the other, for as long as this is open."""
    found: list[float] = []
    over = threading.Event()

    def again() -> None:
        while not over.is_set():
            found.append(login(server))
            time.sleep(0.001)

    thread = threading.Thread(target=again)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def measured(kind: str, name: str) -> tuple[float, float]:
    """The longest login while nothing ends, and while it does, in milliseconds."""
    with running(kind, CONFIGURATION) as server:
        end = CASES[name](server)
        time.sleep(QUIET_S)
        with logins(server) as before:
            time.sleep(QUIET_S)
        with logins(server) as found:
            end()
            time.sleep(QUIET_S)
    return max(before) * 1000, max(found) * 1000


def main() -> None:
    """Prints a line for each case and server."""
    names = sys.argv[1:] or list(CASES)
    for name in names:
        print(f"{name}: {CASES[name].__doc__}", flush=True)
        results: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
        for _ in range(ROUNDS):
            for kind in KINDS:
                results[kind].append(measured(kind, name))
        for kind, rows in results.items():
            quiet, ending = (statistics.median(column) for column in zip(*rows, strict=True))
            print(f"  {kind:12} longest login {ending:7.1f} ms, while nothing ends {quiet:5.1f} ms", flush=True)


if __name__ == "__main__":
    main()
