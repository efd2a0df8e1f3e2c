"""The sender of a JetStream request: the login's name for advisories, and the subjects to which the login may publish.

    Message.connection --asker_of()--> a client | a leaf link | this server
    behind a service import, or gone: nobody, who may publish nothing

The plane judges subjects as messages come (native/route/permissions.c). Here the same lists are asked about subjects
with wildcards: one that is allowed lies within an allowed one and meets no denied one. Not here: what an
author may do later (authors.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from leafd import native_types as t
from leafd.auth.authors import NOBODY
from leafd.config.schema.sharing import collide, is_subset
from leafd.gotime import format_time
from leafd.records import dataclass
from leafd.turns import ITEM_WEIGHT, aside

if TYPE_CHECKING:
    from leafd.jetstream.ports import Asker
    from leafd.links.leafs import Leafs
    from leafd.logins.clients import Clients

NOTHING: Final = t.Permissions(publish_deny=(">",), subscribe_deny=(">",), author=NOBODY)


async def denied(lists: t.Permissions, subjects: tuple[str, ...], *, link: bool) -> tuple[str, ...]:
    """The subjects among these to which a connection with these lists may not publish. link: its lists are a link's."""
    allow = lists.subscribe_allow if link else lists.publish_allow
    deny = (*lists.subscribe_deny, *lists.mapped_deny) if link else lists.publish_deny
    return await aside(ITEM_WEIGHT * len(subjects) * (len(allow) + len(deny)), _denied, allow, deny, subjects)


def _denied(allow: tuple[str, ...], deny: tuple[str, ...], subjects: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        subject
        for subject in subjects
        if (allow and not any(is_subset(subject, one) for one in allow)) or any(collide(subject, one) for one in deny)
    )


@dataclass(frozen=True, slots=True)
class _Sender:
    """A logged-in connection, with the lists of subjects that it may publish to now."""

    lists: t.Permissions
    link: bool
    far: bool
    info: Callable[[], dict[str, Any]]

    @property
    def author(self) -> str:
        return self.lists.author

    async def denied(self, subjects: tuple[str, ...]) -> tuple[str, ...]:
        return await denied(self.lists, subjects, link=self.link)


def asker_of(message: t.Message, clients: Clients, leafs: Leafs, server: str) -> Asker:
    """The sender of the message. server: our name."""

    def info() -> dict[str, Any]:
        return _client_info(clients, message.connection, server)

    lists, link = NOTHING, False
    far = bool(message.connection) and leafs.bind_of(message.connection) is not None
    if not message.connection:
        lists = t.Permissions()
    elif message.payer in (0, message.account):
        client = clients.get(message.connection)
        bind = leafs.bind_of(message.connection) if client is None else None
        if client is not None and client.granted is not None:
            lists = client.granted[1]
        elif bind is not None:
            lists, link = bind.permissions, True
    return _Sender(lists, link, far, info)


def _client_info(clients: Clients, connection: int, server: str) -> dict[str, Any]:
    client = clients.get(connection)
    if client is None or client.account is None:
        return {"server": server}
    found: dict[str, Any] = {
        "start": format_time(client.opened_ns),
        "host": client.host,
        "id": client.connection,
        "acc": client.account.name,
        "user": client.user,
        "name": client.connect.get("name", ""),
        "lang": client.connect.get("lang", ""),
        "ver": client.connect.get("version", ""),
        "server": server,
        "kind": "Client",
        "client_type": "nats",
    }
    return {key: value for key, value in found.items() if value != ""}
