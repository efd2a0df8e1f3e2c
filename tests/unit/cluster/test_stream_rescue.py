"""A start with the command's file rescues the streams that it names and that have no leader, once, and no others.

The table and the groups are fakes. Not here: the row (test_sharing.py), servers (interop/test_rescued_streams.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing
from leafd.daemon.stream_rescue import LEADERLESS_S, StreamRescue, names_in
from leafd.jetstream import errors
from leafd.rescues import STREAMS as FILE


@dataclass
class World:
    """leaders: of streams, by name. said: the leader's answers, the last one for good; asked: for which streams."""

    leaders: dict[str, int] = field(default_factory=dict)
    said: list[Any] = field(default_factory=lambda: [{"ok": True}])
    asked: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    streams: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        for number, name in enumerate(("A", "B", "C")):
            account, group = SimpleNamespace(name="acc"), SimpleNamespace(name=90 + number)
            self.streams.append(SimpleNamespace(id=number, name=name, account=account, created=5, group=group))

    def shared(self) -> list[Any]:
        return self.streams

    def has(self, stream: Any) -> bool:
        return stream in self.streams

    async def leader(self, stream: Any) -> int:
        return self.leaders.get(stream.name, 0)

    async def ask(self, wish: dict[str, Any]) -> dict[str, Any]:
        assert (wish["op"], wish["peer"], wish["disk"], wish["account"], wish["created"]) == ("alone", 7, 70, "acc", 5)
        assert trio.current_time() >= LEADERLESS_S
        self.asked.append(f"{wish['name']} {wish['group']}")
        said = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        if isinstance(said, Exception):
            raise said
        return cast(dict[str, Any], said)


def rescued(world: World, folder: Path) -> None:
    meta = SimpleNamespace(disk=(7, 70), named=lambda peer: f"s{peer}")
    log = SimpleNamespace(warning=world.logged.append, error=world.logged.append)
    rescue = StreamRescue(folder, cast(Any, meta), cast(Any, world), world.ask, cast(Any, log))

    async def run() -> None:
        with trio.fail_after(1000):
            await rescue._run()

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize(("content", "asked"), [("", ["A 90", "C 92"]), ('["C", "B", "X"]', ["C 92"])])
def test_streams_without_a_leader_are_rescued_once(content: str, asked: list[str], tmp_path: Path) -> None:
    """The next start finds no file, and does nothing."""
    (tmp_path / FILE).write_text(content)
    world = World(leaders={"B": 3})
    rescued(world, tmp_path)
    assert world.asked == asked
    assert len(world.logged) == len(asked)
    assert not (tmp_path / FILE).exists()
    rescued(world, tmp_path)
    assert world.asked == asked


def test_what_nobody_decides_now_is_asked_again(tmp_path: Path) -> None:
    """A refusal is the end of it."""
    (tmp_path / FILE).write_text('["A"]')
    world = World(said=[errors.CLUSTER_NOT_AVAILABLE.error(), {"refused": "2 of the 3 are there"}])
    rescued(world, tmp_path)
    assert world.asked == ["A 90"] * 2
    assert "is not rescued yet" in world.logged[0]
    assert "is not rescued: 2 of the 3 are there" in world.logged[1]
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize("content", ["{", '{"a": 1}', "[1]"])
def test_a_file_that_is_no_list_of_names_rescues_nothing_and_stays(content: str, tmp_path: Path) -> None:
    """The log says so."""
    with pytest.raises(ValueError):  # noqa: PT011
        names_in(content.encode())
    (tmp_path / FILE).write_text(content)
    world = World()
    rescued(world, tmp_path)
    assert world.asked == []
    assert "no stream is rescued" in world.logged[0]
    assert (tmp_path / FILE).exists()
