"""The page's paths, who may see them, and the headers that keep a browser from doing more with them than showing them.

    /              on loopback the page, else the list of what is served here
    /status        the page: elsewhere than on loopback for users of the system account, by HTTP Basic
    /events        what the page shows, live, for the same people
    /page.css, /page.js    nobody's secret

Not here: HTTP, and under which names it may be asked for (http.py), whether a password is right
(logins/page_logins.py), what is shown (view.py).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leafd.monitor.facts import Facts
from leafd.monitor.hosts import is_loopback
from leafd.monitor.page.feed import Feed
from leafd.monitor.page.history import History
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.status import Status

HOME: Final = "/"
PAGE: Final = "/status"
EVENTS: Final = "/events"
_FILES: Final = {"/page.css": "text/css; charset=utf-8", "/page.js": "text/javascript; charset=utf-8"}
PATHS: Final = (HOME, PAGE, EVENTS, *_FILES)
HTML: Final = "text/html; charset=utf-8"
EVENT_STREAM: Final = "text/event-stream"

Headers = list[tuple[str, str]]
GUARDS: Final[Headers] = [
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
]
_AT_ONCE: Final = ("X-Accel-Buffering", "no")
"""A proxy is to pass events on as they come."""
_CHALLENGE: Final = ("WWW-Authenticate", 'Basic realm="leafd: a user of the system account", charset="UTF-8"')
NOT_IN: Final = (
    "401 The status page is for users of the system account (system_account, with user and password; in operator mode "
    "the password is the bearer JWT of such a user). The reports beside it are open.\n"
)

# html.escape() does this, too, and imports a table of 2,231 names for it.
_HTML: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


def escaped(value: object) -> str:
    """Text that cannot end an element or an attribute."""
    return str(value).translate(_HTML)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, with headers of its own. live: a stream of events follows. rest: further pieces of the body."""

    status: int
    kind: str
    body: bytes = b""
    headers: Headers = field(default_factory=lambda: list(GUARDS))
    live: bool = False
    rest: AsyncIterator[bytes] | None = None


class Page:
    """The page of one server. links: the paths of the reports, which it leads to."""

    def __init__(self, facts: Facts, base: str, links: Iterable[str]) -> None:
        self._facts = facts
        self._base = base
        self._links = tuple(links)
        self.history = History(facts)
        self.feed = Feed(facts, self.history)

    @property
    def open(self) -> bool:
        """Whether only this machine's own programs reach the port, so that nobody has to log in."""
        host = self._facts.monitor[0] if self._facts.monitor is not None else ""
        return is_loopback(host)

    async def admits(self, path: str, authorization: bytes, address: str, wanted: Callable[[], bool]) -> bool:
        """Whether the client may see that path. Passwords that are wrong again and again are answered late."""
        if path == HOME or path in _FILES or self.open:
            return True
        user, password = credentials(authorization)
        if not password or self._facts.login is None:
            return False
        return await self._facts.login(user, password, address, wanted)

    async def reply(self, path: str, admitted: bool) -> Reply:
        """The answer for a path of PATHS; for EVENTS only its head."""
        if path in _FILES:
            return Reply(200, _FILES[path], _file(path[1:]))
        if path == HOME and not self.open:
            return Reply(200, HTML, self._list().encode())
        if not admitted:
            return Reply(401, "text/plain; charset=utf-8", NOT_IN.encode(), [*GUARDS, _CHALLENGE])
        if path == EVENTS:
            return Reply(200, EVENT_STREAM, headers=[*GUARDS, _AT_ONCE], live=True)
        return Reply(200, HTML, (await self._page()).encode())

    def _list(self) -> str:
        paths = "".join(f'<li><a href="{escaped(self._base + path)}">{path[1:]}</a>' for path in self._links)
        return (
            f'<!doctype html><html lang=en><meta charset=utf-8><title>leafd</title><ul><li><a href="'
            f'{escaped(self._base + PAGE)}">status page</a> (for users of the system account){paths}</ul>'
        )

    async def _page(self) -> str:
        """The browser's file, with what a browser without scripts is to see."""
        from leafd.monitor.page.view import glance
        from leafd.status import status

        found = status(*await glance(self._facts))
        rows = "".join(f"<tr><th scope=row>{escaped(name)}<td>{escaped(value)}" for name, value in plain(found))
        links = " ".join(f'<a href="{escaped(self._base + path)}">{path[1:]}</a>' for path in self._links)
        places = {"NAME": escaped(found.name), "BASE": escaped(self._base), "ROWS": rows, "LINKS": links}
        parts = _file("page.html").decode().split("%%")
        # Every second part is the name of a place; what is put in is not looked at again.
        return "".join(places[part] if number % 2 else part for number, part in enumerate(parts))


def plain(found: Status) -> Iterable[tuple[str, object]]:
    """The server at a glance, for browsers without scripts."""
    yield "Up", found.uptime
    yield "Memory", f"{found.memory_bytes / 1e6:.1f} MB"
    yield "Clients", found.clients
    yield "Streams / consumers", f"{found.streams} / {found.consumers}"
    yield "Stored messages", found.messages
    yield "Stored bytes", f"{found.stored_bytes / 1e6:.1f} MB of {found.stored_max / 1e9:.1f} GB"
    for one in found.links[:100]:
        peer = f"{one.peer} {one.address}".strip()
        yield f"Link to {one.role} {peer}", f"up, account {one.account}, {one.rtt}" if one.up else f"cut: {one.error}"
    for problem in found.problems[:100]:
        yield "Needs attention", problem


def credentials(authorization: bytes) -> tuple[str, str]:
    """User and password of a header of HTTP Basic; empty where it is something else."""
    scheme, _, encoded = authorization.partition(b" ")
    if scheme.lower() != b"basic":
        return "", ""
    try:
        user, _, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return user, password


@cache
def _file(name: str) -> bytes:
    return (Path(__file__).parent / name).read_bytes()
