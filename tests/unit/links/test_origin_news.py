"""A source whose position is damaged. That its last messages tell, where they do: tests/native/test_plane_sources.c."""

from __future__ import annotations

import trio
import trio.testing
from leafd.links.replicas import Replicas

from tests.unit.links.replica_stage import FakePlane, on_mock_clock, take_up


@on_mock_clock
async def test_a_source_whose_position_is_damaged_says_so_and_is_seldom_tried(
    plane: FakePlane, replicas: Replicas
) -> None:
    """Each try makes a consumer at the origin, and little changes what the plane can read."""
    plane.broken = {"position"}
    await take_up(plane, replicas)
    await trio.sleep(599)
    assert [call[0] for call in plane.calls] == ["publish"]
    error = (await replicas.info(10, 1)).error
    assert error == {"code": 500, "err_code": 10029, "description": "the source's position is damaged here"}

    plane.broken = set()
    await trio.sleep(2)
    plane.answer({"name": "d"})
    await trio.testing.wait_all_tasks_blocked()
    assert [call[0] for call in plane.calls] == ["publish", "start"]


@on_mock_clock
async def test_a_source_that_cannot_be_begun_says_so(plane: FakePlane, replicas: Replicas) -> None:
    """As where its position cannot be read now; it is tried again soon."""
    plane.broken = {"start"}
    await take_up(plane, replicas)
    await trio.sleep(1)
    told = (await replicas.info(10, 1)).error
    assert told is not None
    assert "it cannot be begun here" in told["description"]
