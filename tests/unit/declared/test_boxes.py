"""Streams that collect from boxes: how `boxes` of a source is read, and what becomes of it with the boxes of today."""

from __future__ import annotations

from typing import Any

import pytest
from leafd.accounts.graph import Numbers, compile_graph
from leafd.config.bind import load_text
from leafd.declared.assets import Declared
from leafd.declared.boxes import collects, expanded
from leafd.declared.read import read
from leafd.enrol.names import matches
from leafd.errors import ConfigError

BOXES = ("box-1", "box-2", "other")


def declared(sources: str, more: str = "", enrol: str = "enrol { account: A }") -> Declared:
    text = f"""jetstream: enabled
leafnodes {{ port: 7422 }}
accounts {{ A {{ jetstream: enabled, streams {{ ALL {{ {more} sources: {sources} }}, PLAIN {{ }} }} }} }}
{enrol}"""
    loaded = load_text(text, "hub.conf")
    return read(loaded, compile_graph(loaded.server, Numbers()))


def now(sources: str, *boxes: str, more: str = "", **how: Any) -> dict[str, list[tuple[str, str, str]]]:
    """Each stream's sources: name, API and filter; with these boxes enrolled."""
    found = expanded(
        declared(sources, more), lambda pattern: tuple(one for one in boxes if matches(pattern, one)), **how
    )
    return {
        one.name: [
            (each.name, each.external.api if each.external else "", each.filter_subject) for each in one.config.sources
        ]
        for one in found.streams
        if one.config is not None
    }


def test_each_box_of_the_pattern_is_a_source_and_others_stay() -> None:
    found = now('[ { name: LOCAL }, { boxes: "box-*", name: T, filter_subject: "t.>" } ]', *BOXES)
    assert found["ALL"] == [("LOCAL", "", ""), ("T", "$JS.box-1.API", "t.>"), ("T", "$JS.box-2.API", "t.>")]
    assert found["PLAIN"] == []


def test_a_box_that_two_patterns_name_is_a_source_once_unless_they_take_something_else() -> None:
    assert [("T", "$JS.box-1.API", "")] == now('[ { boxes: "box-*", name: T }, { boxes: "*-1", name: T } ]', "box-1")[
        "ALL"
    ]
    two = now('[ { boxes: "*", name: T }, { boxes: "*", name: U } ]', "box-1")["ALL"]
    assert [("T", "$JS.box-1.API", ""), ("U", "$JS.box-1.API", "")] == two


def test_without_a_box_a_stream_is_left_alone_that_would_take_up_a_subject_of_its_own_name() -> None:
    assert "ALL" not in now('[ { boxes: "*", name: T } ]')
    assert now('[ { boxes: "*", name: T } ]', more="subjects: [here],")["ALL"] == []
    assert now('[ { boxes: "*", name: T }, { name: L } ]')["ALL"] == [("L", "", "")]


def test_when_boxes_come_only_streams_that_collect_are_looked_at() -> None:
    assert set(now('[ { boxes: "*", name: T } ]', *BOXES, only_these=True)) == {"ALL"}
    assert collects(declared('[ { boxes: "*", name: T } ]'))
    assert not collects(declared("[ { name: L } ]"))


@pytest.mark.parametrize(
    ("sources", "enrol", "why"),
    [
        ('[ { boxes: "box.*", name: T } ]', "enrol { account: A }", "a pattern of names is expected"),
        ("[ { boxes: 5, name: T } ]", "enrol { account: A }", "a pattern of names is expected"),
        ('[ { boxes: "*" } ]', "enrol { account: A }", "it takes the name of the boxes' stream"),
        ('[ { boxes: "*", name: T, external { api: x } } ]', "enrol { account: A }", "and no external"),
        ('[ { boxes: "*", name: T, nmae: x } ]', "enrol { account: A }", "unknown field"),
        ('[ { boxes: "*", name: T } ]', "", "no boxes are enrolled in this account"),
    ],
)
def test_what_is_wrong_with_it_is_said_with_its_place(sources: str, enrol: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as error:
        declared(sources, enrol=enrol)
    assert str(error.value).startswith("hub.conf:3:")
