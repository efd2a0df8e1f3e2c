"""Walks that are compared: a busy nats-server's early answers are not held against leafd, and its own faults are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import servers
from tests.rig import reference
from tests.rig.comparison import WALKS, asked_again, pair, told_alike


def walking(ours: list[Any], theirs: list[Any]) -> tuple[Callable[[str, Path], Any], list[str]]:
    """A walk that tells these, one after the other, or breaks off with an error; and which servers have walked."""
    left: dict[str, Iterator[Any]] = {servers.LEAFD: iter(ours), servers.REFERENCE: iter(theirs)}
    walked: list[str] = []

    def walk(kind: str, folder: Path) -> Any:
        assert list(folder.iterdir()) == []
        walked.append(kind)
        told = next(left[kind])
        if isinstance(told, Exception):
            raise told
        return told

    return walk, walked


@pytest.mark.parametrize("early", [[1, "no place"], [], TimeoutError()])
def test_nats_servers_that_tell_something_else_walk_once_more_and_leafd_does_not(early: object, tmp_path: Path) -> None:
    """Also where they break off."""
    walk, walked = walking([[1, 2]], [early, [1, 2]])
    assert told_alike(walk, tmp_path) == [1, 2]
    assert walked == [servers.LEAFD, *[servers.REFERENCE] * 2]


def test_a_pair_s_nats_server_is_another_one_when_it_walks_again(tmp_path: Path) -> None:
    """What the first walk left there could be seen by the second."""
    walked: list[tuple[str, int]] = []

    def walk(server: servers.Server) -> int:
        walked.append((server.kind, server.port))
        return len([kind for kind, _ in walked if kind == servers.REFERENCE]) % 2

    with pair('listen: "127.0.0.1:{port}"') as both:
        assert both.told_alike(walk, tmp_path) == 0
        assert walked[:2] == [(servers.LEAFD, both.ours.port), (servers.REFERENCE, both.theirs.port)]
    assert [kind for kind, _ in walked[2:]] == [servers.REFERENCE]
    assert walked[2] != walked[1]


def test_what_leafd_does_in_another_way_is_found_with_its_place(tmp_path: Path) -> None:
    """After as many walks as there may be."""
    walk, walked = walking([[1, [2, 3]]], [[1, [2, 4]]] * WALKS)
    with pytest.raises(AssertionError, match="1: 1: nats-server tells 4, leafd 3"):
        told_alike(walk, tmp_path)
    assert walked.count(servers.LEAFD) == 1


def test_a_walk_that_breaks_off_is_its_server_s_fault(tmp_path: Path) -> None:
    """leafd's is no other one's, and is not tried again; nats-server's is noted as such."""
    walk, walked = walking([KeyError("left")], [[1]])
    with pytest.raises(KeyError, match="left"):
        told_alike(walk, tmp_path)
    assert walked == [servers.LEAFD]
    (place := tmp_path / "second").mkdir()
    walk, _ = walking([[1]], [TimeoutError() for _ in range(WALKS)])
    with pytest.raises(TimeoutError) as failed:
        told_alike(walk, place)
    assert reference.NOTE in failed.value.__notes__


@pytest.mark.parametrize(
    "early",
    [
        {"error": {"err_code": 10005}},
        {"error": {"err_code": 10008}},
        {"cluster": {"name": "C"}, "config": {}},
        {"total": 0, "streams": None},
        {},
        "nobody",
    ],
)
def test_an_early_answer_is_asked_for_again_and_another_one_is_not(early: object) -> None:
    """An answer that agrees with leafd's is the last in any case."""
    for second in ({"seq": 1}, {"error": {"err_code": 10052}}):
        left = iter([early, second])
        assert asyncio.run(asked_again(ask_of(left), lambda answer: answer == {"seq": 1})) == second
        assert list(left) == []
    left = iter([early, "never asked for"])
    assert asyncio.run(asked_again(ask_of(left), lambda answer: answer == early)) == early
    assert list(left) == ["never asked for"]


def ask_of(left: Iterator[Any]) -> Callable[[], Any]:
    async def ask() -> Any:
        return next(left)

    return ask
