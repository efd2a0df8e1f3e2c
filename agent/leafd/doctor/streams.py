"""The effects of the two sides' streams on each other, and their distance from their limits. Pure.

Not here: mirrors and sources by themselves (copies.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from leafd.config.schema.sharing import collide, is_subset
from leafd.doctor.ask import held_back
from leafd.doctor.findings import Check, Finding, fault, warning
from leafd.doctor.hub import Hub
from leafd.doctor.rows import Stream

NEARLY: Final = 0.9
"""From which share of a limit on somebody should know."""


def twice(hub: Hub, here: Sequence[Stream], there: Sequence[Stream], own: str) -> Iterator[Finding]:
    """Streams on both sides that capture the same subjects: the link carries each message to the other one, too."""
    for one in here:
        for other in there:
            common = [
                subject
                for subject in one.subjects
                if not subject.startswith("$")
                and _crosses(hub, subject)
                and any(collide(subject, second) for second in other.subjects)
            ]
            if common:
                yield _told(hub, one, other, common, own)


def _crosses(hub: Hub, subject: str) -> bool:
    denied = (*hub.remote.deny_exports, *hub.remote.deny_imports)
    return not any(is_subset(subject, one) for one in denied) and not held_back(hub, up=(subject,))


def _told(hub: Hub, one: Stream, other: Stream, common: list[str], own: str) -> Finding:
    subjects = ", ".join(common[:4])
    up = any((pull.domain, pull.origin) == (own, one.name) for pull in other.pulls())
    down = any((pull.domain, pull.origin) == (hub.domain, other.name) for pull in one.pulls())
    about = f"{one.name} and {other.name}"
    if up:
        return fault(
            Check.DOUBLE_COPY,
            about,
            f"{subjects}: the hub's {other.name} captures it and also takes it from {one.name}: each message twice",
            operator=f"take {subjects} out of the subjects of {other.name}: the source alone collects it once",
        )
    if down:
        return fault(
            Check.DOUBLE_COPY,
            about,
            f"{subjects}: {one.name} captures it and also takes it from the hub's {other.name}: each message twice",
            owner=f"take {subjects} out of the subjects of {one.name}: the source alone brings it once",
        )
    return warning(
        Check.DOUBLE_COPY,
        about,
        f"{subjects} is captured on both sides of the link: each message is stored twice, and acknowledged by either",
        owner=f"keep it here alone by deny_exports: {common[0]} in the remote, if the hub shall take it by a source",
        operator=f"or take it out of the subjects of {other.name}",
    )


def limits(streams: Sequence[Stream], *, here: bool) -> Iterator[Finding]:
    """Streams that refuse publishers when they are full, and soon are, or are."""
    for one in streams:
        if one.config.get("discard") != "new" or not one.subjects:
            continue
        for limit, held in (("max_msgs", "messages"), ("max_bytes", "bytes")):
            top, count = one.limit(limit), one.count(held)
            if not top or count < NEARLY * top:
                continue
            full = count >= top
            make = fault if full else warning
            text = f"{count:,} {held} of {top:,} ({limit}), and discard is new: when it is full, publishers are refused"
            remedy = f"raise {limit}, delete what is no longer needed, or set discard: old"
            yield make(Check.LIMITS, one.about, text, owner=remedy if here else "", operator="" if here else remedy)
