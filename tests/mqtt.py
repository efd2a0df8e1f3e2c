"""MQTT 3.1.1 and 5 as bytes, for tests that want to see each packet: packets of a client are made, those of a server
are taken apart, and Peer speaks them over a socket.

    with Peer(port, level=5, client="box") as peer:
        peer.subscribe("a/+")
        peer.publish("a/b", b"1")
        assert b"1" == peer.expect(PUBLISH).payload

Not here: anything that a test wants to hold; programs of others (paho, mosquitto).
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field
from typing import Any, Final, Self

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = range(1, 8)
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = range(8, 16)
PATIENCE_S: Final = 60.0
LEVELS: Final = (4, 5)
Properties = dict[str, Any]

# Identifier, name and type of each property (MQTT 5, 2.2.2.2).
_PROPERTIES: Final = {
    1: ("payload_format", "byte"),
    2: ("message_expiry", "four"),
    3: ("content_type", "text"),
    8: ("response_topic", "text"),
    9: ("correlation_data", "data"),
    11: ("subscription_id", "number"),
    17: ("session_expiry", "four"),
    18: ("assigned_client", "text"),
    19: ("server_keep_alive", "two"),
    21: ("auth_method", "text"),
    22: ("auth_data", "data"),
    23: ("request_problem", "byte"),
    24: ("will_delay", "four"),
    25: ("request_response", "byte"),
    26: ("response_information", "text"),
    28: ("server_reference", "text"),
    31: ("reason_string", "text"),
    33: ("receive_maximum", "two"),
    34: ("topic_alias_maximum", "two"),
    35: ("topic_alias", "two"),
    36: ("maximum_qos", "byte"),
    37: ("retain_available", "byte"),
    38: ("user", "pair"),
    39: ("maximum_packet", "four"),
    40: ("wildcards", "byte"),
    41: ("subscription_ids", "byte"),
    42: ("shared", "byte"),
}
_BY_NAME: Final = {name: (number, kind) for number, (name, kind) in _PROPERTIES.items()}
_SIZES: Final = {"byte": ">B", "two": ">H", "four": ">I"}
_MANY: Final = ("user", "subscription_id")
"""Properties that may be there more than once: lists here."""


class Ended(AssertionError):
    """The server closed the connection."""


@dataclass
class Packet:
    """One packet of a server."""

    kind: int
    flags: int = 0
    id: int = 0
    topic: str = ""
    payload: bytes = b""
    session_present: bool = False
    reasons: list[int] = field(default_factory=list)
    properties: Properties = field(default_factory=dict)

    @property
    def qos(self) -> int:
        return (self.flags >> 1) & 3

    @property
    def retain(self) -> bool:
        return bool(self.flags & 1)

    @property
    def dup(self) -> bool:
        return bool(self.flags & 8)

    @property
    def reason(self) -> int:
        """The only one."""
        (one,) = self.reasons or [0]
        return one


# ---- making packets


def number(value: int) -> bytes:
    """One to four bytes, seven bits each, the lowest first."""
    found = bytearray()
    while True:
        value, low = divmod(value, 128)
        found.append(low | (0x80 if value else 0))
        if not value:
            return bytes(found)


def data(value: bytes | str) -> bytes:
    """Bytes behind their size."""
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack(">H", len(raw)) + raw


def packet(kind: int, body: bytes, flags: int = 0) -> bytes:
    """A whole packet."""
    return bytes([kind << 4 | flags]) + number(len(body)) + body


def properties(level: int, found: Properties | None = None) -> bytes:
    """A block of properties; nothing with 3.1.1."""
    if level < 5:
        return b""
    block = b""
    for name, value in (found or {}).items():
        many = value if name in _MANY and isinstance(value, list) else [value]
        block += b"".join(_property(*_BY_NAME[name], one) for one in many)
    return number(len(block)) + block


def _property(identifier: int, kind: str, value: Any) -> bytes:
    if kind == "pair":
        return bytes([identifier]) + data(value[0]) + data(value[1])
    if kind in ("text", "data"):
        return bytes([identifier]) + data(value)
    return bytes([identifier]) + (number(value) if kind == "number" else struct.pack(_SIZES[kind], value))


@dataclass
class Will:
    """The message that is published when a client is gone."""

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    properties: Properties = field(default_factory=dict)


def connect(
    level: int = 4,
    client: str = "",
    *,
    user: str | None = None,
    password: str | bytes | None = None,
    clean: bool = True,
    keep_alive: int = 60,
    will: Will | None = None,
    found: Properties | None = None,
) -> bytes:
    """CONNECT. found: its properties."""
    flags = 2 * clean | 0x80 * (user is not None) | 0x40 * (password is not None)
    rest = properties(level, found) + data(client)
    if will is not None:
        flags |= 0x04 | will.qos << 3 | 0x20 * will.retain
        rest += properties(level, will.properties) + data(will.topic) + data(will.payload)
    rest += b"".join(data(one) for one in (user, password) if one is not None)
    return packet(CONNECT, data("MQTT") + struct.pack(">BBH", level, flags, keep_alive) + rest)


def publish(
    topic: str,
    payload: bytes = b"",
    *,
    level: int = 4,
    qos: int = 0,
    id: int = 0,
    retain: bool = False,
    dup: bool = False,
    found: Properties | None = None,
) -> bytes:
    """PUBLISH."""
    body = data(topic) + (struct.pack(">H", id) if qos else b"") + properties(level, found) + payload
    return packet(PUBLISH, body, 8 * dup | qos << 1 | retain)


def subscribe(id: int, *filters: tuple[str, int], level: int = 4, found: Properties | None = None) -> bytes:
    """SUBSCRIBE. A filter with its QoS, or with all options as one byte in 5."""
    body = struct.pack(">H", id) + properties(level, found)
    return packet(SUBSCRIBE, body + b"".join(data(text) + bytes([options]) for text, options in filters), 2)


def unsubscribe(id: int, *filters: str, level: int = 4) -> bytes:
    """UNSUBSCRIBE."""
    return packet(UNSUBSCRIBE, struct.pack(">H", id) + properties(level) + b"".join(map(data, filters)), 2)


def acknowledge(kind: int, id: int, reason: int = 0) -> bytes:
    """PUBACK, PUBREC, PUBREL, PUBCOMP."""
    return packet(kind, struct.pack(">H", id) + (bytes([reason]) if reason else b""), 2 if kind == PUBREL else 0)


def disconnect(level: int = 4, reason: int = 0, found: Properties | None = None) -> bytes:
    """DISCONNECT."""
    body = bytes([reason]) + properties(level, found) if level >= 5 and (reason or found) else b""
    return packet(DISCONNECT, body)


# ---- taking packets apart


class _Bytes:
    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def take(self, size: int) -> bytes:
        assert len(self.raw) >= size, f"{size} bytes are expected, and there are {self.raw!r}"
        found, self.raw = self.raw[:size], self.raw[size:]
        return found

    def unpacked(self, form: str) -> int:
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def number(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def data(self) -> bytes:
        return self.take(self.unpacked(">H"))

    def properties(self, level: int) -> Properties:
        found: Properties = {}
        block = _Bytes(self.take(self.number())) if level >= 5 and self.raw else _Bytes(b"")
        while block.raw:
            name, kind = _PROPERTIES[block.take(1)[0]]
            value: Any
            if kind == "pair":
                value = (block.data().decode(), block.data().decode())
            elif kind in ("text", "data"):
                value = block.data() if kind == "data" else block.data().decode()
            else:
                value = block.number() if kind == "number" else block.unpacked(_SIZES[kind])
            if name in _MANY:
                found.setdefault(name, []).append(value)
            else:
                assert name not in found, f"{name} is there twice"
                found[name] = value
        return found


def read(level: int, first: int, body: bytes) -> Packet:
    """A packet of a server: its first byte and what follows the size."""
    found, rest = Packet(first >> 4, first & 15), _Bytes(body)
    match found.kind:
        case 2:
            found.session_present = bool(rest.take(1)[0])
            found.reasons = [rest.take(1)[0]]
            found.properties = rest.properties(level)
        case 3:
            found.topic = rest.data().decode()
            found.id = rest.unpacked(">H") if found.qos else 0
            found.properties = rest.properties(level)
            found.payload, rest.raw = rest.raw, b""
        case 4 | 5 | 6 | 7:
            found.id = rest.unpacked(">H")
            found.reasons = [rest.take(1)[0]] if rest.raw else [0]
            found.properties = rest.properties(level)
        case 9 | 11:
            found.id = rest.unpacked(">H")
            found.properties = rest.properties(level)
            found.reasons, rest.raw = list(rest.raw), b""
        case 14 | 15:
            found.reasons = [rest.take(1)[0]] if rest.raw else [0]
            found.properties = rest.properties(level)
    assert not rest.raw, f"more bytes than a packet of kind {found.kind} has: {rest.raw!r}"
    return found


# ---- over a socket


class Peer:
    """A client. It answers nothing by itself."""

    def __init__(self, where: int | socket.socket, *, level: int = 4, begin: bool = True, **login: Any) -> None:
        """where: a port of this machine, or what stands for a socket. begin: says CONNECT and wants to be let in."""
        sock = socket.create_connection(("127.0.0.1", where)) if isinstance(where, int) else where
        self.level, self.socket, self._input, self._id = level, sock, b"", 0
        self.socket.settimeout(PATIENCE_S)
        self.welcome = Packet(0)
        if begin:
            try:
                self.send(connect(level, **login))
                self.welcome = self.expect(CONNACK)
                assert self.welcome.reason == 0, self.welcome
            except BaseException:
                self.socket.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def send(self, raw: bytes) -> None:
        self.socket.sendall(raw)

    def packet(self) -> Packet:
        """The next one. Raises Ended."""
        while True:
            whole = self._whole()
            if whole is not None:
                return whole
            try:
                more = self.socket.recv(65536)
            except ConnectionError as error:
                raise Ended(str(error)) from error
            if not more:
                raise Ended(f"the server closed, behind {self._input!r}")
            self._input += more

    def _whole(self) -> Packet | None:
        size, place = 0, 1
        while place < len(self._input):
            byte = self._input[place]
            size |= (byte & 0x7F) << (7 * (place - 1))
            place += 1
            if byte < 0x80:
                if len(self._input) < place + size:
                    return None
                first, body = self._input[0], self._input[place : place + size]
                self._input = self._input[place + size :]
                return read(self.level, first, body)
        return None

    def expect(self, kind: int) -> Packet:
        """The next one, which is of that kind."""
        found = self.packet()
        assert found.kind == kind, found
        return found

    def ended(self) -> Packet | None:
        """Waits until the server closes: what it said last, if anything."""
        last = None
        try:
            while True:
                last = self.packet()
        except Ended:
            return last

    def ended_without_a_word(self) -> bool:
        """The same: whether it said nothing."""
        return self.ended() is None

    def next_id(self) -> int:
        self._id += 1
        return self._id

    def subscribe(self, *filters: str | tuple[str, int], found: Properties | None = None) -> list[int]:
        """SUBACK's answer to each; QoS 0 where none is given. Only where nothing else comes meanwhile."""
        pairs = [one if isinstance(one, tuple) else (one, 0) for one in filters]
        self.send(subscribe(self.next_id(), *pairs, level=self.level, found=found))
        answer = self.expect(SUBACK)
        assert answer.id == self._id
        return answer.reasons

    def unsubscribe(self, *filters: str) -> list[int]:
        """UNSUBACK's answer to each; nothing with 3.1.1."""
        self.send(unsubscribe(self.next_id(), *filters, level=self.level))
        answer = self.expect(UNSUBACK)
        assert answer.id == self._id
        return answer.reasons

    def publish(self, topic: str, payload: bytes = b"", **more: Any) -> int:
        """Sends a message; its identifier, if it has one."""
        id = self.next_id() if more.get("qos") else 0
        self.send(publish(topic, payload, level=self.level, id=id, **more))
        return id

    def round_trip(self) -> list[Packet]:
        """The packets until PINGRESP: all that the server had said before it read this PINGREQ is there."""
        self.send(packet(PINGREQ, b""))
        found = []
        while (one := self.packet()).kind != PINGRESP:
            found.append(one)
        return found
