"""What waits for its turn: who asks little is served next, whoever asks at full speed loses only his own."""

from __future__ import annotations

import trio
from leafd.fair import LEAST, FairQueue

REQUESTS_MAX = 1000
BYTES_MAX = 1 << 20
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
    return FairQueue(waiting=REQUESTS_MAX, size=BYTES_MAX, at_work=AT_WORK_MAX, at_work_each=AT_WORK_EACH)


def filled(*names: str) -> FairQueue[str]:
    """A queue of these requests, in their order."""
    requests = empty()
    for name in names:
        account, connection = map(int, name.split("/")[:2])
        assert requests.put(account, connection, name, 1)
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


def test_whoever_comes_when_a_flood_has_filled_the_queue_is_taken_up_and_served_next() -> None:
    """A flooding connection loses its own requests; a newcomer's first one waits behind one of the flood."""
    requests = filled("1/1/0")
    accepted = sum(requests.put(1, 1, f"1/1/{n}", 1) for n in range(REQUESTS_MAX * 2))
    assert accepted < REQUESTS_MAX
    assert requests.dropped > REQUESTS_MAX
    assert requests.put(1, 2, "1/2/x", 1)
    assert "1/2/x" in taken(requests, 2)


def test_a_connection_may_have_a_few_waiting_among_thousands_of_others() -> None:
    """The share never goes below a handful."""
    requests = filled(*(f"1/{n}/x" for n in range(REQUESTS_MAX)))
    assert all(requests.put(1, 0, "1/0/y", 0) for _ in range(LEAST - 1))
    assert not requests.put(1, 0, "1/0/z", 0)


def test_large_requests_are_bounded_in_bytes_too() -> None:
    """One connection may not keep more waiting than all may."""
    requests = empty()
    size = BYTES_MAX // 10
    assert 10 == sum(requests.put(1, 1, "1/1/x", size) for _ in range(30))
    assert requests.put(1, 2, "1/2/x", BYTES_MAX), "the first one of a connection is always taken up"


def test_a_connection_has_only_its_share_at_work() -> None:
    """While one connection's requests wait for something, another's are begun; and all together are bounded."""
    requests = filled(*(f"1/1/{n}" for n in range(AT_WORK_EACH * 2)), *(f"1/{c}/x" for c in range(2, 200)))

    async def main() -> list[str]:
        found: list[str] = []
        with trio.move_on_after(0.05):
            while True:
                found.append(await requests.take())
        return found

    found = trio.run(main)
    assert AT_WORK_MAX == len(found)
    assert AT_WORK_EACH >= sum(one.startswith("1/1/") for one in found)


def test_nothing_is_kept_of_connections_that_have_been_served() -> None:
    """Queues of connections that ask nothing take no memory, and no share."""
    requests = filled(*(f"1/{n}/x" for n in range(100)))
    taken(requests, 100)
    assert not requests._queues
    assert not requests._ready
