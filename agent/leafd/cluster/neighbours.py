"""The servers of other clusters that this one knows of, and by which of its own cluster it reaches those clusters.

    a gateway's other end tells which servers its cluster has      --+
    a server of this cluster tells what it knows by its gateways   --+--> known --> ways (native/meta/ways.h)

    told over gateways   "LRN1" {"servers": [[name, cluster], ...]}                        those of this cluster
    told over routes     "LRN1" {"servers": [[name, cluster], ...], "into": [cluster, ...]}    those of others

A server has one gateway that leads to one server of another cluster; of the others there it hears in this way alone.
What a server has told counts as long as there is a link with it, and what came by a route is told nobody, so nothing
that is gone lives on by hearsay. Of the servers in one letter, and of all that are known, there is a bounded number.

Pure. Not here: links (daemon/together.py), how letters travel (native/meta).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any, Final

from leafd.cluster.repetition import Repeated
from leafd.gojson import dump
from leafd.records import dataclass

MAGIC: Final = b"LRN1"
SERVERS_MAX: Final = 256
"""Servers of other clusters (WAYS_MAX of native/meta/ways.h); all of them fit a letter."""
NAME_MAX: Final = 255

Ways = tuple[tuple[int, int, int], ...]
"""Server, cluster, the server of this cluster that hands on; 0: none."""


@dataclass(frozen=True, slots=True)
class Links:
    """The servers at the other ends of this one's links, whose letters are believed."""

    mates: frozenset[str] = frozenset()
    """The servers of this cluster, at the other ends of routes."""
    out: dict[str, str] = field(default_factory=dict)
    """The servers at gateways that this one dialled, with their clusters."""
    into: dict[str, str] = field(default_factory=dict)
    """The servers that dialled a gateway of this one, with their clusters."""
    idle: frozenset[str] = frozenset()
    """The servers at the other ends of either that have no JetStream."""

    @property
    def gateways(self) -> dict[str, str]:
        """The servers of other clusters."""
        return self.into | self.out


@dataclass(frozen=True, slots=True)
class _Told:
    """The letter that one server has sent last."""

    servers: tuple[tuple[str, str], ...]
    into: frozenset[str]


class Neighbours:
    """The knowledge of one server. `hear` takes letters at any time; `tick` gives the letters to send."""

    def __init__(
        self,
        own: str,
        cluster: Callable[[], str],
        links: Callable[[], Links],
        send: Callable[[int, bytes], None],
        number: Callable[[str], int],
        spread: Callable[[Ways], None],
    ) -> None:
        """own, cluster: the names of this server and of its cluster. number: a name's number. spread: to the plane."""
        self._own, self._cluster, self._links, self._send = own, cluster, links, send
        self._number, self._spread = number, spread
        self._told: dict[str, _Told] = {}
        self._repeated: Repeated[str] = Repeated()
        self._ways: Ways = ()
        self.linked: dict[int, str] = {}
        """All servers to which there is a way, by number, with their names."""

    def idle(self) -> list[str]:
        """The servers at the other ends of this one's links that have no JetStream."""
        return sorted(self._links().idle)

    def hear(self, peer: int, letter: bytes) -> None:
        """A letter; the link says which server sent it."""
        links = self._links()
        name = next((one for one in (*links.mates, *links.gateways) if self._number(one) == peer), "")
        if not name:
            return
        try:
            self._told[name] = _told_in(json.loads(letter.removeprefix(MAGIC)))
        except (ValueError, TypeError, KeyError, RecursionError):
            return
        self._look(links)

    def tick(self, now_s: float) -> None:
        """The passing of time."""
        links = self._links()
        there = {*links.mates, *links.gateways}
        for gone in [one for one in self._told if one not in there]:
            del self._told[gone]
        self._repeated.keep(there)
        self._look(links)
        own = self._own_servers(links)
        others = self._other_servers(links)
        for name in there:
            letter = others if name in links.mates else own
            if self._repeated.is_due(name, letter, now_s):
                self._send(self._number(name), letter)

    def _own_servers(self, links: Links) -> bytes:
        return _letter(((one, self._cluster()) for one in links.mates), ())

    def _other_servers(self, links: Links) -> bytes:
        return _letter(self._by_gateways(links).items(), set(links.out.values()))

    def _by_gateways(self, links: Links) -> dict[str, str]:
        """The servers of other clusters that gateways lead to, or that those have told of."""
        found = dict(links.gateways)
        for name, cluster in links.gateways.items():
            told = self._told.get(name)
            for one, its in told.servers if told is not None else ():
                if its == cluster:
                    found.setdefault(one, its)
        return found

    def _look(self, links: Links) -> None:
        """Works out from the letters which servers are known, and by which way each is reached."""
        known = self._by_gateways(links)
        mates: dict[str, str] = {}
        for name in sorted(links.mates):
            told = self._told.get(name)
            if told is None:
                continue
            for cluster in told.into:
                mates.setdefault(cluster, name)
            for one, cluster in told.servers:
                known.setdefault(one, cluster)
        here = self._cluster()
        strangers = {
            name: cluster
            for name, cluster in known.items()
            if name != self._own and name not in links.mates and cluster != here
        }
        kept = dict(sorted(strangers.items(), key=lambda one: (one[0] not in links.gateways, one))[:SERVERS_MAX])
        reached = {*links.out.values(), *mates}
        self.linked = {self._number(name): name for name in links.mates}
        self.linked |= {self._number(name): name for name, cluster in kept.items() if cluster in reached}
        ways = tuple(
            (self._number(name), self._number(cluster), self._number(mates[cluster]) if cluster in mates else 0)
            for name, cluster in sorted(kept.items())
        )
        if ways != self._ways:
            self._ways = ways
            self._spread(ways)


def _letter(servers: Iterable[tuple[str, str]], into: Iterable[str]) -> bytes:
    about: dict[str, Any] = {"servers": [list(one) for one in sorted(servers)[:SERVERS_MAX]]}
    if into := sorted(into):
        about["into"] = into[:SERVERS_MAX]
    return MAGIC + dump(about)


def _told_in(found: dict[str, Any]) -> _Told:
    """Raises ValueError, TypeError, KeyError."""
    servers = tuple((_name(name), _name(cluster)) for name, cluster in found["servers"][:SERVERS_MAX])
    return _Told(servers, frozenset(_name(one) for one in found.get("into", ())[:SERVERS_MAX]))


def _name(text: Any) -> str:
    if not isinstance(text, str) or not 0 < len(text) <= NAME_MAX:
        raise ValueError("no name")
    return text
