"""What `leafd status`, the doctor and the status page make of the group of all servers, and of streams of several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from leafd.group_status import kept_by, part_of
from leafd.status import Status, status


def member(name: str, away: float | None = None, **more: Any) -> dict[str, Any]:
    row = {"name": name, "cluster": "C", "voter": True, "away": away, "streams": 3, "shared": 2}
    return row | more


def told(rows: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    found = {"part": "member", "expected": 3, "missing": 0, "unread": 0, "leader": "s0", "needed": 2, "waits": ""}
    return {"server_name": "s0", "leafd": {"group": found | {"servers": rows} | more}}


def seen(varz: dict[str, Any], streams: list[dict[str, Any]] | None = None) -> Status:
    return status(varz, {}, {"account_details": [{"name": "A", "stream_detail": streams or []}]})


ALL = [member("s0"), member("s1"), member("s2")]


@pytest.mark.parametrize(
    ("varz", "problems"),
    [
        (told(ALL), []),
        (told([member("s0"), member("s1"), member("s2", 4.0)]), []),
        (
            told([member("s0"), member("s1"), member("s2", 61.0)]),
            ["server s2 of the group is away for 61 s, and its 3"],
        ),
        (
            told([member("s0"), member("s1", 60.0), member("s2", 60.0)], leader=""),
            ["the group of servers has no leader, and no stream can be made, changed or deleted: 1 are there, 2 are"],
        ),
        (
            told(ALL, leader=""),
            ["the group of servers has no leader, and no stream can be made, changed or deleted: 3"],
        ),
        (told([], leader="", missing=2, part="founding"), ["the group of servers is not founded, and there are no st"]),
        (told([], leader="", part="none"), ["this server takes no part in the group of servers"]),
        (told(ALL, part="stranger"), ["this server's disk is not a member of the group of servers"]),
        (told(ALL, unread=2), ["2 of the servers' streams cannot be read by this version"]),
        (told(ALL, waits="it waits for room"), ["this server does not go on with what the group agreed on"]),
    ],
)
def test_what_is_wrong_with_the_group_is_a_problem(varz: dict[str, Any], problems: list[str]) -> None:
    """Each with what to do; a server that was just started is none."""
    found = seen(varz).problems
    assert len(found) == len(problems)
    for said, begin in zip(found, problems, strict=True):
        assert said.startswith(begin)
        assert ": " in said


def test_each_section_of_the_guide_that_is_advised_is_there() -> None:
    """Of a lost majority of all servers, and of one of a stream's."""
    guide = (Path(__file__).parents[3] / "packaging/doc/guide.md").read_text()
    away = [member("s0"), member("s1", 60.0), member("s2", 60.0)]
    about_all, about_stream = seen(told(away, leader=""), [kept("", {"name": "s1", "current": False})]).problems
    for problem, title in ((about_all, "A lost majority"), (about_stream, "Streams that have lost their majority")):
        assert f"see the guide ({title})" in problem
        assert f"### {title}\n" in guide


def test_a_server_without_jetstream_is_named_while_others_are_missing() -> None:
    """It may be one of those that are waited for."""
    (problem,) = seen(told([], leader="", missing=1, part="founding", idle=["s2"])).problems
    assert problem.endswith("lead to them; without JetStream s2: meta_size is how many have it")


def test_a_member_that_is_let_in_does_not_count() -> None:
    """A member that is being let in has no vote yet, so it is not among those that are there."""
    group = seen(told([member("s0"), member("s1", voter=False)])).group
    assert group is not None
    assert group.there == 1
    assert [part_of(one) for one in group.members] == ["leader", "is let in"]


def kept(leader: str, *others: dict[str, Any]) -> dict[str, Any]:
    about: dict[str, Any] = {"raft_group": "S-R3F-1", "replicas": list(others)}
    return {"name": "S", "cluster": about | ({"leader": leader} if leader else {})}


def test_of_a_stream_of_several_only_its_leader_knows_how_far_the_others_are() -> None:
    """Another server shows their names."""
    others = [
        {"name": "s1", "current": True},
        {"name": "s2", "current": False, "lag": 1200, "leafd": {"copies": True}},
        {"name": "s3", "current": False, "lag": 7},
        {"name": "s4", "current": False, "lag": 7, "offline": True},
    ]
    (mine,) = seen(told(ALL), [kept("s0", *others)]).shared
    assert kept_by(mine) == "s1 (level), s2 (is given a copy), s3 (7 behind), s4 (away)"
    (theirs,) = seen(told(ALL), [kept("s1", *others)]).shared
    assert kept_by(theirs) == "s0, s2, s3, s4"  # itself among them
    (nobodys,) = seen(told(ALL), [kept("", *others)]).shared
    assert kept_by(nobodys) == "s0, s1, s2, s3, s4"


def test_a_server_that_has_no_copy_yet_does_not_say_that_nobody_leads() -> None:
    """As one whose disk was wiped: the others lead the stream and go on, which it cannot know."""
    found = seen(told(ALL), [kept("")])
    (problem,) = found.problems
    assert problem.startswith("stream S of several servers: this server has no copy yet")
    assert [kept_by(one) for one in found.shared] == [""]


def test_a_stream_without_a_leader_and_a_server_that_keeps_nothing_are_problems() -> None:
    """A server that is away is named once, for the group."""
    silent = {"name": "s1", "current": False, "offline": True}
    (found,) = seen(told(ALL), [kept("", silent)]).problems
    assert found.startswith("stream S of several servers: there is no leader")
    (found,) = seen(told(ALL), [kept("s0", silent), kept("s0", silent)]).problems
    assert found.startswith("server s1 is there and does not keep 2 streams")
    copied = silent | {"leafd": {"copies": True}}
    (found,) = seen(told(ALL), [kept("s0", copied)]).problems
    assert found.startswith("server s1 is there, and is given a copy of 1 streams")
    away = [member("s0"), member("s1", 30.0), member("s2")]
    (found,) = seen(told(away), [kept("s0", silent)]).problems
    assert found.startswith("server s1 of the group is away")
    assert seen(told(ALL), [{"name": "S", "cluster": {"leader": "s0"}}]).shared == ()


def test_a_stream_of_which_fewer_have_a_copy_than_are_to_keep_it_is_a_problem() -> None:
    """Where it is led, also while a copy is on its way: another disk that is wiped then may be the majority's end."""
    level, copied = {"name": "s1", "current": True}, {"name": "s2", "current": False, "leafd": {"copies": True}}
    asked = {"config": {"num_replicas": 3}}
    for others in ([level], [level, copied]):
        (found,) = seen(told(ALL), [kept("s0", *others) | asked]).problems
        assert found.startswith("stream S of several servers: fewer have a copy than are to keep it")
    behind = {"name": "s2", "current": False, "lag": 7}
    assert seen(told(ALL), [kept("s0", level, behind) | asked]).problems == ()
    assert seen(told(ALL), [kept("s1") | asked]).problems == ()
