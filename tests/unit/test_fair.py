"""The fair queue: a client that asks little is served next, and one that asks at full speed delays only itself."""

from __future__ import annotations

import trio
import trio.testing
from leafd.fair import LEAST, FairQueue

WAITING_MAX = 1000
AT_WORK_MAX = 64
AT_WORK_EACH = 16


def taken(requests: FairQueue[str], count: int) -> list[str]:
    """The next ones, each finished with before the next is taken. A request is "account/connection/..."."""

    async def take() -> list[str]:
        found = []
        for _ in range(count):
            one = await requests.take()
            account, connection = map(int, one.split("/")[:2])
            requests.done(account, connection)
            found.append(one)
        return found

    return trio.run(take)


def empty() -> FairQueue[str]:
    """A queue with these tests' bounds."""
    return FairQueue(at_work=AT_WORK_MAX, at_work_each=AT_WORK_EACH)


def filled(*names: str) -> FairQueue[str]:
    """A queue of these requests, in their order."""
    requests = empty()
    for name in names:
        account, connection = map(int, name.split("/")[:2])
        requests.put(account, connection, name)
    return requests


def test_accounts_take_turns_and_connections_within_an_account_too() -> None:
    """A connection with three requests is served once before each other connection has been."""
    requests = filled("1/1/a", "1/1/b", "1/1/c", "1/2/a", "2/3/a", "2/3/b")
    assert ["1/1/a", "2/3/a", "1/2/a", "2/3/b", "1/1/b", "1/1/c"] == taken(requests, 6)


def test_requests_of_a_connection_stay_in_their_order() -> None:
    """However many others there are."""
    requests = filled(*(f"1/{n % 3}/{n}" for n in range(60)))
    order = taken(requests, 60)
    for connection in range(3):
        mine = [int(one.split("/")[2]) for one in order if one.startswith(f"1/{connection}/")]
        assert mine == sorted(mine)


def test_whoever_comes_behind_a_flood_is_served_next() -> None:
    """Nothing of the flood is dropped, and a newcomer's first request waits behind one of it."""
    requests = filled(*(f"1/1/{n}" for n in range(WAITING_MAX * 2)), "1/2/x")
    assert "1/2/x" in taken(requests, 2)
    assert WAITING_MAX * 2 - 1 == len(taken(requests, WAITING_MAX * 2 - 1))


def outdating() -> tuple[FairQueue[str], list[str]]:
    """A queue that is bounded, and what became outdated in it."""
    gone: list[str] = []
    return FairQueue(at_work=1, at_work_each=1, waiting=WAITING_MAX, outdated=gone.append), gone


def test_where_items_become_outdated_each_asker_loses_his_own_oldest() -> None:
    """Whoever asks too much loses what he asked first; the newest is served first; others lose nothing."""
    requests, gone = outdating()
    requests.put(1, 2, "1/2/x")
    for n in range(WAITING_MAX):
        requests.put(1, 1, f"1/1/{n}")
    assert [f"1/1/{n}" for n in range(WAITING_MAX // 2)] == gone
    assert ["1/2/x", f"1/1/{WAITING_MAX - 1}"] == taken(requests, 2)


def test_a_few_may_wait_of_each_asker_among_thousands() -> None:
    """The share never goes below a handful."""
    requests, gone = outdating()
    for n in range(WAITING_MAX):
        requests.put(1, n, f"1/{n}/x")
    for n in range(LEAST):
        requests.put(1, 0, f"1/0/{n}")
    assert ["1/0/x"] == gone


def at_work(requests: FairQueue[str]) -> list[str]:
    """What is begun while nothing is finished."""

    async def main() -> list[str]:
        found: list[str] = []
        with trio.move_on_after(1):
            while True:
                found.append(await requests.take())
        return found

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_connection_has_only_its_share_at_work() -> None:
    """However many of a connection's requests wait, so many are begun; and all together are bounded."""
    assert AT_WORK_EACH == len(at_work(filled(*(f"1/1/{n}" for n in range(AT_WORK_EACH * 2)))))
    assert AT_WORK_MAX == len(at_work(filled(*(f"{n}/{n}/x" for n in range(AT_WORK_MAX * 2)))))


def test_an_account_leaves_places_free_for_others_however_many_connections_it_has() -> None:
    """One account has half of the places, the next half of what is left, and so on; a newcomer's request begins."""
    requests = filled(*(f"1/{c}/{n}" for c in range(50) for n in range(20)))
    assert AT_WORK_MAX // 2 == len(at_work(requests))
    for c in range(50):
        requests.put(2, c, f"2/{c}/x")
    assert AT_WORK_MAX // 4 == len(at_work(requests))
    requests.put(3, 1, "3/1/x")
    assert ["3/1/x"] == at_work(requests)


def test_a_connection_leaves_places_free_for_others_of_its_account() -> None:
    """However slow the requests of a few connections are, another's next one begins at once."""
    requests = filled(*(f"1/{c}/{n}" for c in range(2) for n in range(100)))
    assert AT_WORK_MAX // 2 > len(at_work(requests))
    requests.put(1, 9, "1/9/x")
    assert ["1/9/x"] == at_work(requests)


def begun(before: str, *names: str) -> list[bool]:
    """Which of these are begun at once, while take() has taken `before` (none: "") and waits for more."""
    requests = filled(*([before] if before else []))

    async def run() -> list[bool]:
        async with trio.open_nursery() as nursery:

            async def take() -> None:
                while True:
                    await requests.take()

            nursery.start_soon(take)
            await trio.testing.wait_all_tasks_blocked()
            found = []
            for name in names:
                account, connection = map(int, name.split("/")[:2])
                found.append(requests.begin(account, connection))
                if not found[-1]:
                    requests.put(account, connection, name)
            nursery.cancel_scope.cancel()
        return found

    return trio.run(run)


def test_a_request_is_begun_at_once_where_nobody_waits() -> None:
    """Not behind another one of its connection, at work or waiting, and not past somebody who waits."""
    assert [True, True] == begun("", "1/1/a", "1/2/a")
    assert [True, False] == begun("", "1/1/a", "1/1/b")
    assert [True, False, False] == begun("", "1/1/a", "1/1/b", "2/1/a")
    assert [False] == begun("1/1/a", "1/1/b")


def test_what_is_begun_at_once_counts_among_what_is_at_work() -> None:
    """An account leaves the same places free as with take(), and each place is free again when it is done."""
    assert [True] * (AT_WORK_MAX // 2) + [False] == begun("", *(f"1/{n}/x" for n in range(AT_WORK_MAX // 2 + 1)))


def test_nothing_is_begun_at_once_while_take_is_on_its_way() -> None:
    """It might take the connection's next request before what is begun has had its turn."""
    requests = filled("1/1/a")
    assert not requests.begin(2, 1)


def test_nothing_is_kept_of_connections_that_have_been_served() -> None:
    """Queues of connections that ask nothing take no memory, and no share."""
    requests = filled(*(f"1/{n}/x" for n in range(100)))
    taken(requests, 100)
    assert not requests._queues
    assert not requests._ready
