"""What a stream of a configuration publishes by itself, as subjects to judge."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from leafd import native_types as t
from leafd.daemon.neighbours import slots_of
from leafd.gojson import decode
from leafd.jetstream.catalogue import JetStreamAccount, Stream
from leafd.jetstream.models.stream import StreamConfig
from leafd.jetstream.publishing import publishes
from leafd.links.replica import Replica
from leafd.links.steps import Ask
from leafd.logins.askers import denied

SOURCES: list[dict[str, Any]] = [
    {},
    {"filter_subject": "a.*"},
    {"subject_transforms": [{"src": "a.>", "dest": "b.>"}]},
    {"subject_transforms": [{"src": "a.>", "dest": "b.>"}, {"src": "c", "dest": ""}]},
    {"consumer": {"name": "D", "deliver_subject": "d"}},
]


def config_of(**members: Any) -> StreamConfig:
    return decode(StreamConfig, json.dumps({"name": "S"} | members).encode())


@pytest.mark.parametrize("more", SOURCES)
def test_what_is_judged_is_where_the_origin_is_asked(more: dict[str, Any]) -> None:
    """Whatever consumer the origin is asked for."""
    config = config_of(sources=[{"name": "O", "external": {"api": "far.API", "deliver": "d"}} | more])
    slot = next(slots_of(Stream(1, JetStreamAccount(1, "A"), config, 0), ""))
    asked = [order.subject for order in Replica(slot, 0, "").poll(0.0) if isinstance(order, Ask)]

    (judged,) = publishes(config)

    assert len(asked) == 1
    words, pattern = asked[0].split("."), judged.split(".")
    assert len(words) == len(pattern)
    assert all(wanted in ("*", word) for word, wanted in zip(words, pattern, strict=True))


DESTINATIONS = {
    "a.b": "a.b",
    "a.>": "a.>",
    "a.$1": "a.*",
    "a.$12.b": "a.*.b",
    "a.$x": "a.$x",
    "$JS.a": "$JS.a",
    "a.{{wildcard(1)}}.{{ Partition(3,1) }}": "a.*.*",
    "a.{{right(1,2)}}.{{Left(1,2)}}.{{random(2)}}": "a.*.*.*",
    "{{split(1,-)}}.a": ">",
    "a.{{SplitFromLeft(1,2)}}": "a.>",
    "a.{{SliceFromRight(1,2)}}.b": "a.>",
}


@pytest.mark.parametrize("destination", DESTINATIONS)
def test_a_destination_stands_for_all_that_it_may_become(destination: str) -> None:
    """A function that may make several tokens of one may make anything behind it."""
    assert (DESTINATIONS[destination],) == publishes(config_of(republish={"src": ">", "dest": destination}))


JUDGED = {
    "all may": (t.Permissions(), ()),
    "within what is allowed": (t.Permissions(publish_allow=("x.>", "a.*")), ("b.c",)),
    "wider than what is allowed": (t.Permissions(publish_allow=("a.x", "b.c")), ("a.*",)),
    "partly denied": (t.Permissions(publish_deny=("a.x", "b.>")), ("a.*", "b.c")),
    "nothing": (t.Permissions(publish_deny=(">",)), ("a.*", "b.c")),
}


@pytest.mark.parametrize("name", JUDGED)
def test_a_subject_with_wildcards_is_allowed_as_a_whole(name: str) -> None:
    """It lies within an allowed one, and meets no denied one."""
    lists, expected = JUDGED[name]

    async def judge(lists: t.Permissions, link: bool) -> tuple[str, ...]:
        return await denied(lists, ("a.*", "b.c"), link=link)

    mirrored = t.Permissions(subscribe_allow=lists.publish_allow, mapped_deny=lists.publish_deny)
    assert expected == trio.run(judge, lists, False)
    assert expected == trio.run(judge, mirrored, True)
