"""Commands about listeners and connections: how they begin, what they may do once they are logged in, how they end.

Not here: connections to other servers (native_servers.py), who may log in (auth/).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from leafd import native_types as t
from leafd.native import abi
from leafd.native_packing import Strings, as_bytes, permission_lists, permission_strings, records_in
from leafd.native_submits import Submits
from leafd.native_types import PlaneError
from leafd.turns import aside


class Connections(Submits):
    """Listeners, and connections from their first byte to their end."""

    def listen(
        self,
        listener: int,
        fd: int,
        kind: t.ConnKind,
        *,
        secure: bool = False,
        web: bool = False,
        proxied: bool = False,
    ) -> None:
        """Hands a listening socket over; of one that is there only these change. What comes
        is not read before its secure() (secure), speaks HTTP first (web), may begin with a PROXY header (proxied)."""
        self._submit("LISTEN", target=listener, arg=fd, arg2=t.begins(kind, secure, web, proxied))

    async def put_tls(self, number: int, context: int) -> None:
        """Connections that come to get TLS by that number from now on get it by this context of make_tls(). 0: none."""
        await self._request("TLS", "a context of TLS", target=number, arg=context)

    def secure(
        self, connection: int, how: t.Secure, *, before: bytes = b"", behind: bytes = b"", name: str = ""
    ) -> None:
        """TLS begins, as a server or client by the context. before: said in plain text first; behind: said after a
        handshake that came first; name: as a client, the host whose certificate is expected."""
        self._submit("SECURE", target=connection, body=how, strings={"before": before, "behind": behind, "name": name})

    def unlisten(self, listener: int) -> None:
        """Stops accepting and closes the listening socket."""
        self._submit("UNLISTEN", target=listener)

    async def adopt(self, fd: int, kind: t.ConnKind, *, secure: bool = False, web: bool = False) -> int:
        """Hands a connected socket over (the plane owns the fd); returns the connection id. EVENT_OPENED comes too.
        secure: it is not read before secure() is called. web: it speaks HTTP first."""
        done = await self._request("ADOPT", "adopting a connection", arg=fd, arg2=t.begins(kind, secure, web))
        return done.arg

    def upgrade(self, connection: int, kind: t.ConnKind, flags: t.WebFlag, answer: bytes = b"") -> None:
        """Behind a Line of kind HTTP: answers a request, then the connection speaks WebSocket and is of that kind."""
        self._submit("UPGRADE", target=connection, arg=int(flags), arg2=int(kind), body=answer)

    def compress(self, connection: int, how: t.Compress, *, before: bytes = b"", behind: bytes = b"") -> None:
        """Behind a Line of kind INFO: the link is an S2 stream from here on. Of one that is so: another level."""
        self._submit("COMPRESS", target=connection, body=how, strings={"before": before, "behind": behind})

    def send(self, connection: int, frame: bytes) -> None:
        """Queues a control frame (a whole line with CRLF)."""
        self._submit("SEND", target=connection, body=frame)

    def greet(self, listener: int, how: t.Secure | None, before: bytes, behind: bytes = b"") -> None:
        """As secure(), for all that come to a listener from now on, with no order for each; before empty: no more."""
        strings = {"before": before, "behind": behind}
        self._submit("GREET", target=listener, body=how or t.Secure(0), strings=strings)

    def remember(
        self,
        kind: int,
        connect: bytes,
        account: int,
        verdict: t.ConnVerdict,
        permissions: t.Permissions,
        after_pong: bytes,
    ) -> None:
        """As admit(), for all of that kind that were greeted and send this CONNECT, until forget_logins(). Of MQTT:
        those that say the same of their user. kind: ConnKind, with KNOWN_WEB over WebSocket."""
        strings = {"connect": connect, "after_pong": after_pong} | permission_strings(permissions)
        self._submit("REMEMBER", account=account, arg=kind, body=verdict, strings=strings)

    def forget_login(self, kind: int, connect: bytes) -> None:
        """This one of remember() is not known any more."""
        self._submit("FORGET", arg=kind, strings={"connect": connect})

    def forget_logins(self) -> None:
        """No login is known any more."""
        self._submit("FORGET", strings={"connect": b""})

    def tell_author(
        self, ticket: int, verdict: t.ConnVerdict, permissions: t.Permissions | None, *, link: bool
    ) -> None:
        """The answer to an Author event: what it may do, as a client that logs in with that; None: nothing."""
        lists = permissions or t.Permissions()
        strings = permission_lists(lists) | {"mapped_deny": lists.mapped_deny}
        rights = (abi.AUTHOR_MAY if permissions is not None else 0) | (abi.AUTHOR_LINK if link else 0)
        self._submit("AUTHOR", arg=ticket, arg2=rights, body=verdict, strings=strings)

    def forget_authors(self) -> None:
        """Answers to Author events do not count any more."""
        self._submit("AUTHORS_FORGET")

    def nudge(self) -> None:
        """Makes the plane tick: a command that has no effect."""
        self._submit("RESUME", target=0)

    def describe(self, connection: int, description: t.Description) -> None:
        """Sets the description of a connection, before it is admitted, or anew."""
        parts = {name: getattr(description, name) for name in ("before", "between", "place", "behind")}
        self._submit("DESCRIBE", target=connection, strings=parts)

    def resume(self, connection: int) -> None:
        """Goes on reading after a Line event that needs no verdict."""
        self._submit("RESUME", target=connection)

    def close_connection(self, connection: int, text: str = "", reason: int = t.CloseReason.CLIENT) -> None:
        """Sends -ERR 'text' (unless empty) and closes."""
        self._submit("CLOSE", target=connection, arg=int(reason), body=as_bytes(text))

    def end_silence(self, connection: int, text: str) -> None:
        """As close_connection(), for one whose time to log in is over. It stays if its CONNECT has come meanwhile, of
        which the plane knows before control does."""
        reason = int(t.CloseReason.AUTHENTICATION)
        self._submit("CLOSE", target=connection, arg=reason, arg2=1, body=as_bytes(text))

    def admit(
        self, connection: int, account: int, verdict: t.ConnVerdict, permissions: t.Permissions, after_pong: bytes
    ) -> None:
        """Admits a client; after_pong is sent behind its first PONG (the second INFO), empty = nothing."""
        strings = {"after_pong": after_pong} | permission_strings(permissions)
        self._submit("ADMIT", target=connection, account=account, body=verdict, strings=strings)

    async def change_rights(
        self, connection: int, account: int, verdict: t.ConnVerdict, permissions: t.Permissions, after_pong: bytes
    ) -> int:
        """Other rights for an admitted client of the same account; returns how many of its subscriptions went. Raises
        PlaneError: NOT_FOUND when it is gone or at its login again, otherwise the plane has closed it."""
        done = await self._request(
            "RIGHTS",
            f"changing the rights of connection {connection}",
            target=connection,
            account=account,
            body=verdict,
            strings={"after_pong": after_pong} | permission_strings(permissions),
        )
        return done.arg

    def admit_leaf(
        self,
        connection: int,
        account: int,
        verdict: t.ConnVerdict,
        permissions: t.Permissions,
        *,
        cluster: str,
        loop_subject: str,
    ) -> None:
        """Binds a leaf link to an account: interest is exchanged from here on."""
        names: Strings = {"cluster": cluster, "loop_subject": loop_subject}
        lists = permission_strings(permissions) | {"mapped_deny": permissions.mapped_deny}
        self._submit(
            "ADMIT_LEAF",
            target=connection,
            account=account,
            body=verdict,
            strings={**names, **lists},
        )

    def broadcast(self, template: bytes, *, web: bool = False) -> None:
        """An INFO line, in which the plane fills in number and address, to each admitted client that speaks protocol 1.
        web: of those over WebSocket, else of the others."""
        self._submit("BROADCAST", arg=int(web), body=template)

    async def connections(self) -> list[t.ConnectionRow]:
        """Counters of every connection."""
        done = await self._request("CONNECTIONS", "listing connections")
        return await aside(len(done.payload), records_in, "connection_row_t", done.payload, t.ConnectionRow)

    async def subscriptions(self, connection: int, place: int) -> t.SubscriptionSlice:
        """Some subscriptions of a connection, from a place in its table on."""
        done = await self._request("SUBSCRIPTIONS", "listing subscriptions", target=connection, arg=place)
        return t.SubscriptionSlice(tuple(t.subscription_rows(done.payload)), done.arg)

    async def subscriptions_of(self, connections: Sequence[int]) -> list[t.SubscriptionSlice | None]:
        """The first subscriptions of each. None: the connection is not there."""
        found: list[t.SubscriptionSlice | None] = []
        for done in await self._each("SUBSCRIPTIONS", "listing subscriptions", connections, [0] * len(connections)):
            if done.status not in (t.Status.OK, t.Status.NOT_FOUND):
                raise PlaneError(done.status, "listing subscriptions failed")
            rows = t.SubscriptionSlice(tuple(t.subscription_rows(done.payload)), done.arg)
            found.append(rows if done.status == t.Status.OK else None)
        return found

    def set_limits(self, limits: t.Limits) -> None:
        """The live ones of the limits take effect."""
        self._submit("LIMITS", body=limits)

    def precede(self, connection: int, rules: tuple[str, ...]) -> None:
        """Sets the priorities of a leaf link, three words for each rule."""
        self._submit("PRECEDENCE", target=connection, strings={"rules": rules})

    def budget(self, connection: int, budget: t.Budget) -> None:
        """Sets the bytes that a leaf link may still carry, and how fast."""
        self._submit("BUDGET", target=connection, body=budget)

    async def settled(self) -> None:
        """Returns when the plane has carried out everything that was ordered before."""
        with contextlib.suppress(PlaneError):  # of connection 0 it knows nothing, which is an answer
            await self._request("RESUME", "waiting for the plane")
