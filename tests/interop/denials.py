"""Every way in which a user can be denied a subject, for test_denials.py: one row a denial, one line-up a way.

a denial     rules made from a path's target and from what else the path needs
a line-up    who is denied (a client, a leaf, a hub that is dialled) and where that is written: a configuration's
             user, an account's default_permissions, a JWT, a remote's deny_imports, the INFO of a hub
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.interop.denial_paths import ACCOUNTS, CORE, PATHS, Path

Rules = dict[str, Any]


def wider(subject: str) -> str:
    """The last token and what comes behind it may be anything."""
    return f"{subject.rpartition('.')[0]}.>"


def others(path: Path, verb: str) -> list[str]:
    """What a path needs besides its target."""
    found = [one for one in path.subjects(verb) if one != path.target]
    return found or ["other"]


def _publish(**rules: Any) -> Rules:
    return {"publish": rules}


def _subscribe(**rules: Any) -> Rules:
    return {"subscribe": rules}


PERMISSIONS: dict[str, Callable[[Path], Rules]] = {
    "nothing denied": lambda path: {},
    "publish denied": lambda path: _publish(deny=[path.target]),
    "publish denied, wider": lambda path: _publish(deny=[wider(path.target)]),
    "publish denied and allowed": lambda path: _publish(allow=[">"], deny=["other", path.target]),
    "others may be published": lambda path: _publish(allow=others(path, "pub")),
    "the target may be published": lambda path: _publish(allow=[path.target]),
    "nothing may be published": lambda path: _publish(allow=[]),
    "subscribe denied": lambda path: _subscribe(deny=[path.target]),
    "subscribe denied, wider": lambda path: _subscribe(deny=[wider(path.target)]),
    "group denied": lambda path: _subscribe(deny=[f"{path.target} grp"]),
    "groups denied, wider": lambda path: _subscribe(deny=[f"{wider(path.target)} *"]),
    "others may be subscribed to": lambda path: _subscribe(allow=others(path, "sub")),
    "the target may be subscribed to": lambda path: _subscribe(allow=[path.target]),
    "group allowed": lambda path: _subscribe(allow=[f"{path.target} grp", "ok.>"]),
    "groups allowed, wider": lambda path: _subscribe(allow=[f"{wider(path.target)} g*", "ok.>"]),
    "answers only": lambda path: {"allow_responses": True},
    "two answers within a second": lambda path: {
        "publish": {"allow": others(path, "pub")},
        "allow_responses": {"max": 2, "expires": "1s"},
    },
    "answers although denied": lambda path: {"publish": {"deny": [path.target]}, "allow_responses": {"max": 1}},
    "both denied": lambda path: _publish(deny=[path.target]) | _subscribe(deny=[path.target]),
}
EMPTY = "nothing may be published"
"""In nats-server the same as no list."""
FEW = (
    "nothing denied", "publish denied", "others may be published", "subscribe denied, wider",
    "others may be subscribed to", "group allowed", "answers although denied",
)  # fmt: skip
LEAF = (
    "nothing denied", "publish denied", "publish denied, wider", "others may be published",
    "subscribe denied, wider", "others may be subscribed to", "the target may be published", "answers only",
)  # fmt: skip
INFO = (
    "publish denied", "others may be published", "subscribe denied, wider", "others may be subscribed to",
    "both denied",
)  # fmt: skip
LIMITS: dict[str, Callable[[Path], Rules]] = {
    "no import": lambda path: {"imports": False},
    "payload of one byte": lambda path: {"payload": 1},
    "one subscription": lambda path: {"subs": 1},
}
REMOTE: dict[str, Callable[[Path], Rules]] = {
    "imports denied": lambda path: {"deny_imports": [path.target]},
    "imports denied, wider": lambda path: {"deny_imports": [wider(path.target)]},
    "exports denied": lambda path: {"deny_exports": [path.target]},
    "exports denied, wider": lambda path: {"deny_exports": [wider(path.target)]},
}


@dataclass(frozen=True)
class LineUp:
    """Who is denied, and where that is written. signed: in JWTs. paths: all, where they are not named."""

    actor: str
    place: str
    denials: tuple[str, ...]
    signed: bool = False
    paths: Mapping[str, Path] = field(default_factory=lambda: PATHS)

    @property
    def link(self) -> bool:
        """Another server is at the other end."""
        return self.actor != "client"


LINE_UPS = {
    "client": LineUp("client", "user", (*(one for one in PERMISSIONS if one != EMPTY), "no import")),
    "empty list": LineUp("client", "user", (EMPTY,), paths={"publish": CORE["publish"]}),
    "default": LineUp("client", "default", FEW, paths=CORE),
    "jwt": LineUp(
        "client",
        "user",
        (*FEW, "payload of one byte", "one subscription", "no import"),
        signed=True,
        paths=CORE | ACCOUNTS,
    ),
    "leaf": LineUp("leaf", "user", LEAF),
    "leaf jwt": LineUp("leaf", "user", FEW, signed=True, paths=CORE),
    "remote": LineUp("hub", "remote", tuple(REMOTE)),
    "remote info": LineUp("hub", "info", INFO),
}


def rules_of(denial: str, path: Path) -> Rules:
    """What is written."""
    return (PERMISSIONS | LIMITS | REMOTE)[denial](path)


def matters(denial: str, path: Path) -> bool:
    """Whether the user does in the path what the denial is about: the rest of the product is the same cell again."""
    rules = rules_of(denial, path)
    publishes, subscribes = bool(path.subjects("pub")), bool(path.subjects("sub"))
    if "imports" in rules:
        return path.imports
    if (publishes and subscribes) or not rules or {"publish", "subscribe"} <= set(rules):
        return True
    about_subscriptions = not {"subscribe", "subs", "deny_exports"}.isdisjoint(rules)
    return subscribes if about_subscriptions else publishes
