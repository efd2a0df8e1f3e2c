"""The server that a new stream with one replica is made on: the one that was asked, if it fits, or else the one with
the most room.

    placement.cluster, or else the cluster of who was asked, then the others
    placement.tags: all of them, and none that is named with "!"          room for max_bytes

Pure. Not here: which servers there are (daemon/placing.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from leafd.records import dataclass

NO_STREAMS: Final = "!jetstream"
"""A server with this tag gets no stream."""


@dataclass(frozen=True, slots=True)
class Site:
    """A server, as it tells the others of itself. free, memory: bytes on disk, and in memory, that no stream has
    reserved."""

    name: str
    cluster: str
    tags: tuple[str, ...] = ()
    free: int = 0
    memory: int = 0
    streams: int = 0


def site_of(members: dict[str, Any]) -> Site:
    """A server as it described itself to the others. Raises ValueError."""
    try:
        tags = tuple(str(tag).lower() for tag in members["tags"])
        free, memory, streams = (int(members[name]) for name in ("free", "memory", "streams"))
        return Site(str(members["name"]), str(members["cluster"]), tags, free, memory, streams)
    except (KeyError, TypeError) as error:
        raise ValueError(f"no server: {error}") from None


@dataclass(frozen=True, slots=True)
class Wish:
    """A stream's wish for its place. size: bytes that it reserves. lasting: on disk."""

    cluster: str = ""
    tags: tuple[str, ...] = ()
    size: int = 0
    lasting: bool = True


def choose(wish: Wish, own: Site, others: Iterable[Site]) -> Site | str:
    """The server; or what is wrong with all of them, in nats-server's words, which may be nothing."""
    every = [one for one in (own, *others) if NO_STREAMS not in one.tags]
    every = [one for one in every if not wish.cluster or one.cluster == wish.cluster]
    missed = {one.name: _missed(one, wish.tags) for one in every}
    tagged = [one for one in every if not missed[one.name]]
    fitting = [one for one in tagged if _room(one, wish) >= wish.size]
    if not fitting:
        if every and not tagged:
            return f", tags not matched [{' '.join(sorted({repr(tag) for tag in missed.values()}))}]"
        return ", insufficient storage" if tagged else ""
    if own in fitting:
        return own
    near = [one for one in fitting if one.cluster == own.cluster] or fitting
    return min(near, key=lambda one: (-_room(one, wish), one.streams, one.name))


def choose_more(
    wish: Wish, first: Site, others: Iterable[Site], count: int, *, all_there: bool = False
) -> list[Site] | str:
    """So many servers, the first of which is chosen already: of its cluster alone, those with the fewest streams first.
    Or what is wrong, in nats-server's words. all_there: no server is away that might do."""
    near = [one for one in others if one.cluster == first.cluster and one.name != first.name]
    fitting = [one for one in near if NO_STREAMS not in one.tags and not _missed(one, wish.tags)]
    fitting = [one for one in fitting if _room(one, wish) >= wish.size]
    if len(near) < count - 1 and all_there:
        return ""
    if len(fitting) < count - 1:
        return ", peer offline" if len(near) < count - 1 else ", insufficient storage"
    return [first, *sorted(fitting, key=lambda one: (one.streams, -_room(one, wish), one.name))[: count - 1]]


def might(wish: Wish, cluster: str, site: Site) -> bool:
    """Whether a server that is away, as it told of itself, could be one of that cluster's for the stream."""
    return site.cluster == cluster and NO_STREAMS not in site.tags and not _missed(site, wish.tags)


def _room(site: Site, wish: Wish) -> int:
    return site.free if wish.lasting else site.memory


def _missed(site: Site, wanted: tuple[str, ...]) -> str:
    """The first tag that the server has not, or is not to have; "": none."""
    for tag in wanted:
        name = tag.lower()
        if (name[1:] in site.tags) if name.startswith("!") else (name not in site.tags):
            return tag
    return ""
