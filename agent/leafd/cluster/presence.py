"""The servers that are there, and what each has told of itself: its room, its tags, its cluster.

    site    {"news": "site", "run", name, cluster, tags, ...}   to all, when it changes
    away    {"news": "away", "peers": [...]}                    of the leader, which hears its members in any case

A server that stands still keeps its links for a while. The group's leader notices it within AWAY_S, as it misses the
answers of Raft, and tells the others; nobody else has to ask. While nobody leads, servers tell of themselves each
second instead, and one that has told nothing for AWAY_S is not there. `run` is another one after a start: a server that
started has heard nothing, and is told at once.

Pure. Not here: how news travel (letters.py), which server gets a stream (placement.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Protocol

from leafd.cluster.placement import Site, site_of
from leafd.cluster.repetition import REPEAT_S, Repeated
from leafd.gojson import dump
from leafd.records import dataclass

AWAY_S: Final = 5.0
"""A server that has said nothing for so long is not there: three answers of Raft are missing by then on any link that
carries a group."""
AWAY_TRIPS: Final = 8
"""Or for as many round trips, where its answers to the leader take long: a loss or two cost as much."""
AWAY_MAX_S: Final = 30.0
LEADERLESS_S: Final = 1.0
SECOND: Final = 1_000_000_000
TOLD: Final = ("name", "cluster", "tags", "free", "memory", "streams", "full", "most")


class MemberHeard(Protocol):
    """A member of the group, as its leader sees it."""

    @property
    def peer(self) -> int: ...
    @property
    def heard_ns(self) -> int:
        """So long ago; negative: not since it leads."""

    @property
    def trip_ns(self) -> int:
        """How long its answers take; 0: not known."""


@dataclass(slots=True)
class _Known:
    """The news of one server."""

    site: Site
    run: int
    heard_s: float


class Presence:
    """One server's view. `hear` takes news at any time; `tick` says what is to be said."""

    def __init__(self, own: int, run: int) -> None:
        self._own, self._run = own, run
        self._known: dict[int, _Known] = {}
        self._left: dict[int, Site] = {}
        """Members that are not linked, as they told of themselves last."""
        self._leader = 0
        self._since_s = 0.0
        """The time since when that server leads, or nobody does."""
        self._away: frozenset[int] = frozenset()
        self._missed: dict[int, float] = {}
        """The members that are not there, and since when they were not."""
        self._sites: Repeated[int] = Repeated()
        self._aways: Repeated[int] = Repeated()

    def hear(self, peer: int, news: Mapping[str, Any], now_s: float) -> None:
        """News of another server. Raises ValueError, KeyError, TypeError."""
        if news["news"] == "away":
            if peer == self._leader:
                self._away = frozenset(int(one) for one in news["peers"])
            return
        known = self._known.get(peer)
        run = int(news["run"])
        if known is None or known.run != run:
            self._sites.forget(peer)
            self._aways.forget(peer)
        self._known[peer] = _Known(site_of(dict(news)), run, now_s)
        self._left.pop(peer, None)

    def tick(
        self, now_s: float, site: Site, linked: Collection[int], leader: int, members: Iterable[MemberHeard]
    ) -> list[tuple[int, bytes]]:
        """The passing of time: what is to be said, and to whom. members: of the group; its leader knows when they were
        heard."""
        if leader != self._leader:
            self._leader, self._since_s, self._away = leader, now_s, frozenset()
        members = tuple(members)
        if leader == self._own:
            self._away = frozenset(one.peer for one in members if one.peer != self._own and self._is_away(one, now_s))
        for known in [one for one in self._known if one not in linked]:
            self._left[known] = self._known.pop(known).site
        peers = {one.peer for one in members}
        self._left = {peer: site for peer, site in self._left.items() if peer in peers}
        self._miss(members, now_s)
        self._sites.keep(linked)
        self._aways.keep(linked if leader == self._own else ())
        news = dump({"news": "site", "run": self._run, **{name: getattr(site, name) for name in TOLD}})
        most_s = REPEAT_S if leader else LEADERLESS_S
        said = [(peer, news) for peer in linked if self._sites.is_due(peer, news, now_s, most_s)]
        if leader == self._own:
            away = dump({"news": "away", "peers": sorted(self._away)})
            said += [(peer, away) for peer in linked if self._aways.is_due(peer, away, now_s)]
        return said

    def _miss(self, members: Iterable[MemberHeard], now_s: float) -> None:
        missed: dict[int, float] = {}
        for one in members:
            if one.peer != self._own and not self.is_there(one.peer, now_s):
                silent_s = max(one.heard_ns, 0) / SECOND if self._leader == self._own else 0.0
                missed[one.peer] = self._missed.get(one.peer, now_s - silent_s)
        self._missed = missed

    def missed_s(self, peer: int, now_s: float) -> float | None:
        """How long this server has missed a member of the group, since its own start at most; None: it is there."""
        since_s = self._missed.get(peer)
        return None if since_s is None else max(now_s - since_s, 0.0)

    def _is_away(self, member: MemberHeard, now_s: float) -> bool:
        silent_s = member.heard_ns / SECOND if member.heard_ns >= 0 else now_s - self._since_s
        return silent_s > min(max(AWAY_S, AWAY_TRIPS * member.trip_ns / SECOND), AWAY_MAX_S)

    @property
    def known(self) -> list[int]:
        """The servers that have told of themselves."""
        return list(self._known)

    def is_there(self, peer: int, now_s: float) -> bool:
        """Whether another server is there, if there is a link to it."""
        known = self._known.get(peer)
        if known is None or peer in self._away:
            return False
        return self._leader != 0 or now_s - max(known.heard_s, self._since_s) < AWAY_S

    def is_new(self, peer: int) -> bool:
        """Whether a server to which there is a link has yet to tell of itself: it can be asked all the same."""
        return peer not in self._known and peer not in self._away

    def last_site(self, peer: int) -> Site | None:
        """A member, as it told of itself last; None: it has told nothing since this server began."""
        known = self._known.get(peer)
        return known.site if known is not None else self._left.get(peer)

    def site(self, peer: int) -> Site:
        """One of the known servers, as it told of itself."""
        return self._known[peer].site
