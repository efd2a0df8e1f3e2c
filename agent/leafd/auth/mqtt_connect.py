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
_NAME: Final = b"MQTT"
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
    """What the packet says of the user: which of the two there are, and its end. They are here once: a server has
    thousands of devices."""

    @property
    def claimed(self) -> tuple[str | None, str | None]:
        """User and password. Raises NoConnect."""
        found = _Bytes(self.credentials)
        flags = found.take(1)[0]
        user = found.text() if flags & _USER else None
        # Bytes that are no text match no password that somebody has.
        return user, found.data().decode(errors="surrogateescape") if flags & _PASSWORD else None

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
    found = _Bytes(packet)
    found.take(1)
    found.take(found.number() - (len(packet) - found.at))  # nothing, where the size is right
    if found.data() != _NAME:
        raise NoConnect("the protocol is not MQTT")
    level, flags = found.take(2)
    if level not in VERSIONS:
        raise NoConnect(f"the protocol's level is {level}")
    keep_alive_s = int.from_bytes(found.take(2))
    found.properties(level)
    client_id = found.text()
    if flags & _WILL:
        found.properties(level)
        found.data()
        found.data()
    credentials = bytes([flags & (_USER | _PASSWORD)]) + packet[found.at :]
    read = MqttConnect(level, client_id, bool(flags & _CLEAN), keep_alive_s, credentials)
    _ = read.claimed  # whoever asks later has one that can be read
    return read


class _Bytes:
    """A cursor over the rest of a packet."""

    def __init__(self, packet: bytes) -> None:
        self._packet = packet
        self.at = 0

    def take(self, size: int) -> bytes:
        """The next bytes."""
        found = self._packet[self.at : self.at + size] if size >= 0 else b""
        if len(found) != size:
            raise NoConnect("the packet is shorter than it says")
        self.at += size
        return found

    def number(self) -> int:
        """A number of one to four bytes, seven bits each, the lowest first."""
        value = 0
        for place in range(_NUMBER_BYTES_MAX):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                return value
        raise NoConnect("a number does not end")

    def data(self) -> bytes:
        """Bytes behind their size."""
        return self.take(int.from_bytes(self.take(2)))

    def text(self) -> str:
        """The same as text."""
        try:
            return self.data().decode()
        except UnicodeDecodeError:
            raise NoConnect("a text is not UTF-8") from None

    def properties(self, level: int) -> None:
        """Passed over: none of them is part of a login."""
        if level == LEVEL_5:
            self.take(self.number())
