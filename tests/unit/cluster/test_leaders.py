"""Who leads a stream of several servers is asked of all that keep it at once, and a request from far away takes one
trip: it goes to the server that led lately, which says so if it leads no more.

Other servers are fakes, each of which answers after a while. Not here: servers far apart (tests/interop).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing
from leafd.cluster.table import StreamRow
from leafd.daemon.leaders import REMEMBERED_S, Leaders
from leafd.jetstream.elsewhere import Elsewhere
from leafd.jetstream.errors import ApiError
from leafd.jetstream.registry import API, Answer

from tests.rig.fakes import at_once

OWN, A, B, C = 1, 7, 8, 9
FAR_S = 1.0
PATIENCE_S = 5.0
ROW = StreamRow("ACC", "S", A, "a", "far", 5, "", {"name": "S", "num_replicas": 3}, (), 9, 4, ((A, 1), (B, 1), (C, 1)))
INFO = f"{API}STREAM.INFO.S"


class World:
    """Three servers far from this one. says: whom each takes for the leader, 0 for nobody; one that is missing never
    answers."""

    def __init__(self, says: dict[int, int]) -> None:
        self.says, self.asked = says, list[tuple[int, str]]()
        self.gone = set[int]()
        self.leaders = Leaders(OWN, self._here, self.reaches, self.ask, lambda: PATIENCE_S)
        self.row = ROW
        self.far = {peer: Elsewhere(self._context(), self._placing(peer), self._answers(peer)) for peer in (A, B, C)}
        self.near = Elsewhere(self._context(), self._placing(OWN), self._answers(OWN))
        self.account = SimpleNamespace(name="ACC", enabled=True, system=False, streams={})

    async def _here(self, account: str, name: str) -> int:
        return 0

    def reaches(self, server: int) -> bool:
        return server not in self.gone

    async def ask(
        self, server: int, verb: str, head: Mapping[str, Any], body: bytes, seconds: float = 0
    ) -> tuple[dict[str, Any], bytes] | None:
        self.asked.append((server, verb))
        if server not in self.says:
            await trio.sleep(seconds or PATIENCE_S)
            return None
        await trio.sleep(FAR_S)
        if verb == "leads":
            return {"peer": self.says[server]}, b""
        return await self.far[server].serve(verb, json.loads(json.dumps(dict(head))), body)

    # ---- as JetStream sees it

    def _context(self) -> Any:
        stream = SimpleNamespace(group=object(), led=True)
        account = SimpleNamespace(name="ACC", enabled=True, system=False, streams={"S": stream})

        async def known(name: str) -> Any:
            return account

        return SimpleNamespace(catalogue=SimpleNamespace(known=known), settings=SimpleNamespace(cluster_name="near"))

    def _placing(self, own: int) -> Any:
        async def server_of(account: str, name: str) -> int:
            return await self.leaders.nearest(self.row)

        async def leads(stream: Any) -> bool:
            return self.says[own] == own

        def heard(account: str, name: str, server: int, *, leads: bool) -> None:
            (self.leaders.led if leads else lambda row, _: self.leaders.forget(row))(self.row, server)

        return SimpleNamespace(
            own=own, leader=A, decides=False, reaches=self.reaches, server_of=server_of, leads=leads,
            heard_of_lead=heard, group=lambda account, name: object(), ask=self.ask, patience=lambda seconds: seconds,
            soon=at_once,
        )  # fmt: skip

    def _answers(self, own: int) -> Any:
        async def here(*_: object) -> Answer:
            return Answer({"by": own})

        return here

    async def info(self) -> tuple[int, int]:
        """The server that answers a client of this one, or the error, and after how many trips."""
        asker = SimpleNamespace(author="", info=dict, far=False)
        began, self.asked = trio.current_time(), []
        answer = await self.near.answer(cast("Any", self.account), INFO, b"", b"", cast("Any", asker))
        assert answer is not None
        found = answer.members["error"]["err_code"] if answer.error else answer.members["by"]
        return found, round((trio.current_time() - began) / FAR_S)


def run(main: Any) -> None:
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0.0))


def test_all_that_keep_it_are_asked_at_once_and_the_first_that_knows_is_believed() -> None:
    """One that says nothing, or knows nobody, costs no further trip."""

    async def main() -> None:
        world, began = World({B: 0, C: B}), trio.current_time()
        assert await world.leaders.of(world.row) == B
        assert trio.current_time() - began == pytest.approx(FAR_S)
        assert sorted(world.asked) == [(A, "leads"), (B, "leads"), (C, "leads")]
        world.gone, world.says = {A}, {B: 0, C: 0}
        with pytest.raises(ApiError):
            await world.leaders.of(world.row)

    run(main)


def test_a_request_goes_to_the_server_that_answered_the_last_one_as_leader() -> None:
    """One trip, as long as it is remembered, is there, and keeps the stream."""

    async def main() -> None:
        world = World({A: A, B: A, C: A})
        assert await world.info() == (A, 2)
        assert await world.info() == (A, 1)
        assert world.asked == [(A, "api")]
        await trio.sleep(REMEMBERED_S - 2 * FAR_S)
        assert await world.info() == (A, 1)
        await trio.sleep(REMEMBERED_S)
        assert await world.info() == (A, 2)
        world.gone, world.says = {A}, {B: B, C: B}
        assert await world.info() == (B, 2)
        world.row = replace(world.row, group=world.row.group + 1)
        assert await world.info() == (B, 2)

    run(main)


def test_a_server_that_leads_no_more_does_nothing_and_says_so() -> None:
    """The client is answered by the one that leads; by nobody, if nobody does."""

    async def main() -> None:
        world = World({A: A, B: A, C: A})
        await world.info()
        world.says = {A: B, B: B, C: B}
        assert await world.info() == (B, 3)
        assert await world.info() == (B, 1)
        world.says = {A: 0, B: 0, C: 0}
        assert await world.info() == (10008, 2)

    run(main)


def test_one_of_a_version_that_does_not_say_so_is_asked_each_time() -> None:
    """It would answer as if it led."""

    async def main() -> None:
        world = World({A: A, B: A, C: A})
        serve = world.far[A].serve

        async def before(verb: str, head: Mapping[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
            return await serve(verb, {name: value for name, value in head.items() if name != "leads"}, body)

        world.far[A].serve = before  # type: ignore[method-assign]
        for _ in range(2):
            assert await world.info() == (A, 2)

    run(main)


def test_one_that_says_nothing_is_forgotten() -> None:
    """The next request asks all of them."""

    async def main() -> None:
        world = World({A: A, B: A, C: A})
        await world.info()
        world.says = {B: B, C: B}
        assert (await world.info())[0] == 10118
        assert await world.info() == (B, 2)

    run(main)
