"""The servers at which one hub is dialled: those that the configuration names, and those that the hub tells of.

    configuration, urls                       always; shuffled, unless they are to be tried in their order
    INFO of a link that is up:
      leafnode_urls, of a link over WebSocket   what the last INFO said, without what is known under another name
      ws_connect_urls

    the link fell silent                      the same server first: the way is missing more often than the server
    the server ended it, or does not answer   the next one; every second time one that the configuration names

A hub may lie, or know its servers by addresses that mean nothing here, as behind a router that changes them. What it
tells costs every second attempt, and no more: it is judged, bounded, and never takes the place of what is configured.
Pure. Not here: how a server is dialled (dialling.py, reach.py), how long is waited (redial.py).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from leafd.links.addresses import host_port, is_loopback, judged_place, place_of, split_url

LEARNED_MAX: Final = 64
"""Servers that are kept of those that a hub tells of."""


class HubServers:
    """The servers of one hub."""

    def __init__(
        self,
        urls: tuple[str, ...],
        *,
        in_order: bool = False,
        discovers: bool = True,
        shuffle: Callable[[list[str]], None] = random.shuffle,
    ) -> None:
        """discovers: whether what the hub tells counts."""
        self._in_order, self._discovers, self._shuffle = in_order, discovers, shuffle
        self._configured = self._mixed(urls)
        self._web = any(urlsplit(url).scheme in ("ws", "wss") for url in urls)
        self._login = next((login for login in map(_login_of, urls) if login), "")
        self._learned: list[str] = []
        self._next_configured = self._next_learned = 0
        self._turn_of_learned = False
        self._last = ""
        """The server that was dialled."""
        self._again = False
        self._left = ""
        """The server that has ended the link."""
        self.linked_to = ""
        """The place of the last link, without a login."""

    def _mixed(self, urls: tuple[str, ...]) -> list[str]:
        mixed = list(urls)
        if not self._in_order:
            self._shuffle(mixed)
        return mixed

    @property
    def learned(self) -> tuple[str, ...]:
        """The servers that the hub tells of and the configuration does not name; without a login."""
        return tuple(place_of(url) for url in self._learned)

    @property
    def others(self) -> tuple[str, ...]:
        """The servers at which the hub is dialled when the server of the last link goes, without a login."""
        places = dict.fromkeys((*map(place_of, self._configured), *self.learned))
        return tuple(place for place in places if place != self.linked_to)

    def is_learned(self, url: str) -> bool:
        """Is it one of those?"""
        return url in self._learned

    @property
    def alone(self) -> bool:
        """Is there only one?"""
        return self.count == 1

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._configured) + len(self._learned)

    def together(self, url: str, most: int) -> list[str]:
        """The servers that are dialled at once: that one and those that follow, so many at most."""
        return list(dict.fromkeys([url, *(self._following() for _ in range(2 * most))]))[:most]

    def next(self) -> str:
        """Whom to dial now."""
        if self._again and self._last in (*self._configured, *self._learned):
            self._again = False
            return self._last
        url = self._following()
        if url == self._left and not self.alone:
            url = self._following()
        self._left = ""
        self._last = url
        return url

    def _following(self) -> str:
        if self._learned and self._turn_of_learned:
            url = self._learned[self._next_learned % len(self._learned)]
            self._next_learned += 1
        else:
            url = self._configured[self._next_configured % len(self._configured)]
            self._next_configured += 1
        self._turn_of_learned = not self._turn_of_learned
        return url

    def linked(self, url: str) -> None:
        """There is a link to that one."""
        self._last = url
        self.linked_to = place_of(url)

    def again(self) -> None:
        """Tries the same server again: only the way to it seems to be missing."""
        self._again = True

    def ended(self, *, silent: bool) -> None:
        """The link to that one has. Another one is tried first, if there is one, unless nothing was heard of it."""
        if silent:
            self.again()
            return
        self._left = self._last
        self._turn_of_learned = False
        if self._in_order:
            self._next_configured = 0

    def told(self, url: str, info: Mapping[str, Any], *, tls: bool) -> None:
        """Learns servers from the INFO of the server that is linked at that address. tls: the link has TLS, and so has
        each other one."""
        listed, web = info.get("leafnode_urls") or (), info.get("ws_connect_urls") or ()
        if not self._discovers or not (listed or web):
            return
        scheme = ("wss" if tls else "ws") if self._web else ("tls" if tls else "nats-leaf")
        found = [f"{scheme}://{self._login}{place}" for place in self._others(url, web if self._web else listed, info)]
        if set(found) != set(self._learned):
            self._learned, self._next_learned = self._mixed(tuple(found)), 0

    def _others(self, url: str, listed: Iterable[str], info: Mapping[str, Any]) -> list[str]:
        """The places of a list that may be dialled and are not known yet."""
        host, here = split_url(url)[0], place_of(url)
        known = set(map(place_of, self._configured))
        own = judged_place(host_port(str(info.get("host") or ""), int(info.get("port") or 0)))
        if own is not None and own != here:
            known.add(own)  # the server that is linked, under another name than the one that leads to it
        found: dict[str, None] = {}
        for place in map(judged_place, listed):
            if place is None or place in known or (is_loopback(split_url(place)[0]) and not is_loopback(host)):
                continue
            found[place] = None
            if len(found) == LEARNED_MAX:
                break
        return list(found)


def listed(info: Mapping[str, Any]) -> frozenset[str]:
    """All addresses that an INFO lists, as they are written there."""
    return frozenset(map(str, (*(info.get("leafnode_urls") or ()), *(info.get("ws_connect_urls") or ()))))


def _login_of(url: str) -> str:
    """As it stands in the address, with the @ behind it; servers of one hub have the same logins."""
    login, at, _ = urlsplit(url if "://" in url else f"nats-leaf://{url}").netloc.rpartition("@")
    return login + at
