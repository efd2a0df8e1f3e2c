"""Accounts that a login names and nobody knows yet: how often they are looked for, and whose word counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest
import trio
import trio.testing
from leafd import native_types as t
from leafd.accounts.graph import Account, Numbers
from leafd.auth.resolver import ClaimsError, Keepless, Resolver
from leafd.config.bind import load_text
from leafd.daemon import account_book
from leafd.daemon.account_book import LOOKUPS_MAX, MISSING_S, AccountBook
from leafd.daemon.compiled import compile_config
from leafd.daemon.current import Current
from leafd.daemon.takeover import Plan
from leafd.guard import Guard

from tests import jwts
from tests.rig.logs import KeptLog


class Shelf(Keepless):
    """A resolver with these JWTs, which remembers what it was asked for."""

    def __init__(self, tokens: dict[str, str], *, keeps: bool = False) -> None:
        self.keeps = keeps
        self.tokens = tokens
        self.asked: list[str] = []

    def load(self, name: str) -> str:
        self.asked.append(name)
        return self.tokens.get(name, "")

    def save(self, name: str, token: str, issued_s: int, *, newer: bool = True) -> bool:
        self.tokens[name] = token
        return True


class World:
    """The accounts of a server whose configuration has the operator and the system account."""

    def __init__(self, *, keeps: bool = False) -> None:
        self.operator = jwts.Operator()
        compiled = compile_config(load_text(self.operator.configuration()).server, Numbers())
        self.known: list[str] = []
        self.log = KeptLog()
        self.book = AccountBook(
            Current(compiled, t.Limits(), None, Guard()),
            self.log,
            Guard(),
            linked=lambda: keeps,
            waiting=tuple,
            make_known=self.make_known,
            take_over=self.take_over,
        )
        self.shelf = Shelf({}, keeps=keeps)
        resolver: Resolver = self.shelf
        self.book.resolver = resolver

    async def make_known(self, accounts: Sequence[Account]) -> None:
        await trio.lowlevel.checkpoint()
        self.known += [one.name for one in accounts]

    async def take_over(self, plan: Plan) -> None:
        raise AssertionError("accounts that are only added take nothing from anybody")

    def account(self, name: str = "A") -> jwts.Account:
        return self.operator.account(name)


def run(main: Callable[[], Awaitable[None]]) -> None:
    """On a clock of its own: the pauses between look-ups take no time."""

    async def bounded() -> None:
        with trio.fail_after(600):
            await main()

    trio.run(bounded, clock=trio.testing.MockClock(autojump_threshold=0.05))


def test_an_account_that_is_found_is_known_when_the_login_goes_on() -> None:
    """The rooms have heard of it by then, and the next login asks nobody."""
    world, found = World(), list[bool]()
    account = world.account()
    world.shelf.tokens[account.public] = account.token()

    async def main() -> None:
        found.append(await world.book.look_up(account.public))
        assert [account.public] == world.known
        found.append(await world.book.look_up(account.public))

    run(main)
    assert ([True, True], [account.public]) == (found, world.shelf.asked)


def test_an_account_that_is_not_there_is_not_looked_for_at_every_login() -> None:
    """Strangers can name what they like. A moment later it may have been made."""
    world = World()
    account = world.account()

    async def main() -> None:
        for _ in range(3):
            assert not await world.book.look_up(account.public)
        assert 1 == len(world.shelf.asked)
        world.shelf.tokens[account.public] = account.token()
        await trio.sleep(MISSING_S + 0.1)
        assert await world.book.look_up(account.public)

    run(main)


def test_logins_that_name_one_account_at_once_cost_one_look_up() -> None:
    """A fleet comes back together, and all of it is of one account."""
    world, found = World(), list[bool]()
    account = world.account()
    world.shelf.tokens[account.public] = account.token()

    async def look() -> None:
        found.append(await world.book.look_up(account.public))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(look)

    run(main)
    assert ([True] * 50, 1) == (found, len(world.shelf.asked))


def test_a_jwt_counts_for_its_own_account_alone() -> None:
    """Whoever fills the resolver's place under another name gets no account by it, nor does another operator's."""
    world = World()
    mine, other = world.account("A"), jwts.Operator("P").account("B")
    wanted = world.account("C")

    async def main() -> None:
        for token in (mine.token(), other.token(), "nonsense"):
            world.shelf.tokens[wanted.public] = token
            assert not await world.book.look_up(wanted.public)
            await trio.sleep(MISSING_S + 0.1)

    run(main)
    assert [] == world.known
    assert 2 == len([text for text in world.log.texts if "its JWT does not count" in text])


def test_what_is_remembered_of_missing_accounts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names cost a stranger nothing: the oldest gives way, and is looked for again."""
    monkeypatch.setattr(account_book, "MISSING_MAX", 3)
    world = World()

    async def main() -> None:
        for name in ("A", "B", "C", "D", "D", "A"):
            assert not await world.book.look_up(name)

    run(main)
    assert ["A", "B", "C", "D", "A"] == world.shelf.asked


def test_other_servers_are_asked_by_who_can_keep_the_answer() -> None:
    """A resolver that keeps nothing would ask them anew for each login."""
    for keeps in (False, True):
        world, asked = World(keeps=keeps), list[str]()
        account = world.account()

        async def ask(name: str, asked: list[str] = asked, account: jwts.Account = account) -> str:
            await trio.lowlevel.checkpoint()
            asked.append(name)
            return account.token()

        world.book.ask_others = ask

        async def main(world: World = world, account: jwts.Account = account, keeps: bool = keeps) -> None:
            assert keeps == await world.book.look_up(account.public)

        run(main)
        assert ([account.public] if keeps else []) == asked
        assert keeps == (account.public in world.shelf.tokens)


def test_so_many_questions_are_out_at_a_time() -> None:
    """Further accounts count as not found, and are looked for again a moment later."""
    world, most = World(keeps=True), [0, 0]
    accounts = [world.account(f"A{number}") for number in range(LOOKUPS_MAX + 10)]

    async def ask(name: str) -> str:
        most[0] += 1
        most[1] = max(most)
        await trio.sleep(5)
        most[0] -= 1
        return ""

    world.book.ask_others = ask

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for account in accounts:
                nursery.start_soon(world.book.look_up, account.public)

    run(main)
    assert LOOKUPS_MAX == most[1]


def test_an_update_is_held_to_the_account_that_it_was_sent_for() -> None:
    """In nats-server's words, which nsc shows."""
    world = World(keeps=True)
    account, other = world.account("A"), world.account("B")

    async def main() -> None:
        with pytest.raises(ClaimsError, match="jwt update resulted in error - subject does not match jwt content"):
            await world.book.update(account.token(), other.public)
        with pytest.raises(ClaimsError, match="jwt update resulted in error - "):
            await world.book.update("nonsense")

    run(main)
    assert {} == world.shelf.tokens
