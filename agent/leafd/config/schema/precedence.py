"""What goes first over a leaf link that carries little, and how fast it may be sent anything: the priority and limits
of a remote, and of links that leaves dial. The plane acts on it (native/plane/lanes.h)."""

from __future__ import annotations

from typing import Final

from leafd.config.schema.base import StorageSize, Strings
from leafd.config.schema.section import Section, Takes, option

RULES_MAX: Final = 256


class LeafPriority(Section):
    """What goes first where a link carries less than it is given. Who is not named goes by how much waits for him."""

    high: Strings = option((), "The subjects whose messages go before those of others.", takes=Takes.LIVE)
    low: Strings = option((), "The subjects whose messages go last, with what catches up.", takes=Takes.LIVE)
    high_streams: Strings = option(
        (), "The streams of this side whose consumers at the other side go before others.", takes=Takes.LIVE
    )
    normal_streams: Strings = option(
        (), "The streams whose consumers never go last, however much is left for them.", takes=Takes.LIVE
    )
    low_streams: Strings = option((), "The streams whose consumers go last.", takes=Takes.LIVE)

    def check(self) -> None:
        if len(self.rules) > 3 * RULES_MAX:
            raise ValueError(f"more than {RULES_MAX} subjects and streams are named")

    @property
    def rules(self) -> tuple[str, ...]:
        """As the plane takes them; the first one counts."""
        found: list[str] = []
        for rank, kind, names in (
            ("high", "subject", self.high),
            ("low", "subject", self.low),
            ("high", "stream", self.high_streams),
            ("normal", "stream", self.normal_streams),
            ("low", "stream", self.low_streams),
        ):
            for name in names:
                found += (rank, kind, name)
        return tuple(found)


class LeafLimits(Section):
    """How much this side sends over a link at most. What is over waits."""

    bytes_per_second: StorageSize = option(
        0, "How many bytes a second, with what TCP and IP add? 0: no limit.", takes=Takes.LIVE, ge=0, example='"2KB"'
    )


def sending(priority: LeafPriority | None, limits: LeafLimits | None) -> tuple[tuple[str, ...], int]:
    """What the plane is told of a link: the rules, and bytes a second; () and 0 where the blocks are absent."""
    return priority.rules if priority else (), limits.bytes_per_second if limits else 0
