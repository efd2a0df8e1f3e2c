"""The daemon's dataclass() beside the standard library's: the same classes, for the same use."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar

import pytest
from leafd import records

AGENT = Path(__file__).parents[2] / "agent" / "leafd"


def both(**switches: bool) -> list[Any]:
    """The same two classes, one from another, made by each."""
    found = []
    for decorate in (dataclasses.dataclass, records.dataclass):

        @decorate(**switches)
        class Point:
            kind: ClassVar[str] = "point"
            x: int
            y: int = 0

        @decorate(**switches)
        class Named(Point):
            name: str = field(default="", metadata={"json": "n"})
            tags: list[str] = field(default_factory=list)

        found.append(Named)
    return found


@pytest.mark.parametrize(
    "use",
    [
        lambda cls: repr(cls(1)),
        lambda cls: repr(cls(1, 2, name="a", tags=["b"])),
        lambda cls: repr(dataclasses.replace(cls(1, tags=["b"]), x=7)),
        lambda cls: [(one.name, one.default, dict(one.metadata)) for one in dataclasses.fields(cls)],
        lambda cls: (cls(1) == cls(1), cls(1) == cls(2), cls(1) == 1, cls(1) != cls(1)),
        lambda cls: cls(1, 2, "a", ()).__hash__ is None or len({cls(1, 2, "a", ()), cls(1, 2, "a", ())}),
        lambda cls: cls(1).tags is cls(1).tags,
        lambda cls: hasattr(cls(1), "__dict__"),
        lambda cls: (cls.kind, cls.__match_args__),
        lambda cls: cls(),
        lambda cls: cls(1, z=1),
        lambda cls: cls(1, x=1),
        lambda cls: cls(1, 2, "", [], 5),
        lambda cls: setattr(cls(1), "x", 2),
        lambda cls: delattr(cls(1), "x"),
        lambda cls: dataclasses.replace(cls(1), z=1),
    ],
)
@pytest.mark.parametrize(
    "switches", [{"frozen": True, "slots": True}, {"slots": True}, {"slots": True, "eq": False}, {"frozen": True}]
)
def test_they_behave_as_those_of_the_standard_library(use: Any, switches: dict[str, bool]) -> None:
    """Values, comparisons, copies and refusals, with the same texts."""

    def outcome(cls: Any) -> object:
        try:
            return use(cls)
        except Exception as error:
            return type(error), str(error)

    theirs, ours = both(**switches)
    assert outcome(theirs) == outcome(ours)


def test_a_class_may_bring_its_own() -> None:
    """What is written in the class stays."""

    @records.dataclass(frozen=True, slots=True)
    class Loud:
        text: str

        def __repr__(self) -> str:
            return self.text.upper()

    class Louder(Loud):
        def __init__(self) -> None:
            super().__init__("b")

    assert ("A", "B", "B") == (repr(Loud("a")), repr(Louder()), repr(Louder()))


def test_the_daemon_uses_no_other() -> None:
    """One class of the standard kind costs a start what twenty of these do."""
    for path in AGENT.rglob("*.py"):
        found = re.search(r"^from dataclasses import .*\bdataclass\b", path.read_text(), re.MULTILINE)
        assert found is None or path.name == "records.py", path
