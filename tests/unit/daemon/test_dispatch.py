"""Who takes an event of the plane: the first whose connection it is, or the one in the table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from leafd import native_types as t
from leafd.daemon.dispatch import Dispatch
from leafd.host.listeners import CLIENT_LISTENER, LEAF_LISTENER, WEB_LISTENER

ROUTE, WEB, LEAF, LOGIN, CLIENT, LINK = range(1, 7)
"""Connections by whose they are. LOGIN is a leaf node's that has not logged in yet."""


class Rooms:
    """All of them, which note what they took."""

    def __init__(self, *, secure: bool = False, web: bool = True) -> None:
        self.taken: list[tuple[str, Any]] = []
        self.waiting: set[int] = {LOGIN}
        self.full = False
        self.dispatch = Dispatch(
            {t.Came: lambda event: self.note("came", event, True)},
            self.room(handle=lambda event: self.note("route", event, self.of(event, ROUTE))),
            self.room(handle=lambda event: self.note("web", event, self.of(event, WEB))) if web else None,
            self.room(put=self.put, waits=self.waiting.__contains__),
            self.room(handle=lambda event: self.note("client", event, self.of(event, CLIENT))),
            self.room(
                secure=secure,
                accepted=lambda connection: connection in (LEAF, LOGIN),
                logging_in=lambda connection, accepted: connection == LOGIN and accepted,
                handle=lambda event: self.note("link", event, True),
            ),
            self.room(opened=lambda connection: self.note("login begins", connection, True)),
        )

    @staticmethod
    def room(**calls: Any) -> Any:
        return cast("Any", SimpleNamespace(**calls))

    @staticmethod
    def of(event: Any, connection: int) -> bool:
        return getattr(event, "connection", 0) == connection

    def put(self, event: Any) -> bool:
        return self.note("arrivals", event, not self.full)

    def note(self, who: str, event: Any, took: bool) -> bool:
        if took:
            self.taken.append((who, event))
        return took

    def told(self, event: t.Event) -> list[str]:
        self.taken.clear()
        self.dispatch.take(event)
        return [who for who, _ in self.taken]


def opened(connection: int, listener: int) -> t.Opened:
    return t.Opened(connection, 0, listener, "127.0.0.1:1")


@pytest.mark.parametrize(
    ("connection", "who"), [(ROUTE, "route"), (WEB, "web"), (LOGIN, "arrivals"), (CLIENT, "client"), (LINK, "link")]
)
def test_an_event_goes_to_the_first_whose_connection_it_is(connection: int, who: str) -> None:
    assert [who] == Rooms().told(t.Closed(connection, 0, ""))


def test_who_connects_is_taken_by_the_room_of_the_listener() -> None:
    """A leaf node waits for its turn; one that comes over WebSocket is nobody else's before it has said what it is."""
    rooms = Rooms()
    assert ["arrivals"] == rooms.told(opened(LEAF, LEAF_LISTENER))
    assert ["client"] == rooms.told(opened(CLIENT, CLIENT_LISTENER))
    assert [] == rooms.told(opened(CLIENT, WEB_LISTENER)), "no other room hears of it"


def test_a_leaf_node_whose_turn_it_is_begins_its_login_once() -> None:
    """Without TLS when it connects, with it when that is there."""
    cases: list[tuple[bool, list[t.Event], list[bool]]] = [
        (False, [opened(LEAF, LEAF_LISTENER)], [True]),
        (True, [opened(LEAF, LEAF_LISTENER), secured(LEAF)], [False, True]),
        (True, [secured(LINK)], [False]),
    ]
    for secure, events, begins in cases:
        rooms = Rooms(secure=secure)
        for event, begun in zip(events, begins, strict=True):
            rooms.taken.clear()
            rooms.dispatch.leaf(event)
            assert [*(["login begins"] if begun else []), "link"] == [who for who, _ in rooms.taken]


def secured(connection: int) -> t.Secured:
    return t.Secured(connection, 0, 0x0304, 0, "", b"")


def test_where_the_queue_of_arrivals_is_full_a_login_is_handled_at_once() -> None:
    rooms = Rooms()
    rooms.full = True
    assert ["login begins", "link"] == rooms.told(opened(LEAF, LEAF_LISTENER))


def test_other_events_have_a_row_or_are_for_nobody_here() -> None:
    """Also without WebSocket."""
    rooms = Rooms(web=False)
    assert ["came"] == rooms.told(t.Came(CLIENT, 0, "127.0.0.1:1", b""))
    assert [] == rooms.told(t.Alarm(0, 0, 0, ""))
