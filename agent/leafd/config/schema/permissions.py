"""Users, permissions and the authorization block. Nothing is checked against a connection here: auth/ does that."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from leafd.config.schema.base import SECOND, Duration, Number, Secret, Strings, Text
from leafd.config.schema.section import Reader, Section, Takes, later, option

RESPONSES_DEFAULT: Final = 1
RESPONSE_TTL_DEFAULT_NS: Final = 120 * SECOND
_KEY: Final = re.compile("[A-Z2-7]{56}")
CONNECTION_TYPES: Final = ("STANDARD", "WEBSOCKET", "LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS", "IN_PROCESS")


def _is_key(text: str, kind: str) -> bool:
    """Whether it looks like a public nkey; its checksum is looked at where it is used (auth/)."""
    return _KEY.fullmatch(text) is not None and text.startswith(kind)


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
    """The subjects that a user may publish and subscribe to; without lists all of them."""

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
    password: Secret = option(
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


class AuthCallout(Section):
    """A service that judges logins: it answers requests on $SYS.REQ.USER.AUTH with a user's JWT."""

    issuer: Text = option(
        "", "The public nkey (A...) whose signature the service's answers and users have.", takes=Takes.LIVE
    )
    account: Text = option(
        "$G", "The account in which the service listens.", aliases=("acc",), takes=Takes.LIVE, example='"AUTH"'
    )
    auth_users: Strings = option(
        (),
        "Users (names or nkeys) that the service is not asked about: those it logs in with itself.",
        aliases=("users",),
        takes=Takes.LIVE,
    )
    xkey: Text = option(
        "",
        "The service's public xkey (X...): requests are encrypted for it, and answers may be.",
        aliases=("key",),
        takes=Takes.LIVE,
    )
    allowed_accounts: Strings = option(
        (), "The accounts whose users the service judges. Empty: all of them.", takes=Takes.LIVE
    )

    def check(self) -> None:
        if not self.issuer:
            raise ValueError("Authorization callouts require an issuer to be specified")
        if not self.auth_users:
            raise ValueError("Authorization callouts require authorized users to be specified")
        if not _is_key(self.issuer, "A"):
            raise ValueError(f'Expected callout user to be a valid public account nkey, got "{self.issuer}"')
        if self.xkey and not _is_key(self.xkey, "X"):
            raise ValueError(f'Expected callout xkey to be a valid public xkey, got "{self.xkey}"')


class Authorization(Section):
    """The authorization block: one user, one token, or a list of users; they live in the account $G."""

    user: Text = option("", "The name of the only user.", aliases=("username",), takes=Takes.LIVE)
    password: Secret = option(
        "", "The only user's password, as it is or as a bcrypt hash ($2a$...).", aliases=("pass",), takes=Takes.LIVE
    )
    token: Secret = option(
        "", "A token that lets everybody in who has it, as it is or as a bcrypt hash.", takes=Takes.LIVE
    )
    users: tuple[User, ...] | None = option(None, "Several users, each a block.", takes=Takes.LIVE)
    default_permissions: Permissions | None = option(
        None,
        "What users may do that have no permissions of their own.",
        aliases=("default_permission", "permissions"),
        takes=Takes.LIVE,
    )
    timeout: Duration = option(
        2 * SECOND,
        "How long may a client take to log in? With TLS a second more than the handshake, unless set.",
        takes=Takes.LIVE,
        gt=0,
    )
    auth_callout: AuthCallout | None = option(
        None, "Have logins judged by a service of your own.", aliases=("auth_hook",), takes=Takes.LIVE
    )
    proxy_required: Any = later("PROXY protocol is not in this build", refuse=True)

    def check(self) -> None:
        if (self.user or self.password) and self.token:
            raise ValueError("user and token exclude each other: keep one")
        if self.users is not None and self.user:
            raise ValueError("user and users exclude each other: move the single user into the list")
        if self.users is not None and self.token:
            raise ValueError("token and users exclude each other: keep one")
