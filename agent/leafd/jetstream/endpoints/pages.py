"""Pages of listings: how many a page has, and how much memory.

A page ends at the endpoint's number of items, or sooner where these are large: configurations have up to 128 KB of
metadata each. It has one at least. Clients ask for the next page behind the items they got, or behind `limit`; so a
page that ends sooner says its own number as the limit. Not here: what is shown of an item.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from leafd.holding import SMALL, Holding
from leafd.jetstream.catalogue import Stream

ITEM: Final = 1 << 10
"""Bytes of an item beside its texts, about."""
COPIES: Final = 4
"""A page is there as values, as text, as bytes, and once more on its way to the plane."""

_Item = TypeVar("_Item")


def page_of(found: list[_Item], offset: int, limit: int) -> tuple[list[_Item], dict[str, Any]]:
    """The items of the page that begins at that offset, and the members of an answer about the page."""
    begin = min(max(offset, 0), len(found))
    return found[begin : begin + limit], {"total": len(found), "offset": begin, "limit": limit}


def cut(page: list[_Item], place: dict[str, Any], size: Callable[[_Item], int], holding: Holding) -> int:
    """Shortens the page to what the share has room for; returns what its answer takes of it, in bytes."""
    most = max(holding.limit // COPIES, SMALL) if holding.limit else 0
    total = 0
    for count, item in enumerate(page):
        more = ITEM + size(item)
        if most and count and total + more > most:
            del page[count:]
            place["limit"] = count
            break
        total += more
    return COPIES * total


def texts_size(texts: tuple[str, ...], metadata: Mapping[str, str] | None) -> int:
    """How long they are."""
    return sum(map(len, texts)) + sum(len(key) + len(value) for key, value in (metadata or {}).items())


def stream_size(stream: Stream) -> int:
    """How long the texts of its configuration are."""
    config = stream.config
    sources = (*config.sources, config.mirror) if config.mirror else config.sources
    renamed = (one for source in sources for one in source.subject_transforms)
    texts = (config.description, *config.subjects, *(source.filter_subject for source in sources))
    return texts_size((*texts, *(end for one in renamed for end in (one.source, one.destination))), config.metadata)
