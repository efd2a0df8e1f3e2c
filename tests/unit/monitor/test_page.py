"""The status page without a browser: its history has bounds, its readers have bounds, and nobody sees it unasked."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import h11
import pytest
import trio
import trio.testing
from leafd.auth.policy import Person, Policy
from leafd.auth.verdict import Refusal
from leafd.config.bind import load_text
from leafd.guard import Guard
from leafd.logins.guesses import Guesses
from leafd.logins.page_logins import PageLogins, _judged
from leafd.monitor.http import _live
from leafd.monitor.page import feed as feeds, view as views
from leafd.monitor.page.feed import LIFE_S, READERS_MAX, SEND_S, Feed
from leafd.monitor.page.history import COLUMNS, LOOKS_MAX, PERIOD_S, SAMPLES, History
from leafd.monitor.page.routes import EVENTS, GUARDS, HOME, PAGE, PATHS, Page, Reply, credentials, escaped
from leafd.monitor.page.view import View, changes, whole

from tests.rig.logs import KeptLog

HOSTILE = "<script>alert('x')</script>\"&\n%%NAME%%"


class Streams:
    """JetStream as the history reads it: streams with one source each, so many messages behind."""

    def __init__(self, number: int) -> None:
        self.behind: dict[str, int | None] = {f"S{one}": one for one in range(number)}
        self.looks = 0
        config = SimpleNamespace(mirror=None, sources=(object(),))
        streams = {name: SimpleNamespace(name=name, config=config, consumers={}) for name in self.behind}
        account = SimpleNamespace(name="A", enabled=True, streams=streams)
        self.catalogue = SimpleNamespace(by_name={"A": account})
        self.tight: dict[tuple[str, str, int], int] = {}

    async def look(self, account: str, request: str) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        self.looks += 1
        name = request.removeprefix("STREAM.INFO.")
        return {"sources": [{"name": "T", "lag": 9, "active": 0, "leafd": {"behind": self.behind[name]}}]}


def facts_with(jetstream: Streams | None = None) -> Any:
    """What the page asks of a server, with counters that a test sets."""
    stats = SimpleNamespace(in_msgs=0, out_msgs=0, in_bytes=0, out_bytes=0, store_bytes=0, disk_bytes=0)
    return SimpleNamespace(
        jetstream=jetstream,
        plane=SimpleNamespace(stats=lambda: SimpleNamespace(**vars(stats))),
        leafs=SimpleNamespace(remotes=()),
        guard=Guard(),
        loaded_ns=1,
        monitor=("127.0.0.1", 8222),
        login=None,
        counted=stats,
        config=load_text('http: "127.0.0.1:8222"').server,
    )


def on_faked_time(main: Callable[[], Any]) -> None:
    """Runs it with a clock that goes on when everybody waits."""
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


# ---- the history


def test_the_history_takes_the_same_memory_after_hours() -> None:
    """The arrays never grow, and of more samples than they hold the last hour's are there, in their order."""
    facts = facts_with()
    history = History(facts)
    assert (history.size_bytes, PERIOD_S * SAMPLES) == (31_680, 3600)

    async def main() -> None:
        for number in range(SAMPLES + 40):
            facts.counted.disk_bytes = number + 1000
            await history.sample()

    trio.run(main)
    assert history.size_bytes == 31_680
    kept = history.since(0, history.taken)
    assert set(kept) == set(COLUMNS)
    assert kept["disk"] == list(range(1040, 1040 + SAMPLES))
    assert history.since(history.taken - 2, history.taken)["disk"] == [1000 + SAMPLES + 38, 1000 + SAMPLES + 39]
    assert history.since(history.taken, history.taken)["disk"] == []


def test_rates_are_what_was_counted_in_the_time_that_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand messages in ten seconds are a hundred a second; before the first sample there is no rate."""
    facts, now = facts_with(), [50.0]
    monkeypatch.setattr("leafd.monitor.page.history.time.monotonic", lambda: now[0])
    history = History(facts)

    async def main() -> None:
        await history.sample()
        facts.counted.in_msgs, now[0] = 1000, 60.0
        await history.sample()

    trio.run(main)
    assert history.since(0, history.taken)["in_msgs"] == [0, 100]


def test_a_clock_that_is_set_moves_the_whole_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples are as far apart as they were taken, and the last one is now, whatever the clock showed before."""
    facts, now = facts_with(), {"monotonic": 5.0, "time": 0.0}
    for name in now:
        monkeypatch.setattr(f"leafd.monitor.page.history.time.{name}", partial(now.__getitem__, name))
    history = History(facts)

    async def main() -> None:
        await history.sample()
        now.update(monotonic=15.0, time=1_790_000_000.0)
        await history.sample()

    trio.run(main)
    assert history.since(0, history.taken)["time"] == [1_789_999_990_000, 1_790_000_000_000]


def test_a_sample_looks_at_few_streams_and_the_sum_is_that_of_all() -> None:
    """A thousand sources take as many samples as it needs; then the backlog is that of every one of them."""
    jetstream = Streams(1000)
    history = History(facts_with(jetstream))

    async def main() -> None:
        for number in range(1, 1000 // LOOKS_MAX + 2):
            await history.sample()
            assert jetstream.looks <= number * LOOKS_MAX
        await history.sample()

    trio.run(main)
    assert history.backlog.behind == sum(range(1000))


def test_a_stream_of_many_sources_is_looked_at_seldom() -> None:
    """A hub's stream with a thousand leaves costs no more than so many looks a sample, in the long run."""
    jetstream = Streams(1)
    account = jetstream.catalogue.by_name["A"]
    account.streams["S0"].config.sources = (object(),) * 1000
    history = History(facts_with(jetstream))

    async def main() -> None:
        for _ in range(160):
            await history.sample()

    trio.run(main)
    assert 9 <= jetstream.looks <= 160 * LOOKS_MAX / 1000 + 1


def test_what_no_copy_knows_is_a_gap_and_no_zero() -> None:
    """While nobody tells how far a copy is behind, the plot has no point; the known ones are summed."""
    jetstream = Streams(2)
    history = History(facts_with(jetstream))

    async def sampled() -> float | None:
        await history.sample()
        return history.since(0, history.taken)["behind"][-1]

    async def main() -> list[float | None]:
        found = []
        for behind in ((3, 4), (None, 4), (None, None), (0, 0)):
            jetstream.behind = {f"S{one}": number for one, number in enumerate(behind)}
            found.append(await sampled())
        return found

    assert trio.run(main) == [7, 4, None, 0]


# ---- readers


class Made:
    """Stands in for view(): counts, and makes views of one row that changes."""

    def __init__(self) -> None:
        self.times = 0

    async def view(self, facts: Any, history: History, before: View | None) -> View:
        await trio.lowlevel.checkpoint()
        self.times += 1
        return View(0.0, 0, {"server": {"name": "x"}}, {"A": [self.times], "B": ["same"]}, {})


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """Views that cost nothing."""
    found = Made()
    monkeypatch.setattr(views, "view", found.view)
    return found


def test_nothing_is_computed_while_nobody_looks(made: Made) -> None:
    """No view is made before the first reader and none after the last."""
    feed = Feed(facts_with(), History(facts_with()))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed.run)
            await trio.sleep(100)
            assert made.times == 0
            with feed.seat("::1"):
                await trio.sleep(10)
            seen = made.times
            assert seen > 1
            await trio.sleep(100)
            assert made.times <= seen + 1
            nursery.cancel_scope.cancel()

    on_faked_time(main)


def test_a_reader_whose_time_is_over_is_let_go_without_a_word(made: Made) -> None:
    """After LIFE_S the stream of events ends where it stands: no second answer, and nothing unexpected."""
    facts, reader = facts_with(), h11.Connection(h11.SERVER)
    feed = Feed(facts, History(facts))
    reader.receive_data(b"GET /page/events HTTP/1.1\r\nHost: x\r\n\r\n")
    assert isinstance(reader.next_event(), h11.Request)
    assert isinstance(reader.next_event(), h11.EndOfMessage)

    async def main() -> None:
        ours, theirs = trio.testing.memory_stream_pair()
        port = cast(Any, SimpleNamespace(page=SimpleNamespace(feed=feed)))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed.run)
            began = trio.current_time()
            await _live(ours, reader, port, Reply(200, "text/event-stream", live=True), "::1")
            assert trio.current_time() - began == LIFE_S
            nursery.cancel_scope.cancel()
        await ours.aclose()
        said = b"".join([part async for part in theirs])
        assert (1, 0) == (said.count(b"HTTP/1.1 200 "), said.count(b"HTTP/1.1 503 "))

    on_faked_time(main)


def test_the_first_event_is_everything_and_the_next_ones_what_changed(made: Made) -> None:
    """Views are made once, however many read them."""
    facts = facts_with()
    feed, got = Feed(facts, History(facts)), dict[str, list[bytes]]()

    async def read(name: str) -> None:
        async def send(text: bytes) -> None:
            got.setdefault(name, []).append(text)

        with feed.seat(name):
            await feed.follow(send)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed.run)
            nursery.start_soon(read, "one")
            nursery.start_soon(read, "two")
            await trio.sleep(7)
            nursery.cancel_scope.cancel()

    on_faked_time(main)
    assert got["one"] == got["two"]
    assert [text.partition(b"\n")[0] for text in got["one"][:3]] == [b"retry: 1000", b"event: whole", b"event: change"]
    assert b'"streams":{"A":[2]}' in got["one"][2]
    assert made.times == len(got["one"]) - 1


def test_a_reader_who_does_not_read_is_let_go(made: Made) -> None:
    """He has so many seconds to take an event, and the others are served meanwhile."""
    facts = facts_with()
    feed, ended, others = Feed(facts, History(facts)), list[float](), list[bytes]()

    async def stuck(text: bytes) -> None:
        await trio.sleep_forever()

    async def well(text: bytes) -> None:
        others.append(text)

    async def read(send: Any) -> None:
        with feed.seat("::1"):
            await feed.follow(send)
        ended.append(trio.current_time())

    async def main() -> None:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed.run)
            nursery.start_soon(read, stuck)
            nursery.start_soon(read, well)
            await trio.sleep(SEND_S + 1)
            assert [one - began for one in ended] == [SEND_S]
            assert len(others) > SEND_S / feeds.PERIOD_S
            await trio.sleep(LIFE_S)
            assert [one - began for one in ended] == [SEND_S, LIFE_S]
            nursery.cancel_scope.cancel()

    on_faked_time(main)


def test_a_reload_ends_what_a_user_of_before_sees(made: Made) -> None:
    """The browser comes again, and is asked anew who it is."""
    facts = facts_with()
    feed = Feed(facts, History(facts))

    async def send(text: bytes) -> None:
        facts.loaded_ns += text.startswith(b"event: change")

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed.run)
            with feed.seat("::1"), trio.fail_after(60):
                await feed.follow(send)
            nursery.cancel_scope.cancel()

    on_faked_time(main)


def test_readers_are_few_and_no_address_takes_all_seats() -> None:
    """One too many is turned away; another address gets the oldest seat of the one that has most."""
    feed, gone, refused = Feed(facts_with(), History(facts_with())), list[int](), list[str]()

    async def read(address: str, number: int) -> None:
        with feed.seat(address) as seat:
            if seat is None:
                refused.append(address)
                return
            await trio.sleep_forever()
        gone.append(number)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for number in range(READERS_MAX + 5):
                nursery.start_soon(read, "192.0.2.1", number)
                await trio.testing.wait_all_tasks_blocked()
            assert (refused, gone) == (["192.0.2.1"] * 5, [])
            nursery.start_soon(read, "192.0.2.2", 100)
            await trio.testing.wait_all_tasks_blocked()
            assert (len(refused), gone) == (5, [0])
            nursery.cancel_scope.cancel()

    trio.run(main)


@pytest.mark.parametrize("seed", range(20))
def test_changes_make_of_what_was_seen_what_there_is(seed: int) -> None:
    """Whoever applies what changed to the view before has the next one."""
    dice, history = random.Random(seed), History(facts_with())

    def some() -> View:
        rows = {f"k{one}": [one, dice.randrange(3)] for one in range(12) if dice.random() < 0.7}
        return View(0.0, 0, {"links": [dice.randrange(2)], "disk": {"free": dice.randrange(3)}}, rows, dict(rows))

    before = some()
    shown = whole(before, history)
    for _ in range(10):
        now = some()
        news = changes(before, now, history)
        shown |= {name: news[name] for name in ("links", "disk") if name in news}
        for kind in ("streams", "consumers"):
            rows = {key: row for key, row in shown[kind].items() if key not in news.get("gone", {}).get(kind, ())}
            shown[kind] = rows | news.get(kind, {})
        assert shown == whole(now, history)
        before = now


def test_no_sample_is_sent_twice() -> None:
    """What was sampled since a view comes with the next one, also to who has just come."""
    facts = facts_with()
    history, sent = History(facts), list[float | None]()

    async def main() -> None:
        before = View(0.0, 0, {}, {}, {})
        for number in range(1, 4):
            facts.counted.disk_bytes = number
            await history.sample()
            if number == 1:
                sent.extend(whole(before, history)["history"]["disk"])
                continue
            now = View(0.0, history.taken, {}, {}, {})
            sent.extend(changes(before, now, history)["history"]["disk"])
            before = now

    trio.run(main)
    assert sent == [1, 2, 3]


# ---- who may see it


def test_credentials_are_those_of_http_basic_and_nothing_else() -> None:
    """A password may hold colons; what cannot be read is nobody's."""
    assert credentials(b"Basic " + base64.b64encode("usér:a:b".encode())) == ("usér", "a:b")
    for header in (b"", b"Basic", b"Basic !!!", b"Basic " + base64.b64encode(b"\xff:x"), b"Bearer eDp5"):
        assert credentials(header) == ("", "")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7"])
def test_elsewhere_than_on_loopback_only_the_list_and_the_files_are_open(host: str) -> None:
    """The page and its events are for whom the login admits; with no login at all they are for nobody."""
    facts, asked = facts_with(), list[tuple[str, str, str]]()
    facts.monitor = (host, 8222)
    page = Page(facts, "", ("/varz",))

    async def login(user: str, password: str, address: str, wanted: Callable[[], bool]) -> bool:
        asked.append((user, password, address))
        return password == "right"

    async def admitted(password: str) -> set[str]:
        header = b"Basic " + base64.b64encode(f"admin:{password}".encode()) if password else b""
        return {path for path in PATHS if await page.admits(path, header, "192.0.2.1", lambda: True)}

    async def main() -> None:
        free = {HOME, "/page.css", "/page.js"}
        assert await admitted("right") == free
        facts.login = login
        assert await admitted("right") == set(PATHS)
        assert await admitted("wrong") == free
        assert await admitted("") == free
        assert set(asked) == {("admin", "right", "192.0.2.1"), ("admin", "wrong", "192.0.2.1")}
        assert (await page.reply(PAGE, False)).status == 401
        assert (await page.reply(EVENTS, False)).status == 401
        home = await page.reply(HOME, True)
        assert (home.status, b'href="/varz"' in home.body, b'href="/status"' in home.body) == (200, True, True)

    trio.run(main)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1"])
def test_on_loopback_nobody_has_to_log_in(host: str) -> None:
    """Whoever reaches the port is on this machine."""
    facts = facts_with()
    facts.monitor = (host, 8222)

    async def main() -> None:
        page = Page(facts, "", ())
        assert all([await page.admits(path, b"", "127.0.0.1", lambda: True) for path in PATHS])

    trio.run(main)


def test_only_users_of_the_system_account_are_let_in() -> None:
    """By the password, in the configuration's form; users of other accounts and wrong passwords are not."""
    people = {name: Person(name, account, "secret") for name, account in (("admin", "SYS"), ("user", "A"))}
    policy = Policy(people, {}, open=False)
    graph = cast(Any, SimpleNamespace(system=SimpleNamespace(name="SYS")))
    found, log = {}, KeptLog()

    async def main() -> None:
        guesses = Guesses(Guard())
        logins = PageLogins(guesses, log, lambda: policy, lambda: graph)
        async with trio.open_nursery() as nursery:
            await nursery.start(guesses.run)
            for user, password in (("admin", "secret"), ("admin", "wrong"), ("user", "secret"), ("nobody", "secret")):
                found[user, password] = await logins.admits(user, password, "::1", lambda: True)
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert found == {
        ("admin", "secret"): True,
        ("admin", "wrong"): False,
        ("user", "secret"): False,
        ("nobody", "secret"): False,
    }
    assert log.texts == [
        '::1 - status page - User "admin": Authorization Violation',
        '::1 - status page - User "user": not of the system account',
        '::1 - status page - User "nobody": Authorization Violation',
    ]


def test_nobody_learns_which_users_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a name that does not exist one hash is checked, as for a name that does."""
    checked: list[str] = []
    monkeypatch.setattr("leafd.logins.page_logins.matches", lambda configured, sent: checked.append(configured))
    policy = Policy({"admin": Person("admin", "SYS", "$2b$04$" + "x" * 53)}, {}, open=False)
    refused = _judged({"user": "nobody", "pass": "guess"}, policy, "::1")

    assert isinstance(refused, Refusal)
    assert checked == [policy.users["admin"].password]


def test_no_text_ends_an_element_and_scripts_come_from_here_only() -> None:
    """Names are escaped in the page for browsers without scripts, and the headers forbid scripts in the text."""
    assert "<" not in escaped(HOSTILE)
    assert '"' not in escaped(HOSTILE)
    policy = dict(GUARDS)["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert dict(GUARDS)["X-Content-Type-Options"] == "nosniff"
