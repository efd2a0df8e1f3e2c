"""Plays a wire transcript against a server: what a client sends, and byte for byte what must come back.

A .wire file is a test. Its first comment is the promise. Then, a line each (A is any letter, a connection each):

    # conf: NAME                the server's configuration, tests/wire/conf/NAME.conf (default: that of the folder)
    # leafs: L M                these letters connect to the leaf port ({leaf_port} of the configuration)
    # ways: lines joined        play it in these ways only; the reason in parentheses behind them, or below
    A> PUB foo 5                send this line and CR LF. Python's escapes work; a last \\c means: no CR LF
    A> PUB foo <json {...}>     send length, CR LF, the JSON and CR LF: nobody has to count the length
    A> PUB foo <fill 70000>     so many bytes "x"; expected likewise
    A< MSG foo 1 5              this line must come next. <*> matches anything, <name> too, and is remembered:
                                where <name> stands again, in A> too, it is what was matched
    A< MSG foo 1 <json {...}>   a line that ends in a length, and a payload that is this JSON; "<*>" matches any value
    A< INFO <has {...}>         JSON that has at least these fields
    A<~ LS+ foo                 this line, and those beside it that are marked so too, in any order
    A<theirs ... / A<ours ...   a deliberate difference: the reference's line and leafd's; above it the reason
    A! closed                   the server closes the connection
    A! silent 0.3               nothing comes for so many seconds
    wait 0.2                    let that many seconds pass
    A?                          (recording only) whatever comes until it is quiet

A connection is opened when its letter first stands; its INFO is read over, unless INFO is what is expected first.
`python -m tests.wire.player --record FILE...` replaces A? by what the reference server sent. That is the only way a
transcript is made: never from leafd.

Every transcript is played in three ways: a line at a time; all lines between two expectations in one send; and cut into
single bytes, long sends at random places. The answers must be the same.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import servers

HERE = Path(__file__).parent
ANSWER_SECONDS_MAX = 20.0  # nats-server looks for the 31st of February for seconds, on a loaded machine
QUIET_SECONDS = 0.3  # recording: nothing more comes
SPLIT_BYTES_MAX = 400  # longer sends are cut at random places instead of everywhere
FILL_SIZE_MIN = 1000  # recording: from here on a payload of "x" is written as its size
WAYS: tuple[str, ...] = ("lines", "joined", "split")

STEP = re.compile(r"^([A-Z])(>|<ours|<theirs|<~|<|!|\?)(?: (.*))?$")
MARKER = re.compile(r"<(json|has) (.*)>$")
FILL = re.compile(r"<fill (\d+)>$")
HOLE = re.compile(r"<(\*|[a-z][a-z0-9_]*)>")
# Fields of the server's JSON that differ from run to run.
VOLATILE = {"created", "ts", "time", "first_ts", "last_ts", "last_active", "id", "timestamp", "pause_remaining"}


class Mismatch(AssertionError):
    """The server said something else; the text holds the place and both sides."""


@dataclass(frozen=True)
class Step:
    number: int
    client: str  # a letter, or "" for wait
    action: str  # > < <~ <ours <theirs ! ? wait
    text: str


@dataclass(frozen=True)
class Transcript:
    path: Path
    promise: str
    configuration: str
    ways: tuple[str, ...]
    leafs: tuple[str, ...]
    steps: tuple[Step, ...]


def ways_of(place: str, text: str) -> tuple[str, ...]:
    """The ways that a remark of a transcript names, without the reason in parentheses behind them."""
    ways = tuple(text.partition("(")[0].split())
    assert ways, f"{place}: no way is named; there are {', '.join(WAYS)}"
    for way in ways:
        assert way in WAYS, f"{place}: no way is called {way!r}; there are {', '.join(WAYS)}"
    assert len(set(ways)) == len(ways), f"{place}: a way is named twice"
    return ways


def read(path: Path) -> Transcript:
    promise, configuration, ways, steps = "", path.parent.name, WAYS, []
    leafs: tuple[str, ...] = ()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("# conf:"):
            configuration = line.removeprefix("# conf:").strip()
        elif line.startswith("# ways:"):
            ways = ways_of(f"{path.name}:{number}", line.removeprefix("# ways:"))
        elif line.startswith("# leafs:"):
            leafs = tuple(line.removeprefix("# leafs:").split())
        elif line.startswith("#"):
            promise = promise or line[1:].strip()
        elif line.startswith("wait "):
            steps.append(Step(number, "", "wait", line.removeprefix("wait ")))
        elif line.strip():
            found = STEP.match(line)
            assert found, f"{path.name}:{number}: not a step: {line}"
            steps.append(Step(number, found[1], found[2], found[3] or ""))
    assert promise, f"{path.name}: the first comment is the promise"
    return Transcript(path, promise, configuration, ways, leafs, tuple(steps))


class Connection:
    """One client: a socket read by lines and lengths, written whole or in pieces."""

    def __init__(self, port: int, way: str, cuts: random.Random) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.way = way
        self.cuts = cuts
        self.received = b""
        self.fresh = True  # its INFO has not been read

    def send(self, data: bytes) -> None:
        try:
            for piece in self._pieces(data):
                self.socket.sendall(piece)
                if self.way == "split":
                    time.sleep(0.00005)  # lets the server read this piece alone, most of the time
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server has closed already; that is told by what it sent before

    def _pieces(self, data: bytes) -> list[bytes]:
        if self.way != "split":
            return [data]
        if len(data) <= SPLIT_BYTES_MAX:
            return [data[at : at + 1] for at in range(len(data))]
        places = sorted({0, len(data), *(self.cuts.randrange(len(data)) for _ in range(100))})
        return [data[a:b] for a, b in itertools.pairwise(places)]

    def more(self, seconds: float) -> bool:
        """Receives something; False when the server closed. TimeoutError when nothing came."""
        self.socket.settimeout(max(seconds, 0.001))
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionResetError:
            return False
        self.received += data
        return bool(data)

    def line(self, seconds: float = ANSWER_SECONDS_MAX) -> str:
        deadline = time.monotonic() + seconds
        while b"\r\n" not in self.received:
            if not self.more(deadline - time.monotonic()):
                raise EOFError(self.received)
        line, _, self.received = self.received.partition(b"\r\n")
        return line.decode("latin-1")

    def payload(self, size: int) -> bytes:
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while len(self.received) < size + 2:
            if not self.more(deadline - time.monotonic()):
                raise EOFError(self.received)
        data, self.received = self.received[:size], self.received[size + 2 :]
        return data

    def answer_ping(self) -> None:
        """Answers a PING that is all there is to read."""
        if self.received == b"PING\r\n":
            self.received = b""
            self.send(b"PONG\r\n")

    def info(self) -> None:
        if self.fresh:
            self.fresh = False
            line = self.line()
            assert line.startswith("INFO {"), f"the first line is not INFO: {line}"


@dataclass
class Player:
    """One play of one transcript in one way."""

    transcript: Transcript
    server: servers.Server
    way: str
    connections: dict[str, Connection] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    recorded: dict[int, list[str]] = field(default_factory=dict)
    cuts: random.Random = field(default_factory=lambda: random.Random(1))

    def play(self) -> None:
        try:
            pending: dict[str, bytes] = {}
            for step in self.transcript.steps:
                if step.action == ">" and self.way != "lines":
                    # Held back until something is expected, so that one send holds as much as it can.
                    if step.client not in pending:
                        self.flush(pending)
                    pending[step.client] = pending.get(step.client, b"") + self.bytes_of(step)
                    continue
                self.flush(pending)
                self.take(step)
            self.flush(pending)
        finally:
            for connection in self.connections.values():
                connection.socket.close()

    def flush(self, pending: dict[str, bytes]) -> None:
        for client, data in pending.items():
            self.connection(client, expecting_info=False).send(data)
        pending.clear()

    def connection(self, client: str, expecting_info: bool) -> Connection:
        if client not in self.connections:
            port = "leaf_port" if client in self.transcript.leafs else "port"
            self.connections[client] = Connection(self.server.ports[port], self.way, self.cuts)
        connection = self.connections[client]
        if expecting_info:
            connection.fresh = False
        connection.info()
        return connection

    def take(self, step: Step) -> None:
        if step.action == "wait":
            time.sleep(float(step.text))
            return
        if step.action == "<ours" and self.server.kind != servers.LEAFD:
            return
        if step.action == "<theirs" and self.server.kind == servers.LEAFD:
            return
        expecting = step.action.startswith("<") and step.text.startswith("INFO")
        connection = self.connection(step.client, expecting)
        if step.action == ">":
            connection.send(self.bytes_of(step))
        elif step.action == "!":
            self.state(step, connection)
        elif step.action == "<~":
            self.expect_among(step, connection)
        elif step.action == "?":
            self.recorded[step.number] = record(step.client, connection)
        else:
            self.expect(step, connection)

    def bytes_of(self, step: Step) -> bytes:
        text = HOLE.sub(lambda found: self.names.get(found[1], found[0]), step.text)
        marker = MARKER.search(text)
        if marker:
            body = marker[2].encode()
            return text[: marker.start()].encode() + b"%d\r\n%s\r\n" % (len(body), body)
        fill = FILL.search(text)
        if fill:
            return text[: fill.start()].encode() + fill[1].encode() + b"\r\n" + b"x" * int(fill[1]) + b"\r\n"
        end = b"\r\n"
        if text.endswith("\\c"):
            text, end = text[:-2], b""
        if "\\" in text:
            text = text.encode("latin-1").decode("unicode_escape")
        return text.encode("latin-1") + end

    def state(self, step: Step, connection: Connection) -> None:
        what, _, argument = step.text.partition(" ")
        seconds = float(argument) if what == "silent" else ANSWER_SECONDS_MAX
        try:
            while not connection.received and connection.more(seconds):
                connection.answer_ping()
            closed = not connection.received
        except TimeoutError:
            if what == "silent":
                return
            raise self.mismatch(step, "closed", "still open") from None
        if what != "closed" or not closed:
            raise self.mismatch(step, what, "closed" if closed else repr(connection.received[:300]))

    def expect_among(self, step: Step, connection: Connection) -> None:
        """The first of a group reads for all of them: each line that comes must be one that is still wanted."""
        steps = self.transcript.steps
        index = steps.index(step)
        if index > 0 and steps[index - 1].action == "<~" and steps[index - 1].client == step.client:
            return
        wanted = []
        while index < len(steps) and steps[index].action == "<~" and steps[index].client == step.client:
            wanted.append(steps[index])
            index += 1
        while wanted:
            texts = " | ".join(other.text for other in wanted)
            try:
                real = connection.line()
            except TimeoutError:
                raise self.mismatch(step, texts, "nothing came") from None
            except EOFError as ended:
                raise self.mismatch(step, texts, f"closed after {ended.args[0]!r}") from None
            found = next((other for other in wanted if re.fullmatch(pattern_of(other.text), real)), None)
            if found is None:
                raise self.mismatch(step, texts, real)
            self.expect_line(found, found.text, real)
            wanted.remove(found)

    def expect(self, step: Step, connection: Connection) -> None:
        text = HOLE.sub(lambda found: self.names.get(found[1], found[0]), step.text)
        marker = MARKER.search(text)
        fill = FILL.search(text)
        try:
            real = connection.line()
            while real == "PING" and text != "PING":
                # The server measures the round trip when it likes.
                connection.send(b"PONG\r\n")
                real = connection.line()
            if marker and not text.startswith("INFO"):
                size = real.split(" ")[-1]
                if not size.isdigit():
                    raise self.mismatch(step, text, real)
                real = f"{real.removesuffix(size)}{connection.payload(int(size)).decode()}"
            if fill and real.endswith(f" {fill[1]}"):
                real = f"{real.removesuffix(fill[1])}{filled(connection.payload(int(fill[1])))}"
        except TimeoutError:
            raise self.mismatch(step, text, "nothing came") from None
        except EOFError as ended:
            raise self.mismatch(step, text, f"closed after {ended.args[0]!r}") from None
        if marker:
            self.expect_json(step, text, marker, real)
        else:
            self.expect_line(step, text, real)

    def expect_line(self, step: Step, text: str, real: str) -> None:
        if "\\" in text:
            text = text.encode("latin-1").decode("unicode_escape")
        found = re.fullmatch(pattern_of(text), real, re.DOTALL)
        if not found:
            raise self.mismatch(step, text, real)
        self.names.update(found.groupdict())

    def expect_json(self, step: Step, text: str, marker: re.Match[str], real: str) -> None:
        before = re.match(pattern_of(text[: marker.start()]), real, re.DOTALL)
        if not before:
            raise self.mismatch(step, text, real)
        self.names.update(before.groupdict())
        expected = json.loads(marker[2])
        try:
            value = json.loads(real[before.end() :])
        except ValueError:
            raise self.mismatch(step, text, real) from None
        leave_out_ours(value)
        differing = difference(expected, value, exact=marker[1] == "json")
        if differing:
            raise self.mismatch(step, text, real, differing)

    def mismatch(self, step: Step, expected: str, real: str, more: str = "") -> Mismatch:
        where = f"{self.transcript.path.name}:{step.number} ({self.way}, {self.server.kind})"
        return Mismatch(f"{where}: {more}\n  expected {step.client}< {expected}\n  came     {step.client}< {real}")


def filled(payload: bytes) -> str:
    """How a transcript writes a long payload of nothing but "x"; other ones as they are."""
    return f"<fill {len(payload)}>" if payload.strip(b"x") == b"" else payload.decode("latin-1")


def pattern_of(text: str) -> str:
    """A regular expression of a line: holes match anything, named ones are groups."""
    pattern, at = "", 0
    for hole in HOLE.finditer(text):
        pattern += re.escape(text[at : hole.start()])
        pattern += ".*?" if hole[1] == "*" else f"(?P<{hole[1]}>.+?)"
        at = hole.end()
    return pattern + re.escape(text[at:])


def difference(expected: Any, real: Any, exact: bool, path: str = "$") -> str:
    """The first place where two JSON values differ, or the empty string."""
    if expected == "<*>":
        return ""
    if isinstance(expected, dict) and isinstance(real, dict):
        for key in expected:
            if key not in real:
                return f"{path}.{key} is missing"
            inner = difference(expected[key], real[key], exact, f"{path}.{key}")
            if inner:
                return inner
        extra = sorted(set(real) - set(expected))
        return f"{path} has also {', '.join(extra)}" if exact and extra else ""
    if isinstance(expected, list) and isinstance(real, list):
        for index, (left, right) in enumerate(zip(expected, real, strict=False)):
            inner = difference(left, right, exact, f"{path}[{index}]")
            if inner:
                return inner
        return "" if len(expected) == len(real) else f"{path} has {len(real)} items, {len(expected)} expected"
    if type(expected) is type(real) and expected == real:
        return ""
    return f"{path} is {real!r}, {expected!r} expected"


# ---- recording -------------------------------------------------------------------------------------------------------


def leave_out_ours(value: Any) -> None:
    """Facts about a mirror or source that leafd tells beside the reference's: packaging/doc/differences.md. A stream's
    info has it of those that copy it, too."""
    if isinstance(value, dict):
        if "state" in value and set(value.get("leafd") or ()) == {"copiers"}:
            del value["leafd"]
        for source in (value.get("mirror"), *(value.get("sources") or ())):
            if isinstance(source, dict):
                source.pop("leafd", None)


def masked(value: Any, key: str = "") -> Any:
    """JSON with what differs from run to run made a wildcard."""
    if key in VOLATILE and not str(value).startswith("0001-"):
        return "<*>"
    if isinstance(value, dict):
        if key == "api":  # how many requests this server has had
            return {name: inner if name == "level" else "<*>" for name, inner in value.items()}
        return {name: masked(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [masked(inner) for inner in value]
    return value


def visible(line: str) -> str:
    """The line in the escapes that a transcript is read with, so that it shows every byte."""
    shown = "".join(c if " " <= c <= "~" else f"\\x{ord(c):02x}" for c in line.replace("\\", "\\\\"))
    return f"{shown[:-1]}\\x20" if shown.endswith(" ") else shown


def unordered(steps: list[str]) -> list[str]:
    """The interest of a link comes as a map gives it: two or more lines of it beside each other are in no order."""
    told = ["< LS+ " in step for step in steps]
    beside = [False, *told, False]
    return [
        step.replace("< LS+ ", "<~ LS+ ", 1) if told[i] and (beside[i] or beside[i + 2]) else step
        for i, step in enumerate(steps)
    ]


def record(client: str, connection: Connection) -> list[str]:
    """All lines that come until it is quiet, as steps."""
    steps: list[str] = []
    while True:
        try:
            line = connection.line(QUIET_SECONDS)
        except TimeoutError:
            return unordered(steps)
        except EOFError as ended:
            if ended.args[0]:
                steps.append(f"{client}< {ended.args[0]!r} and no end of line")
            return [*steps, f"{client}! closed"]
        if line.startswith("INFO "):
            steps.append(f"{client}< INFO <*>")
            continue
        if line == "PING":
            connection.send(b"PONG\r\n")
            continue
        if line.startswith("Nats-Time-Stamp: "):
            # Its last zeros are left out, so the lengths differ too.
            line = "Nats-Time-Stamp: <*>"
            opening = max(index for index, step in enumerate(steps) if step.startswith(f"{client}< HMSG "))
            steps[opening] = re.sub(r" \d+ \d+$", " <*> <*>", steps[opening])
        line = re.sub(r"^(LS[+-] \$LDS\.)\S+", r"\1<*>", line)  # which server this is, for the detection of loops
        line = re.sub(r"(\$JS\.FC\.\S+\.)\w{4}(?= |$)", r"\1<*>", line)  # which flow control request this is
        # The stamp in an acknowledgement's subject.
        line = re.sub(r"(\$JS\.ACK\.\S+?\.\d+\.\d+\.\d+\.)\d{19}(\.\d+)", r"\1<*>\2", line)
        size = line.rsplit(" ", 1)[-1]
        if line.startswith("MSG ") and size.isdigit() and int(size) > 1:
            payload = connection.payload(int(size)).decode("latin-1")
            if len(payload) > FILL_SIZE_MIN and payload.strip("x") == "":
                steps.append(f"{client}< {line.removesuffix(size)}<fill {size}>")
                continue
            try:
                value = json.loads(payload)
            except ValueError:
                value = None
            if isinstance(value, dict):
                steps.append(
                    f"{client}< {line.removesuffix(size)}<json {json.dumps(masked(value), separators=(',', ':'))}>"
                )
            else:
                steps += [
                    f"{client}< {line}",
                    *(f"{client}< {visible(part)}".rstrip() for part in payload.split("\r\n")),
                ]
            continue
        steps.append(f"{client}< {visible(line)}".rstrip())


def write_recorded(path: Path) -> None:
    """Plays a transcript against the reference and puts what came where A? stands."""
    transcript = read(path)
    with servers.running(servers.REFERENCE, configuration_text(transcript)) as server:
        player = Player(transcript, server, "lines")
        player.play()
    lines = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        lines += player.recorded.get(number, [line])
    path.write_text("\n".join(lines) + "\n")


def configuration_text(transcript: Transcript) -> str:
    return (HERE / "conf" / f"{transcript.configuration}.conf").read_text()


def main() -> None:
    assert sys.argv[1:2] == ["--record"], "usage: python -m tests.wire.player --record FILE..."
    for name in sys.argv[2:]:
        write_recorded(Path(name))


if __name__ == "__main__":
    main()
