"""Draws hostile input by a seed, sends it to a running daemon, and looks after each batch whether anybody else
suffers.

    a case = what is sent, by one way in (an API request, headers, a CONNECT, a dialled hub's INFO, an origin's answer,
    a URL, a system request, protocol lines)      a finding = the case behind which the daemon was not itself any more

After each batch: the process lives, a new client connects, publishes, hears it and has a message stored, nothing
unforeseen was counted, and no turn of the control thread took longer than TURN_MS of its CPU. A batch that fails is
sent again case by case to a fresh daemon, so that the finding names one. Not here: the values
(values.py), the fields (fields.py).
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

from leafd.auth.connect import ClientConnect, LeafConnect
from leafd.gojson import Struct
from leafd.links.answers import Created
from leafd.links.leaf_info import HubInfo

from tests.hostile import fields, sanitized, values
from tests.hostile.wires import Asker, Hub, Wire, http, varz
from tests.servers import LEAFD, Server, running

BATCH: Final = 40
TURN_MS: Final = 20.0
LONG_TURN: Final = "a turn of the control thread"
ANSWER_S: Final = 0.05
CONFIGURATION = """
listen: 127.0.0.1:{port}
http: 127.0.0.1:{http_port}
server_name: box
jetstream { store_dir: "{store}", domain: edge, max_file_store: 256MB, max_memory_store: 32MB }
leafnodes {
  listen: "127.0.0.1:{leaf_port}", reconnect: "0.1s"
  remotes: [ { url: "nats-leaf://127.0.0.1:{hub}", account: N } ]
}
accounts {
  A { users: [ {user: a, password: a} ], jetstream: enabled }
  N { users: [ {user: n, password: n} ] }
  W { users: [ {user: w, password: w} ], jetstream: enabled }
  S { users: [ {user: s, password: s} ] }
}
no_auth_user: a
system_account: S
"""


@dataclass(frozen=True)
class Case:
    """One thing that is sent: the way in and the bytes, in words that let it be sent again."""

    way: str
    subject: bytes = b""
    body: bytes = b""
    header: bytes = b""

    def __str__(self) -> str:
        parts = [self.way] + [repr(one[:200]) for one in (self.subject, self.header, self.body) if one]
        return " ".join(parts)


# ---- drawing


class Draw:
    """Cases without end; the same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._endpoints = fields.endpoints()
        self._headers, self._options = fields.headers(), fields.options()
        self._pages, self._system = fields.pages(), fields.system_subjects()
        self._ways: list[Callable[[], Case]] = [
            *[self.request] * 10, *[self.publish] * 3, self.client, self.leaf, self.hub, self.origin, *[self.url] * 3,
            *[self.system] * 3, *[self.client_lines] * 2, *[self.leaf_lines] * 2,
        ]  # fmt: skip

    def __iter__(self) -> Iterator[Case]:
        while True:
            yield self.rng.choice(self._ways)()

    def _json(self, struct: type[Struct]) -> bytes:
        path = self.rng.choice(list(fields.paths(struct)))
        return fields.body(struct, path, self.rng.choice(values.JSON), twice=self.rng.random() < 0.1)

    def _subject(self, pattern: tuple[str, ...]) -> bytes:
        tokens = []
        for token in pattern:
            usual = "c" if "KEEP" in tokens else "KEEP"
            tokens.append(usual if token == "*" else "x.y" if token == ">" else token)
        raw = [one.encode() for one in tokens]
        if self.rng.random() < 0.15:
            odd = self.rng.choice(values.TEXTS).translate(None, b" \t\r\n\f\x00.*>")[:2000]
            raw[self.rng.randrange(len(raw))] = odd or b"x"
        return b".".join(raw)

    def _header(self) -> bytes:
        lines = []
        for _ in range(self.rng.choice((1, 1, 1, 2, 5))):
            value = self.rng.choice(values.TEXTS)
            lines.append(self.rng.choice(self._headers) + b": " + value)
        return b"\r\n".join(lines)

    def _batch(self) -> bytes:
        """Headers of an atomic batch, some of them as they should be, with one or two that mean something in it."""
        usual: dict[bytes, tuple[bytes, ...]] = {
            b"Nats-Batch-Id": (b"a", b"b"),
            b"Nats-Batch-Sequence": (b"1", b"2", b"3"),
            b"Nats-Batch-Commit": (b"1", b"eob"),
            b"Nats-Incr": (b"1", b"-1", b"+99999999999999999999"),
            b"Nats-Schedule": (b"@every 1s", b"@at 2100-01-01T00:00:00Z", b"* * * * * *"),
            b"Nats-Schedule-Target": (b"keep.z", b"count.z"),
            b"Nats-TTL": (b"1s", b"never"),
            b"Nats-Rollup": (b"sub", b"all"),
            b"Nats-Expected-Last-Subject-Sequence": (b"0", b"1"),
            b"Nats-Msg-Id": (b"1", b"2"),
        }
        names = [
            b"Nats-Batch-Id",
            b"Nats-Batch-Sequence",
            *self.rng.sample(sorted(usual)[2:], self.rng.choice((0, 1, 2))),
        ]
        odd = self.rng.choice(names) if self.rng.random() < 0.5 else b""
        lines = [name + b": " + self.rng.choice(values.TEXTS if name == odd else usual[name]) for name in names]
        return b"\r\n".join(lines)

    def request(self) -> Case:
        """An API request with one wrong field, or a body that is wrong as a whole."""
        line = self.rng.choice(self._endpoints)
        subject = self._subject(line.pattern)
        if line.request is not None and self.rng.random() < 0.85:
            if line.request in fields.BASES:  # a body that makes something is not for what is there already
                making = line.pattern[0] == "STREAM"
                subject = subject.replace(b"KEEP", b"H") if making else subject.replace(b".c", b".h")
            body = self._json(line.request)
        else:
            body = self.rng.choice(values.JSON)
        header = self._header() if self.rng.random() < 0.1 else b""
        prefix = self.rng.choice((b"$JS.API.", b"$JS.API.", b"$JS.edge.API."))
        return Case("request", prefix + subject, body, header)

    def publish(self) -> Case:
        """A message for a stream, with headers that mean something to it."""
        subject = self.rng.choice(
            (b"keep.x", b"keep.y", b"$JS.API.DIRECT.GET.KEEP", b"$JS.API.CONSUMER.MSG.NEXT.KEEP.c")
        )
        if self.rng.random() < 0.2:
            subject = (
                b"$JS.ACK.KEEP.c."
                + self.rng.choice(values.TEXTS).translate(None, b" \t\r\n\f\x00*>")[:300]
                + b".1.1.1.1"
            )
        if self.rng.random() < 0.4:
            made = b"made." + self.rng.choice(values.TEXTS).translate(None, b" \t\r\n\f\x00.*>")[:300]
            subject = self.rng.choice((b"keep.x", b"count.x", b"count.y", made))
            payload = b"" if self.rng.random() < 0.7 else self.rng.choice(values.JSON)
            return Case("publish", subject, payload, self._batch())
        return Case("publish", subject.replace(b"..", b"."), self.rng.choice(values.JSON), self._header())

    def client(self) -> Case:
        """A client's CONNECT."""
        return Case("client", body=self._json(ClientConnect))

    def leaf(self) -> Case:
        """A leaf's CONNECT."""
        return Case("leaf", body=self._json(LeafConnect))

    def hub(self) -> Case:
        """The INFO of a hub that was dialled."""
        return Case("hub", body=self._json(HubInfo))

    def origin(self) -> Case:
        """What a mirror's origin answers."""
        return Case("origin", body=self._json(Created))

    def url(self) -> Case:
        """A URL of the monitoring port."""
        query = "&".join(
            f"{self.rng.choice(self._options)}={quote(self.rng.choice(values.TEXTS)[:3000])}"
            for _ in range(self.rng.choice((0, 1, 1, 2, 5)))
        )
        target = f"{self.rng.choice(self._pages)}?{query}".encode()
        if self.rng.random() < 0.3:
            at = self.rng.randrange(len(target) + 1)
            target = target[:at] + self.rng.choice(values.TEXTS)[:3000] + target[at:]
        return Case("url", target)

    def system(self) -> Case:
        """A request on $SYS, of the system account or of another."""
        option = self.rng.choice(self._options)
        body = b'{"%s":%s}' % (option.encode(), self.rng.choice(values.JSON))
        body = body if self.rng.random() < 0.8 else self.rng.choice(values.JSON)
        return Case(self.rng.choice(("system", "request")), self.rng.choice(self._system).encode(), body)

    def client_lines(self) -> Case:
        """Bytes at the client port, before or after a login."""
        start = self.rng.choice((b"", b'CONNECT {"verbose":false,"headers":true}\r\n'))
        return Case("client lines", body=start + values.line(self.rng, leaf=False))

    def leaf_lines(self) -> Case:
        """Bytes at the leaf port, before or after a login."""
        login = b'CONNECT {"user":"a","pass":"a","name":"n","headers":true}\r\n'
        return Case("leaf lines", body=self.rng.choice((b"", login, login, login)) + values.line(self.rng, leaf=True))


# ---- sending


@dataclass
class Daemon:
    """The daemon under test and the long-lived connections to it."""

    server: Server
    hub: Hub
    askers: dict[str, Asker] = field(default_factory=dict)

    def asker(self, user: str) -> Asker:
        """A client of that user; a new one when the daemon has closed the last."""
        known = self.askers.get(user)
        if known is None:
            known = self.askers[user] = Asker(self.server.port, user=user, password=user)
            known.patience_s = ANSWER_S
        return known

    def prepare(self) -> None:
        """Makes what the cases refer to, as far as it is not there: a case may well delete it."""
        keep = {"name": "KEEP", "subjects": ["keep.>"], "allow_direct": True, "allow_rollup_hdrs": True}
        keep |= {"allow_msg_ttl": True, "max_bytes": 16 << 20, "allow_atomic": True, "allow_msg_schedules": True}
        count = {"name": "COUNT", "subjects": ["count.>"], "allow_atomic": True, "allow_msg_counter": True}
        made = {"name": "MADE", "config": {"subjects": ["made.*"], "max_bytes": 1 << 20}, "max_streams": 5}
        consumer = {"stream_name": "KEEP", "config": {"durable_name": "c", "ack_policy": "explicit"}}
        far = {"name": "FAR", "mirror": {"name": "O", "external": {"api": "far"}}}
        with Asker(self.server.port) as client:
            client.ask("$JS.API.STREAM.CREATE.KEEP", keep)
            client.ask("$JS.API.STREAM.CREATE.COUNT", count)
            client.ask("$JS.API.STREAM.TEMPLATE.CREATE.MADE", made)
            client.ask("$JS.API.CONSUMER.DURABLE.CREATE.KEEP.c", consumer)
            client.ask("$JS.API.STREAM.CREATE.FAR", far)

    def send(self, case: Case) -> None:
        """Sends one case and waits a moment for what comes of it."""
        port, leaf_port = self.server.port, self.server.ports["leaf_port"]
        match case.way:
            case "request" | "publish" | "system":
                user = "s" if case.way == "system" else "a"
                asker = self.asker(user)
                if asker.ask(case.subject, case.body, case.header) is None and asker.closed:
                    self.askers.pop(user).close()
            case "client":
                self._say(port, b"CONNECT " + case.body + b"\r\nPING\r\n")
            case "leaf":
                self._say(leaf_port, b"CONNECT " + case.body + b"\r\nPING\r\n")
            case "client lines":
                self._say(port, case.body)
            case "leaf lines":
                self._say(leaf_port, case.body)
            case "url":
                http(self.server.ports["http_port"], case.subject)
            case "hub":
                with contextlib.suppress(TimeoutError):
                    self.hub.greet(b"INFO " + case.body + b"\r\n", b"INFO " + case.body + b"\r\nPING\r\n")
            case "origin":
                self._answer(case.body)

    @staticmethod
    def _say(port: int, data: bytes) -> None:
        with Wire(port, ANSWER_S) as wire:
            wire.heard()
            wire.send(data)
            wire.rest()

    def _answer(self, answer: bytes) -> None:
        """Answers a mirror's consumer create."""
        with Asker(self.server.port, 1.0) as origin:
            origin.send(b"SUB far.CONSUMER.CREATE.> 9\r\nPING\r\n")
            while line := origin.heard():
                if b" 9 " in line:
                    origin.payload(int(line.split()[-1]))
                    origin.send(b"PUB %s %d\r\n%s\r\n" % (line.split()[3], len(answer), answer))
                    return

    def complaint(self) -> str:
        """What is wrong with the daemon, or the empty string."""
        process = self.server.process
        if process is None or process.poll() is not None:
            return f"the daemon ended with {process.returncode if process else None}: {self.server.log[-1500:]}"
        try:
            with Asker(self.server.port, user="w", password="w") as client:
                client.send(b"SUB alive 2\r\nPUB alive 2\r\nhi\r\n")
                if client.heard() != b"MSG alive 2 2":
                    return "a new client does not hear what it publishes"
                client.heard()
                reply = client.ask("watched", b"1")
                if reply is None or b'"stream":"WATCH"' not in reply:
                    return f"a new client's message is not stored: {reply!r}"
            figures = varz(self.server.ports["http_port"])["leafd"]
        except (OSError, EOFError, AssertionError, ValueError) as error:
            return f"a new client is not served: {error!r}"
        if figures["unexpected_errors"]:
            return f"unexpected errors: {figures['unexpected_errors_in']}: {self.server.log[-1500:]}"
        if figures["longest_turn_cpu_ms"] > TURN_MS:
            return f"{LONG_TURN} of {figures['longest_turn_cpu_ms']} ms CPU: {figures['longest_turn_place']}"
        return ""


@contextlib.contextmanager
def daemon(build: Path | None = None) -> Iterator[Daemon]:
    """A fresh daemon with a stream to watch. build: over the sanitized C extension of that build directory."""
    hub = Hub(0.3)
    with sanitized.preferred(build), running(LEAFD, CONFIGURATION, hub=hub.port) as server:
        with Asker(server.port, user="w", password="w") as client:
            watch = {"name": "WATCH", "subjects": ["watched"], "max_msgs": 1000}
            assert client.err_code("$JS.API.STREAM.CREATE.WATCH", watch) == 0
        one = Daemon(server, hub)
        try:
            yield one
        finally:
            for asker in one.askers.values():
                asker.close()
            hub.close()


def sent(one: Daemon, cases: list[Case]) -> str:
    """Sends some cases; what is wrong behind them."""
    with contextlib.suppress(OSError, EOFError, AssertionError):
        one.prepare()
    for case in cases:
        with contextlib.suppress(OSError, EOFError, AssertionError):
            one.send(case)
    return one.complaint()


def culprit(cases: list[Case], complaint: str, build: Path | None) -> str:
    """Which case of a batch it was: each is sent alone to a fresh daemon. Empty: nothing but a turn that was long once
    and is not when all of them are sent once more, which says more about the machine."""
    for case in cases:
        with daemon(build) as one:
            found = sent(one, [case])
        if found:
            return f"{case}\n    {found}"
    with daemon(build) as one:
        again = sent(one, cases)
    if LONG_TURN in complaint and not again:
        return ""
    return "one of\n  " + "\n  ".join(map(str, cases)) + f"\n    {complaint}"


def run(seconds: float, seed: int, report: Callable[[str], None], build: Path | None = None) -> tuple[int, int]:
    """Sends cases for some time; (cases behind which all was well, findings). build: as daemon() has it."""
    draw = iter(Draw(seed))
    end = time.monotonic() + seconds
    passed = failed = 0
    while time.monotonic() < end:
        with daemon(build) as one:
            complaint = ""
            while not complaint and time.monotonic() < end:
                cases = [next(draw) for _ in range(BATCH)]
                complaint = sent(one, cases)
                passed += 0 if complaint else len(cases)
        found = culprit(cases, complaint, build) if complaint else ""
        if found:
            failed += 1
            report(f"finding {failed}: {found}")
    return passed, failed
