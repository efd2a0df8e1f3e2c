"""The clients that are here. Of most only their connection is of interest: one let in by a known login is kept as what
the plane told of it, a quarter of a Client's bytes, and made whole where somebody asks.

    Came --> known(): what the plane told --> look(): a Client to be read
                                          --> whole(): the Client from now on, to be changed
                                          --> leave(): a device that went, and how a Client is made of it later

Not here: who may log in (clients.py), what a known login is (known_logins.py).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from leafd.auth.connect import MQTT_CLIENT
from leafd.auth.mqtt_connect import client_id_of
from leafd.logins.client import Client, Mqtt

if TYPE_CHECKING:
    from leafd.logins.known_logins import Known

_Told = tuple["Known", bytes]
"""The login, and in one object, since there may be thousands: when it came, the size of its address, the address, and
the CONNECT of a device (nothing of a NATS client, whose login has it)."""
_HEAD: Final = Struct("=qB")


def _packet(row: bytes) -> bytes:
    return row[_HEAD.size + row[_HEAD.size - 1] :]


def _new(connection: int, row: bytes) -> Client:
    opened_ns, size = _HEAD.unpack_from(row)
    peer = row[_HEAD.size : _HEAD.size + size].decode()
    return Client(connection, peer, "", opened_ns, mqtt=Mqtt() if len(row) > _HEAD.size + size else None)


def _made(connection: int, told: _Told) -> Client:
    """The client, as if it had been made when it came."""
    login, row = told
    client = _new(connection, row)
    login.give(client, _packet(row))
    return client


class Left(NamedTuple):
    """A device that has gone, and of which nobody has asked. Its account and its login do not stay in memory for it."""

    connection: int
    account: int
    account_name: str
    user: str
    row: bytes

    @property
    def packet(self) -> bytes:
        """Its CONNECT."""
        return _packet(self.row)

    def made(self) -> Client:
        """The client that it was, without its account and its rights."""
        client = _new(self.connection, self.row)
        client.user, client.mqtt = self.user, Mqtt(self.packet)
        return client


class Present:
    """The clients by their connection."""

    def __init__(self) -> None:
        self._rows: dict[int, Client | _Told] = {}

    def __contains__(self, connection: int) -> bool:
        return connection in self._rows

    def add(self, client: Client) -> None:
        """One that came, logged in or not."""
        self._rows[client.connection] = client

    def known(self, connection: int, login: Known, peer: str, packet: bytes, opened_ns: int) -> None:
        """One that the plane let in by a known login. packet: a device's CONNECT, which may be kept; of a NATS client
        nothing."""
        address = peer.encode()
        self._rows[connection] = (login, b"".join((_HEAD.pack(opened_ns, len(address)), address, packet)))

    def drop(self, connection: int) -> None:
        """One that has gone."""
        del self._rows[connection]

    def leave(self, connection: int) -> Left | None:
        """Takes a device away that was let in by a known login and has not been made whole; None: it is none."""
        found = self._rows.get(connection)
        if not isinstance(found, tuple) or not _packet(found[1]):
            return None
        del self._rows[connection]
        login, row = found
        return Left(connection, login.account.id, login.account.name, login.user, row)

    def connections(self) -> list[int]:
        """All of them, logged in or not."""
        return list(self._rows)

    def look(self, connection: int) -> Client | None:
        """The client, to be read only. Its packet is not read: its user was known before."""
        found = self._rows.get(connection)
        if not isinstance(found, tuple):
            return found
        client, (login, row) = _made(connection, found), found
        if client.mqtt is not None:
            client.said = login.connect | {MQTT_CLIENT: client_id_of(_packet(row))}
        return client

    def whole(self, connection: int) -> Client | None:
        """The client, which is the same one each time."""
        found = self._rows.get(connection)
        if isinstance(found, tuple):
            found = self._rows[connection] = _made(connection, found)
        return found

    def described(self) -> list[Client]:
        """The clients of whom the plane knows all that may be told, none of which came by a known login."""
        return [one for one in self._rows.values() if isinstance(one, Client) and one.described]
