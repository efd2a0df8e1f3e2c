"""A plane for tests that obeys nothing: what a test's own plane is made of, one method after the other.

Each command is there with the signature of the real one, to which mypy holds whatever overrides it. A command that a
test's plane does not have fails the test that gives it. Not here: the real plane (tests/unit/real_plane.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from leafd import native_types as t
from leafd.native_commands import Commands


class Unwilling(Commands):
    """Commands of which none is carried out."""

    def _submit(self, op: str, **parts: Any) -> NoReturn:
        raise AssertionError(f"the plane of this test does not know the command {op}")

    async def _request(self, op: str, what: str, **parts: Any) -> NoReturn:
        raise AssertionError(f"the plane of this test does not know the command {op}")

    async def _each(self, op: str, what: str, targets: Sequence[int], args: Iterable[int]) -> NoReturn:
        raise AssertionError(f"the plane of this test does not know the command {op}")

    def advised(self) -> bool:
        raise AssertionError("of the plane of this test it is not known who listens")

    def repay(self, message: t.Message) -> None:
        raise AssertionError("the plane of this test is paid for nothing")

    def records(self, kind: int, *, whole: bool = False) -> Iterator[tuple[bytes, bytes]]:
        raise AssertionError("the plane of this test has no records")
