"""Who asks when a server without JetStream hands on its client's request: the account, what is shown of the client, and
the rights that it has here."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from leafd import native_types as t
from leafd.accounts.graph import Numbers
from leafd.auth.authors import NOBODY, SIZE_MAX
from leafd.config.bind import load_text
from leafd.daemon.authors import AuthorRights
from leafd.daemon.compiled import compile_config
from leafd.daemon.current import Current
from leafd.daemon.guests import Guests
from leafd.guard import Guard
from leafd.jetstream.serving import Guest

from tests.rig.planes import Unwilling

TEXT = """
accounts {
  A { users: [
    { user: alice, password: a, permissions: { publish: { allow: ["s.>"] } } }
    { user: anne, password: a }
  ] }
  B { users: [ { user: bob, password: b } ] }
  SYS { users: [ { user: sys, password: s } ] }
}
system_account: SYS
no_auth_user: bob
"""
WITH_JETSTREAM, WITHOUT = 7, 8
SUBJECTS = ("s.a", "t.a")


class Desk:
    """Keeps whom it is told of."""

    def __init__(self) -> None:
        self.guests: list[Guest] = []

    def guest(self, message: t.Message, guest: Guest) -> bool:
        self.guests.append(guest)
        return True


def asked(said: object, connection: int = WITHOUT) -> Guest | None:
    """Whom a request is taken for. said: its Nats-Request-Info, if it has one."""
    text = said if isinstance(said, bytes) else json.dumps(said).encode()
    return headed(b"" if said is None else b"NATS/1.0\r\nNats-Request-Info: " + text + b"\r\n\r\n", connection)


def headed(header: bytes, connection: int = WITHOUT) -> Guest | None:
    """The same of a request with that header block."""
    current = Current(compile_config(load_text(TEXT).server, Numbers()), t.Limits(), None, Guard())
    desk: Any = Desk()
    plane: Any = Unwilling()
    guests = Guests(plane, desk, current, AuthorRights(current), lambda number: number == WITH_JETSTREAM)
    message = t.Message(1, 3, connection, int(t.ConnKind.ROUTE), "$JS.API.INFO", "_R_.x", header, b"")
    assert guests.take(message) == bool(desk.guests)
    return desk.guests[0] if desk.guests else None


CLIENT = {"acc": "A", "user": "anne", "kind": "Client", "client_type": "nats", "server": "s3", "cluster": "C"}


@pytest.mark.parametrize(
    ("said", "account", "denied"),
    [
        (CLIENT, "A", ()),
        (CLIENT | {"user": "alice"}, "A", ("t.a",)),
        (CLIENT | {"user": "bob"}, "A", SUBJECTS),  # of another account
        (CLIENT | {"user": "stranger"}, "A", SUBJECTS),
        (CLIENT | {"acc": "B", "user": ""}, "B", ()),  # who needs no login here either
        (CLIENT | {"user": "[REDACTED]"}, "A", SUBJECTS),  # a token, of which there is none here
        (CLIENT | {"client_type": "carrier pigeon"}, "A", ()),
        (CLIENT | {"kind": "Leafnode"}, "A", ()),  # a leaf has the rights of its user
        (CLIENT | {"kind": "Leafnode", "user": "alice"}, "A", ("t.a",)),
        (CLIENT | {"acc": "B", "svc": "A"}, "A", SUBJECTS),  # behind an import of another account
        (CLIENT | {"jwt": "no.jwt.it"}, "A", SUBJECTS),
        (CLIENT | {"jwt": 5}, "A", SUBJECTS),
    ],
)
def test_the_rights_of_who_asks_are_those_of_his_login_here(
    said: dict[str, Any], account: str, denied: tuple[str, ...]
) -> None:
    """What a stream would publish in his name is held against them."""
    guest = asked(said)
    assert guest is not None
    assert guest.account == account
    assert trio.run(guest.asker.denied, SUBJECTS) == denied


def test_a_client_with_an_endless_name_is_nobody() -> None:
    """His author would be in each message that a schedule of his publishes."""
    known, endless = asked(CLIENT), asked(CLIENT | {"user": "a" * SIZE_MAX})
    assert known is not None
    assert endless is not None
    assert (known.asker.author != NOBODY, endless.asker.author) == (True, NOBODY)


def test_an_advisory_shows_the_client_without_what_proves_it() -> None:
    """As the reference tells of one."""
    guest = asked(CLIENT | {"jwt": "secret", "alts": ["D"]})
    assert guest is not None
    assert guest.asker.info() == CLIENT


@pytest.mark.parametrize("said", [b"", b"{", b"[]", {}, {"acc": ""}, {"acc": 5}, {"acc": "SYS"}])
def test_who_does_not_say_for_whom_he_asks_is_not_answered(said: object) -> None:
    """Nor is the system account's own JetStream asked for by that name: it has none."""
    assert asked(said) is None


OWN = b'Nats-Request-Info: {"acc":"B","user":"bob"}\r\n'
FORGED = b'Nats-Request-Info: {"acc":"A","user":"anne"}\r\n'


@pytest.mark.parametrize(
    "header",
    [
        b"NATS/1.0\r\n" + FORGED + OWN + b"\r\n",
        b"NATS/1.0\r\n\r\n" + FORGED + OWN + b"\r\n",
        b"NATS/1.0\r\n" + OWN + b"\r\n" + FORGED + b"\r\n",
        b"NATS/1.0\r\n" + FORGED + b"A:" + OWN + b"\r\n",  # a server's own behind a line that did not end
        b"NATS/1.0\r\nA:" + OWN + b"\r\n",
        b"NATS/1.1\r\n" + FORGED + b"\r\n",
        b"HTTP/1.1\r\n" + OWN + b"\r\n",
        b"\r\n" + FORGED + OWN + b"\r\n",
        FORGED + OWN + b"\r\n",
        OWN + b"\r\n",
    ],
)
def test_a_client_cannot_say_itself_who_asks(header: bytes) -> None:
    """Where its own words stand beside its server's, or the block is not a header's, the request is nobody's."""
    assert headed(header) is None


def test_an_order_without_a_name_is_of_the_system_account_where_its_server_has_no_jetstream() -> None:
    """Where that server has it, it has carried it out itself, and nobody does so twice."""
    guest = asked(None)
    assert guest is not None
    assert (guest.account, guest.asker.author) == ("SYS", NOBODY)
    assert asked(None, WITH_JETSTREAM) is None
    assert asked(CLIENT, WITH_JETSTREAM) is not None  # it handed on what came to it by a gateway


def test_who_comes_without_a_name_may_publish_nothing() -> None:
    """In the system account there are no streams in whose name that would be."""
    guest = asked(None)
    assert guest is not None
    assert trio.run(guest.asker.denied, SUBJECTS) == SUBJECTS
