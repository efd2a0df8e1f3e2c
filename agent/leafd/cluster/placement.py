"""The server that a new stream is made on: of those that fit the one with the fewest streams, then the one that was
asked, then the one with the most room; and those that keep it together with that one.

    placement.cluster, or else that of the server that was asked, then the others: the first that has enough servers
    what a server makes for itself (MQTT, what its configuration declares): that server, if it fits
    placement.tags: all of them, and none that is named with "!"          room for max_bytes
    unique_tag: a tag that begins so, and no two that keep a stream together with the same one
    limits.max_ha_assets: no more streams together with others than that

Pure. Not here: which servers there are (daemon/placing.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from leafd.cluster.table import Kept
from leafd.records import dataclass

NO_STREAMS: Final = "!jetstream"
"""A server with this tag gets no stream."""
OFFLINE: Final = ", peer offline"
NO_ROOM: Final = ", insufficient storage"
NOT_UNIQUE: Final = ", server tag not unique"
TOO_MANY: Final = ", miscellaneous issue"
"""The reason that nats-server gives for max_ha_assets."""


@dataclass(frozen=True, slots=True)
class Site:
    """A server, as it tells the others of itself. free, memory: bytes on disk, and in memory, that no stream has
    reserved. full: it refuses publishers, since its disk is full or cannot be written to. most: all that its streams
    may reserve on disk and in memory; None: a version before that tells only what is free. shared: the streams that it
    keeps with others, which the table says."""

    name: str
    cluster: str
    tags: tuple[str, ...] = ()
    free: int = 0
    memory: int = 0
    streams: int = 0
    shared: int = 0
    full: bool = False
    most: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """How the configuration has replicas spread. tag: each server has a tag that begins so, and each one another; "":
    any. most: streams that a server may keep with others; 0: any number."""

    tag: str = ""
    most: int = 0


def site_of(members: dict[str, Any]) -> Site:
    """A server as it described itself to the others. Raises ValueError."""
    try:
        tags = tuple(str(tag).lower() for tag in members["tags"])
        free, memory, streams = (int(members[name]) for name in ("free", "memory", "streams"))
        full, name, cluster = bool(members.get("full")), str(members["name"]), str(members["cluster"])
        most = members.get("most")
        if most is not None:
            files, in_memory = most
            most = int(files), int(in_memory)
        return Site(name, cluster, tags, free, memory, streams, full=full, most=most)
    except (KeyError, TypeError) as error:
        raise ValueError(f"no server: {error}") from None


def placed(site: Site, kept: Kept) -> Site:
    """A server with what the table says that it keeps: what was placed a moment ago is in no letter yet."""
    free, memory = site.free, site.memory
    if site.most is not None:
        free, memory = (max(most - taken, 0) for most, taken in zip(site.most, (kept.files, kept.memory), strict=True))
    return replace(site, free=free, memory=memory, streams=kept.alone + kept.shared, shared=kept.shared)


@dataclass(frozen=True, slots=True)
class Wish:
    """A stream's wish for its place. size: bytes that it reserves. lasting: on disk. replicas: servers that keep it."""

    cluster: str = ""
    tags: tuple[str, ...] = ()
    size: int = 0
    lasting: bool = True
    replicas: int = 1
    spread: Spread = Spread()

    @property
    def unique(self) -> str:
        """How the tags begin of which its servers have different ones; "": any. A stream that names such a tag itself
        is not held to it, as in nats-server."""
        begin = self.spread.tag
        return "" if any(tag.removeprefix("!").lower().startswith(begin) for tag in self.tags) else begin


def fits(site: Site, wish: Wish, cluster: str) -> bool:
    """Whether a server that keeps a stream is one of those where the stream asks to be."""
    return site.cluster == cluster and NO_STREAMS not in site.tags and not _missed(site, wish.tags)


def choose(
    wish: Wish,
    own: Site,
    others: Iterable[Site],
    *,
    stays: bool = False,
    away: Collection[Site | None] = (),
    but: Collection[str] = (),
) -> Site | str:
    """The server; or what is wrong with all of them, in nats-server's words, which may be nothing. stays: it is the own
    one, if that fits. away: servers that are not there, as far as it is known of what kind they are. but: none of
    these. One whose disk is full is taken only where there is no other one."""
    every = [one for one in (own, *others) if NO_STREAMS not in one.tags and one.name not in but]
    every = [one for one in every if not wish.cluster or one.cluster == wish.cluster]
    missed = {one.name: _missed(one, wish.tags) for one in every}
    tagged = [one for one in every if not missed[one.name]]
    fitting = [one for one in tagged if not lacks(one, wish)]
    if not fitting:
        return _listed(missed.values()) if every and not tagged else _why(tagged, wish)
    if stays and own in fitting:
        return own
    near = [[one for one in fitting if one.cluster == cluster] for cluster in _clusters(fitting, own.cluster)]
    best = [
        min(sites, key=lambda one: (one.full, one.streams, one is not own, -_room(one, wish), one.name))
        for sites in near
    ]
    return next((one for one in best if _has_enough(one, wish, every, away)), best[0])


def _clusters(sites: Iterable[Site], first: str) -> Sequence[str]:
    return sorted({one.cluster for one in sites}, key=lambda cluster: (cluster != first, cluster))


def _has_enough(first: Site, wish: Wish, sites: Sequence[Site], away: Collection[Site | None]) -> bool:
    """Whether the first one's cluster has as many servers for the stream as it asks for. Those that are away count: a
    stream does not leave its cluster because one of them starts."""
    found = choose_more(wish, first, sites, wish.replicas)
    near = sum(one.cluster == first.cluster for one in sites)
    absent = sum(one is None or might(wish, first.cluster, one) for one in away)
    return not isinstance(found, str) or (found == OFFLINE and near + absent >= wish.replicas)


def choose_more(
    wish: Wish, first: Site, others: Iterable[Site], count: int, *, beside: Iterable[Site] = (), all_there: bool = False
) -> list[Site] | str:
    """So many servers, the first of which is chosen already: of its cluster alone, those with the fewest streams first.
    Or what is wrong, in nats-server's words. beside: those that keep the stream already. all_there: no server is away
    that might do."""
    near = [one for one in others if one.cluster == first.cluster and one.name != first.name]
    tagged = [one for one in near if NO_STREAMS not in one.tags and not _missed(one, wish.tags)]
    if len(near) < count - 1 and all_there:
        return ""
    owned = {unique_tag(one, wish.unique) for one in (first, *beside)} - {""}
    fitting = [first]
    for one in sorted(tagged, key=lambda one: (one.streams, -_room(one, wish), one.name)):
        if len(fitting) < count and not lacks(one, wish, owned):
            fitting.append(one)
            owned.add(unique_tag(one, wish.unique))
    if len(fitting) < count:
        missed = {_missed(one, wish.tags) for one in near if NO_STREAMS not in one.tags} - {""}
        return OFFLINE if len(near) < count - 1 else _why(tagged, wish, owned) + _listed(missed) or NO_ROOM
    return fitting


def lacks(site: Site, wish: Wish, owned: Collection[str] = ()) -> str:
    """Why a server with the stream's tags cannot keep it, in nats-server's words; "": it can. owned: the unique tags of
    those that keep it already."""
    if _room(site, wish) < wish.size:
        return NO_ROOM
    if wish.replicas > 1 and 0 < wish.spread.most <= site.shared:
        return TOO_MANY
    tag = unique_tag(site, wish.unique)
    return NOT_UNIQUE if wish.unique and (not tag or tag in owned) else ""


def unique_tag(site: Site, begin: str) -> str:
    """The server's first tag that begins so; "": it has none."""
    return next((tag for tag in site.tags if tag.startswith(begin)), "") if begin else ""


def _listed(tags: Iterable[str]) -> str:
    """The tags that servers have not, and those that they are not to have."""
    found = sorted(set(tags))
    missing = ", ".join(repr(tag) for tag in found if not tag.startswith("!"))
    excluded = ", ".join(repr(tag.removeprefix("!")) for tag in found if tag.startswith("!"))
    return (f", tags not matched [{missing}]" if missing else "") + (
        f", tags excluded [{excluded}]" if excluded else ""
    )


def _why(sites: Iterable[Site], wish: Wish, owned: Collection[str] = ()) -> str:
    """All that is wrong with these servers."""
    found = {lacks(one, wish, owned) for one in sites}
    return "".join(one for one in (NO_ROOM, NOT_UNIQUE, TOO_MANY) if one in found)


def might(wish: Wish, cluster: str, site: Site) -> bool:
    """Whether a server that is away, as it told of itself, could be one of that cluster's for the stream."""
    fits = site.cluster == cluster and NO_STREAMS not in site.tags and not _missed(site, wish.tags)
    return fits and not (wish.unique and not unique_tag(site, wish.unique))


def _room(site: Site, wish: Wish) -> int:
    return site.free if wish.lasting else site.memory


def _missed(site: Site, wanted: tuple[str, ...]) -> str:
    """The first tag that the server has not, or is not to have; "": none."""
    for tag in wanted:
        name = tag.lower()
        if (name[1:] in site.tags) if name.startswith("!") else (name not in site.tags):
            return tag
    return ""
