"""Accounts of streams that a server is to keep and that nobody has used there: looked for until there is one.

Not here: how an operator's account is found (tests/interop/test_cluster_accounts.py).
"""

from __future__ import annotations

from typing import Any, cast

import trio
import trio.testing
from leafd.daemon.account_search import Sought
from leafd.jetstream.catalogue import Catalogue

ACCOUNT: Any = object()


class World:
    """A catalogue, and an operator that knows an account after so many times that it is looked for; 0: never."""

    def __init__(self, nursery: trio.Nursery, after: int) -> None:
        self.catalogue, self.times, self.found = Catalogue(), 0, 0

        async def look_up(name: str) -> None:
            self.times += 1
            await trio.sleep(1)
            if self.times == after:
                self.catalogue.by_name[name] = ACCOUNT

        def found() -> None:
            self.found += 1

        self.catalogue.look_up = look_up
        self.sought = Sought(self.catalogue, nursery.start_soon, found)


def test_an_account_that_is_found_is_told_of_once() -> None:
    """However often it is asked for meanwhile, it is looked for once."""

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            world = World(nursery, after=1)
            assert [world.sought.account("A") for _ in range(9)] == [None] * 9
            await trio.sleep(1.1)
            assert (world.times, world.found) == (1, 1)
            assert world.sought.account("A") is ACCOUNT
            await trio.sleep(60)
            assert (world.times, world.found) == (1, 1)

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


def test_an_account_that_is_not_there_is_looked_for_seldom_and_found_when_it_comes() -> None:
    """A stream's account may be pushed later; one that was deleted costs a look-up each few seconds at most."""

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            world = World(nursery, after=3)
            for _ in range(600):
                world.sought.account("A")
                await trio.sleep(0.1)
            assert (world.times, world.found) == (3, 1)
            lost = World(nursery, after=0)
            for _ in range(600):
                lost.sought.account("A")
                await trio.sleep(0.1)
            assert lost.found == 0
            assert 8 <= lost.times <= 12

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


def test_where_accounts_are_configured_none_is_looked_for() -> None:
    """There is nobody to ask."""

    async def run() -> None:
        assert await Catalogue().known("A") is None
        catalogue = Catalogue()
        catalogue.by_name["A"] = cast("Any", ACCOUNT)
        assert await catalogue.known("A") is ACCOUNT

    trio.run(run)
