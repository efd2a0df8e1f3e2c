"""Who may connect, and what he may publish and subscribe to: users, permissions, the authorization block.

Nothing is checked against a connection here: auth/ does that.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from leafd.config.schema.base import SECOND, Duration, Number, Strings, Text
from leafd.config.schema.section import Reader, Section, Takes, later, option

RESPONSES_DEFAULT: Final = 1
RESPONSE_TTL_DEFAULT_NS: Final = 120 * SECOND
CONNECTION_TYPES: Final = ("STANDARD", "WEBSOCKET", "LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS", "IN_PROCESS")


def is_subject(text: str) -> bool:
    """Tokens joined by dots; * and > only as whole tokens, > only at the end."""
    tokens = text.split(".")
    if any(char.isspace() for char in text) or "" in tokens:
        return False
    return ">" not in tokens[:-1]


def _check_subjects(permissions: Subjects, *, queues: bool) -> None:
    for text in (*(permissions.allow or ()), *permissions.deny):
        words = text.split()
        subject = words[0] if queues and len(words) == 2 else text
        if not is_subject(subject):
            raise ValueError(f"{text!r} is no valid subject: tokens without blanks, joined by single dots")


class Subjects(Section):
    """Allowed and denied subjects; a deny wins over an allow."""

    allow: Strings | None = option(None, "The subjects that are allowed. Absent: all.", takes=Takes.LIVE)
    deny: Strings = option((), "The subjects that are denied, whatever allow says.", takes=Takes.LIVE)


class Responses(Section):
    """Answers to requests that were received, whatever the publish list says."""

    max: Number = option(
        RESPONSES_DEFAULT,
        "How many answers may a request get? -1: any number.",
        aliases=("max_msgs", "max_messages", "max_responses"),
        takes=Takes.LIVE,
        ge=-1,
    )
    expires: Duration = option(
        RESPONSE_TTL_DEFAULT_NS,
        "How long after the request may an answer come?",
        aliases=("expiration", "ttl"),
        takes=Takes.LIVE,
    )


def _subjects(value: object) -> object:
    return {"allow": value} if isinstance(value, str | list | tuple) else value


def _responses(value: object) -> object:
    if value is True:
        return {}
    return None if value is False else value


class Permissions(Section):
    """What a user may publish and subscribe to; nothing said: everything."""

    publish: Annotated[Subjects | None, Reader(_subjects)] = option(
        None,
        "What may be published: a subject, a list, or { allow, deny }. Wildcards are fine.",
        aliases=("pub", "import"),
        takes=Takes.LIVE,
    )
    subscribe: Annotated[Subjects | None, Reader(_subjects)] = option(
        None,
        'What may be subscribed to, as with publish. "subject group" allows the subject for that queue group only.',
        aliases=("sub", "export"),
        takes=Takes.LIVE,
    )
    allow_responses: Annotated[Responses | None, Reader(_responses)] = option(
        None,
        "May requests that the user received be answered, whatever publish says? true, or { max, expires }.",
        aliases=("publish_allow_responses",),
        takes=Takes.LIVE,
    )

    def check(self) -> None:
        if self.publish is not None:
            _check_subjects(self.publish, queues=False)
        if self.subscribe is not None:
            _check_subjects(self.subscribe, queues=True)


class User(Section):
    """One user: name and password, or the public nkey."""

    user: Text = option("", "The user's name.", aliases=("username",), takes=Takes.LIVE)
    password: Text = option(
        "", "The user's password, as it is or as a bcrypt hash ($2a$...).", aliases=("pass",), takes=Takes.LIVE
    )
    nkey: Text = option(
        "",
        "A public nkey (U...) in place of name and password: the client proves that it has the seed.",
        takes=Takes.LIVE,
    )
    permissions: Permissions | None = option(
        None,
        "What the user may publish and subscribe to. Absent: everything in its account.",
        aliases=("permission", "authorization"),
        takes=Takes.LIVE,
    )
    allowed_connection_types: Strings = option(
        (),
        "How the user may connect: STANDARD (a client), LEAFNODE ... Empty: in any way.",
        aliases=("connection_types", "clients"),
        takes=Takes.LIVE,
    )
    proxy_required: Any = later(
        "PROXY protocol is not in this build: such a user could connect without the proxy", refuse=True
    )

    def check(self) -> None:
        if self.nkey and (self.user or self.password):
            raise ValueError("an nkey user takes neither user nor password: remove them")
        if self.nkey and (len(self.nkey) != 56 or not self.nkey.startswith("U")):
            raise ValueError("not a public nkey of a user: it has 56 characters and begins with U")
        if not self.nkey and not self.user:
            raise ValueError("a user entry needs user or nkey")
        for kind in self.allowed_connection_types:
            if kind.upper() not in CONNECTION_TYPES:
                raise ValueError(f"unknown connection type {kind!r}: one of {', '.join(CONNECTION_TYPES)}")


class Authorization(Section):
    """The authorization block: one user, one token, or a list of users; they live in the account $G."""

    user: Text = option("", "The name of the only user.", aliases=("username",), takes=Takes.LIVE)
    password: Text = option(
        "", "The only user's password, as it is or as a bcrypt hash ($2a$...).", aliases=("pass",), takes=Takes.LIVE
    )
    token: Text = option(
        "", "A token that lets everybody in who has it, as it is or as a bcrypt hash.", takes=Takes.LIVE
    )
    users: tuple[User, ...] | None = option(None, "Several users, each a block.", takes=Takes.LIVE)
    default_permissions: Permissions | None = option(
        None,
        "What users may do that have no permissions of their own.",
        aliases=("default_permission", "permissions"),
        takes=Takes.LIVE,
    )
    timeout: Duration = option(2 * SECOND, "How long may a client take to log in?", takes=Takes.LIVE, gt=0)
    auth_callout: Any = later(
        "auth callout is not in this build: logins would not be checked", refuse=True, aliases=("auth_hook",)
    )
    proxy_required: Any = later("PROXY protocol is not in this build", refuse=True)

    def check(self) -> None:
        if (self.user or self.password) and self.token:
            raise ValueError("user and token exclude each other: keep one")
        if self.users is not None and self.user:
            raise ValueError("user and users exclude each other: move the single user into the list")
        if self.users is not None and self.token:
            raise ValueError("token and users exclude each other: keep one")
