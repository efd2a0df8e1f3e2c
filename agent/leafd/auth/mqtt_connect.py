"""MQTT's CONNECT packet as the fields of a NATS client's CONNECT, so that one verdict judges both.

    10 | remaining size | 00 04 M Q T T | level | flags | keep alive | [properties, 5] | client id |
       [ will: [properties, 5] topic, payload ] | [ user ] | [ password ]

The plane has read the packet before (native/mqtt), so what cannot be read here is a fault and no login. A password
counts as a token, too, and where it has the form of a JWT as that, as with nats-server. Not here: what
the fields prove (verdict.py), sessions and wills (the plane).
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final

from leafd.records import dataclass

LEVEL_5: Final = 5
VERSIONS: Final = {4: "3.1.1", LEVEL_5: "5"}
_NAME: Final = b"\0\4MQTT"
_HEAD_BYTES: Final = 10
"""Name, level, flags and keep alive."""
_NUMBER_BYTES_MAX: Final = 4
_PASSWORD: Final = 0x40
_USER: Final = 0x80
_WILL: Final = 0x04
_CLEAN: Final = 0x02


class NoConnect(ValueError):
    """The bytes are not a CONNECT of MQTT 3.1.1 or 5."""


@dataclass(frozen=True, slots=True)
class MqttConnect:
    """The fields of a CONNECT that a login needs."""

    level: int
    client_id: str
    clean: bool
    keep_alive_s: int
    credentials: bytes = field(repr=False)
    """The packet's words about the user: which of the two there are, and its end. They are here once: a server has
    thousands of devices."""

    @property
    def claimed(self) -> tuple[str | None, str | None]:
        """User and password. Raises NoConnect."""
        packet, flags, at, user = self.credentials, self.credentials[0], 1, None
        if flags & _USER:
            found, at = _data(packet, at)
            user = _text(found)
        # Bytes that are no text match no password that somebody has.
        return user, _data(packet, at)[0].decode(errors="surrogateescape") if flags & _PASSWORD else None

    @property
    def fields(self) -> dict[str, Any]:
        """As the fields of a client's CONNECT. Raises NoConnect."""
        found: dict[str, Any] = {"verbose": False, "pedantic": False, "echo": True, "headers": True}
        user, password = self.claimed
        if user:
            found["user"] = user
        if password:
            found |= {"pass": password, "auth_token": password}
            if password.count(".") == 2 and password.startswith("eyJ"):
                found["jwt"] = password
        return found


def mqtt_connect(packet: bytes) -> MqttConnect:
    """Reads a whole packet. Raises NoConnect."""
    head, begin, end, rest = _places(packet)
    keep_alive_s = int.from_bytes(packet[head + 8 : head + 10])
    clean = bool(packet[head + 7] & _CLEAN)
    credentials = _credentials(packet, head, rest)
    read = MqttConnect(packet[head + 6], _text(packet[begin:end]), clean, keep_alive_s, credentials)
    _ = read.claimed  # a later look finds one that can be read
    return read


def credentials_of(packet: bytes) -> bytes:
    """The part of a packet about the user, without reading the rest of it. Raises NoConnect."""
    head, _, _, rest = _places(packet)
    return _credentials(packet, head, rest)


def level_of(packet: bytes) -> int:
    """The version of a packet that can be read: 4 is 3.1.1."""
    at = 1
    while packet[at] & 0x80:
        at += 1
    return packet[at + 7]


def client_id_of(packet: bytes) -> str:
    """The client identifier in a packet that can be read."""
    _, head = _number(packet, 1)
    found, _ = _data(packet, _behind_properties(packet, head + _HEAD_BYTES, packet[head + 6]))
    return found.decode()


def _credentials(packet: bytes, head: int, rest: int) -> bytes:
    return bytes((packet[head + 7] & (_USER | _PASSWORD),)) + packet[rest:]


def _places(packet: bytes) -> tuple[int, int, int, int]:
    """The places where the packet's own head begins, where its client identifier begins and ends, and where the part
    about the user begins."""
    size, head = _number(packet, 1)
    if head + size != len(packet) or size < _HEAD_BYTES:
        raise NoConnect("the packet has another size than it says")
    if packet[head : head + 6] != _NAME:
        raise NoConnect("the protocol is not MQTT")
    level, flags = packet[head + 6], packet[head + 7]
    if level not in VERSIONS:
        raise NoConnect(f"the protocol's level is {level}")
    begin = _behind_properties(packet, head + _HEAD_BYTES, level) + 2
    _, end = _data(packet, begin - 2)
    rest = end
    if flags & _WILL:
        _, topic = _data(packet, _behind_properties(packet, end, level))
        _, rest = _data(packet, topic)
    return head, begin, end, rest


def _number(packet: bytes, at: int) -> tuple[int, int]:
    """A number of one to four bytes, seven bits each, the lowest first; and where it ends."""
    value = 0
    for place, byte in enumerate(packet[at : at + _NUMBER_BYTES_MAX]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise NoConnect("a number does not end")


def _data(packet: bytes, at: int) -> tuple[bytes, int]:
    """Bytes behind their size; and where they end."""
    begin = at + 2
    end = begin + int.from_bytes(packet[at:begin])
    if end > len(packet) or begin > len(packet):
        raise NoConnect("the packet is shorter than it says")
    return packet[begin:end], end


def _text(found: bytes) -> str:
    try:
        return found.decode()
    except UnicodeDecodeError:
        raise NoConnect("a text is not UTF-8") from None


def _behind_properties(packet: bytes, at: int, level: int) -> int:
    """Passed over: none of them is part of a login."""
    if level != LEVEL_5:
        return at
    size, begin = _number(packet, at)
    return begin + size
