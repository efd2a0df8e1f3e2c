"""Commands about connections to other servers: routes inside of a cluster, gateways to others. And what holds for MQTT.

Not here: the handshakes (links/), those of leaf links (native_commands.py).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from leafd import native_types as t
from leafd.native_packing import Strings, permission_lists
from leafd.native_submits import Submits


class Servers(Submits):
    """The commands about other servers."""

    def admit_route(
        self, connection: int, account: int, terms: t.RouteTerms, permissions: t.Permissions, server_id: str = ""
    ) -> None:
        """Binds a route. account: that of all its lines, 0 = each names its own. publish_* = import, else export."""
        strings = permission_lists(permissions) | {"server": [server_id] if server_id else []}
        self._submit("ADMIT_ROUTE", target=connection, account=account, body=terms, strings=strings)

    async def change_route_rights(self, connection: int, permissions: t.Permissions, *, refused: bool = False) -> None:
        """Other permissions for an admitted route; as in admit_route(). refused: they are those by which the peer has
        refused interest until now, which is told again. Raises PlaneError: FULL while an earlier change goes on."""
        await self._request(
            "ROUTE_RIGHTS",
            f"changing what may be asked for over connection {connection}",
            target=connection,
            arg=int(refused),
            strings=permission_lists(permissions),
        )

    def gateway(self, name: str, server_id: str) -> None:
        """Sets this server's names for other clusters, once, before the first gateway is admitted. Once, before the
        first gateway is admitted."""
        self._submit("GATEWAY", strings={"name": name, "server": server_id})

    def admit_gateway(self, connection: int, terms: t.GatewayTerms, name: str) -> None:
        """Binds a gateway to the cluster of that name."""
        self._submit("ADMIT_GATEWAY", target=connection, body=terms, strings={"name": name})

    async def meta_open(self, account: int, peer: int) -> tuple[int, bool, bool]:
        """Begins to take part in the group of servers: the id of this server's disk, whether it has the group, and
        whether it had it before it lost something. Raises PlaneError: the disk may have promised anything, and takes
        part in nothing."""
        done = await self._request("META_OPEN", "reading the group's log", account=account, arg=peer)
        return done.arg, done.arg2 == 1, done.arg2 == 2

    async def meta_found(self, name: int, members: Iterable[tuple[int, int]]) -> None:
        """Makes this disk's part of the group. members: its first; none: a leader has to let this one in. Raises
        PlaneError."""
        body = b"".join(struct.pack("=QQ", *member) for member in members)
        await self._request("META_FOUND", "founding the group of servers", arg=name, body=body)

    async def meta_replace(self, name: int, own: tuple[int, int] | None, index: int) -> None:
        """Another group in the place of the one that is here. own: this disk goes on alone, with its rows as of that
        index; None: a leader has to let it in. Raises PlaneError: AGAIN, FULL: to be asked again."""
        body = struct.pack("=QQ", *own) if own is not None else b""
        await self._request("META_FOUND", "replacing the group of servers", arg=name, arg2=index, body=body)

    def meta_send(self, peer: int, letter: bytes) -> None:
        """A letter to another server, if there is a way to it."""
        self._submit("META_SEND", arg=peer, body=letter)

    def meta_ways(self, ways: Iterable[tuple[int, int, int]]) -> None:
        """The servers of other clusters: each with its cluster, and the server of this one that hands on to it; 0:
        none."""
        self._submit("META_WAYS", body=b"".join(struct.pack("=QQQ", *way) for way in ways))

    async def meta_look(self) -> bytes:
        """The group as it is now: native_meta.py reads it. Raises PlaneError."""
        return (await self._request("META_LOOK", "looking at the group of servers")).payload

    async def meta_rows(self) -> bytes:
        """All rows of its table, likewise."""
        return (await self._request("META_ROWS", "reading the group's table")).payload

    async def meta_put(self, key: bytes, value: bytes, revision: int) -> int:
        """Writes a row that has that revision (0: there is none); the new one. Returns when a majority has it. Raises
        PlaneError."""
        strings: Strings = {"key": key, "value": value}
        return (
            await self._request("META_PUT", "writing a row of the group's table", arg=revision, strings=strings)
        ).arg

    async def meta_remove(self, key: bytes, revision: int) -> int:
        """Removes a row, as meta_put() writes one."""
        strings: Strings = {"key": key, "value": b""}
        done = await self._request("META_PUT", "removing a row", arg=revision, arg2=1, strings=strings)
        return done.arg

    async def meta_transfer(self, peer: int) -> None:
        """Hands the lead over. Raises PlaneError."""
        await self._request("META_TRANSFER", "handing over the lead", arg=peer)

    async def meta_alter(self, change: int, member: tuple[int, int]) -> None:
        """Begins a change of members. Raises PlaneError: AGAIN: another one is under way, or it does not lead."""
        await self._request("META_ALTER", "changing the members", arg=change, body=struct.pack("=QQ", *member))

    def mqtt(self, limits: t.MqttLimits, domain: str = "") -> None:
        """Sets the limits for clients of MQTT that come from now on. domain: of the streams that keep sessions."""
        self._submit("MQTT", body=limits, strings={"domain": domain})

    async def placed(self, account: str, stream: str, subjects: Sequence[str]) -> None:
        """A stream of another server of the cluster, or of several; no subjects: it is no more. Raises PlaneError."""
        strings: Strings = {"account": account, "stream": stream, "subjects": subjects}
        await self._request("PLACED", "a stream of another server", arg=int(t.Placed.STREAM), strings=strings)

    def placed_known(self, *, known: bool) -> None:
        """Whether all such streams have been said. Until then no client of MQTT is told that a message is on disk."""
        about = t.Placed.KNOWN if known else t.Placed.UNKNOWN
        self._submit("PLACED", arg=int(about), strings={"account": "", "stream": "", "subjects": ()})
