"""Commands about connections to other servers: routes inside of a cluster, gateways to others. And what holds for MQTT.

Not here: the handshakes (links/), those of leaf links (native_commands.py).
"""

from __future__ import annotations

from leafd import native_types as t
from leafd.native_packing import permission_lists
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

    def mqtt(self, limits: t.MqttLimits, domain: str = "") -> None:
        """Sets the limits for clients of MQTT that come from now on. domain: of the streams that keep sessions."""
        self._submit("MQTT", body=limits, strings={"domain": domain})
