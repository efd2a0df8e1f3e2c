"""The rights today of those who stored schedules: who is answered, who has to wait, what the log says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from leafd import native_types as t
from leafd.accounts.graph import Numbers
from leafd.auth.authors import written
from leafd.config.bind import load_text
from leafd.daemon.authors import AuthorRights, Authors
from leafd.daemon.compiled import compile_config
from leafd.daemon.current import Current
from leafd.daemon.remotes import remote_author
from leafd.guard import Guard
from leafd.native_authors import Author

from tests.rig.logs import KeptLog
from tests.rig.planes import Unwilling

TEXT = """
accounts { A { users: [
    { user: alice, password: a, permissions: { publish: { allow: ["s.>"] } } }
    { user: web, password: w, allowed_connection_types: [WEBSOCKET] }
] } }
leafnodes { remotes: [
    { url: "nats-leaf://u:p@hub:7422", account: A, deny_exports: ["secret"], deny_imports: ["in"] }
] }
"""
ALICE = written(["user", "STANDARD", "alice"])
HUB = remote_author("A", ["nats-leaf://x:y@hub:7422"])


class Plane(Unwilling):
    """Keeps what it is told of authors."""

    def __init__(self) -> None:
        self.told: list[tuple[int, t.Permissions | None, bool]] = []

    def tell_author(
        self, ticket: int, verdict: t.ConnVerdict, permissions: t.Permissions | None, *, link: bool
    ) -> None:
        self.told.append((ticket, permissions, link))


class Stage:
    """Authors of a server with that configuration."""

    def __init__(self) -> None:
        compiled = compile_config(load_text(TEXT).server, Numbers())
        self.current = Current(compiled, t.Limits(), None, Guard())
        self.plane, self.log = Plane(), KeptLog()
        self.rights = AuthorRights(self.current)
        names = {"stream": "S", "account": "A"}
        self.authors = Authors(self.plane, self.current, self.rights, self.log, lambda stream: names)
        account = self.current.account("A")
        assert account is not None
        self.account = account.id

    def asked(self, author: str, account: int = 0, ticket: int = 5) -> None:
        asked = SimpleNamespace(code=t.AuthorCode.ASKED, account=account or self.account, ticket=ticket, author=author)
        self.authors.handle(asked)  # type: ignore[arg-type]

    def denied(self, author: str, *subjects: str) -> tuple[str, ...]:
        found: tuple[str, ...] = trio.run(self.rights.denied, author, "A", subjects)
        return found


def test_an_author_has_the_rights_of_today() -> None:
    """Not those of the login by which the schedule was stored."""
    stage = Stage()
    stage.asked(ALICE)
    ((ticket, permissions, link),) = stage.plane.told
    assert permissions is not None
    assert (5, ("s.>",), False) == (ticket, permissions.publish_allow, link)


@pytest.mark.parametrize(
    "author",
    [
        written(["user", "STANDARD", "gone"]),
        written(["user", "STANDARD", "web"]),  # who may come in another way only
        written(["token", "STANDARD"]),
        written(["user"]),
        "no list",
        "[" * 2000,
        "",
    ],
)
def test_who_is_nobody_any_more_is_told_to_the_plane_as_such(author: str) -> None:
    """The schedule is refused then, and does not wait for ever. What stands in a stored message can be anything."""
    stage = Stage()
    stage.asked(author)
    assert [(5, None, False)] == stage.plane.told


def test_an_author_of_an_account_that_is_not_known_yet_waits() -> None:
    """In operator mode an account comes to be known with its first login; until then nobody is refused."""
    stage = Stage()
    stage.asked(ALICE, account=99)
    assert [] == stage.plane.told


def test_a_hub_that_is_dialled_is_bound_by_the_denials_of_the_configuration() -> None:
    """By its address, whatever name and password stand in it, and no more once it is not dialled."""
    stage = Stage()
    stage.asked(HUB)
    stage.asked(remote_author("A", ["nats-leaf://other:7422"]), ticket=6)
    (_, granted, link), (_, none, _) = stage.plane.told
    assert granted is not None
    assert (True, ("secret",), ("in",)) == (link, granted.publish_deny, granted.mapped_deny)
    assert none is None


def test_what_an_author_may_not_publish_to_is_told_by_subject() -> None:
    """All of them of one who has no rights, none of one who needs none."""
    stage = Stage()
    assert ("x",) == stage.denied(ALICE, "s.a", "x")
    assert ("s.a", "x") == stage.denied(written(["user", "STANDARD", "gone"]), "s.a", "x")
    assert () == stage.denied("", "s.a", "x")


def test_a_refused_schedule_is_one_line_whatever_its_texts_are() -> None:
    """Subjects and names in stored messages are chosen by clients."""
    stage, hostile = Stage(), "a\r\nb" + "c" * 5000
    stage.authors.handle(Author(t.AuthorCode.DENIED, stage.account, 0, 1, hostile, hostile, hostile, 3))
    ((level, text),) = stage.log.lines
    assert "warning" == level
    assert "3 others before it" in text
    assert text.isprintable()
    assert len(text) < 1500


def test_the_events_of_the_plane_have_the_form_that_is_taken() -> None:
    """The stand-in of an event in this file has the members of a real one."""
    real: Any = Author(0, 0, 0, 0, "", "", "", 0)
    assert {"code", "account", "ticket", "author"} <= set(real.__match_args__)
