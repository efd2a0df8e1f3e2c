"""An examination: what is looked at in which order, and how long that may take.

    first    side by side: the daemon's pages, each address of each hub, what expires
    then     with what that brought: links, probes, mirrors and sources, clock, disk

Whatever hangs costs its own finding and no more: every step has a bound, and the whole has one. Not here: any step's
meaning.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from leafd import status
from leafd.config.schema.leafnodes import LeafRemote
from leafd.config.schema.server import ServerConfig
from leafd.doctor import copies, flows, hub as hubs, links, machine, servers, streams
from leafd.doctor.ask import held_back, pages
from leafd.doctor.findings import Check, Finding, Level, fault, unproven, warning, well
from leafd.doctor.hub import Hub
from leafd.doctor.local import EVERYWHERE, log_in, login_of
from leafd.doctor.rows import Stream, seconds, stream_of, streams_here
from leafd.doctor.wire import End, Session
from leafd.errors import LeafdError
from leafd.links.addresses import place_of
from leafd.records import dataclass

Page = Mapping[str, Any]
PAGES: Final = ("/varz", "/leafz", "/jsz?accounts=1&streams=1&consumers=1&config=1")
VARZ, LEAFZ, JSZ = PAGES
HUBS_MAX: Final = 16
"""Addresses that are tried; a box has one or two."""


@dataclass(frozen=True, slots=True)
class Case:
    """The facts known before an examination."""

    server: ServerConfig | None
    """The configuration; None: none was found."""
    page: Callable[[str], Page]
    """A page of the daemon's monitoring port; blocks. Raises LeafdError."""
    creds: Path | None = None
    """A login for the daemon, in place of the configuration's."""
    keys: Path | None = None
    """The folder of the configuration, where keys of its users may be."""
    timeout_s: float = 30.0
    host: str = "127.0.0.1"
    """The address of the monitoring port."""
    here: bool = True
    """The daemon is on this machine."""
    unit: str = "leafd.service"
    """By which systemd knows it."""


@dataclass(slots=True)
class _Examination:
    case: Case
    nursery: trio.Nursery
    findings: list[Finding] = field(default_factory=list)
    pages: dict[str, Page] = field(default_factory=dict)
    ahead_s: float = 0.0
    """The daemon's clock before the doctor's."""
    hubs: list[Hub] = field(default_factory=list)
    on_the_way: list[tuple[LeafRemote, Finding]] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    """The streams of this box."""
    theirs: dict[int, list[Stream]] = field(default_factory=dict)
    """The streams of each hub, by the id of its row in hubs."""
    clients: dict[str, Session | None] = field(default_factory=dict)
    """By account; None: there is no way in, and that was told."""
    entering: trio.Lock = field(default_factory=trio.Lock)
    unfinished: dict[str, int] = field(default_factory=dict)

    # ---- what is known

    @property
    def varz(self) -> Page:
        """The daemon's own report, an empty one where it does not answer."""
        return self.pages.get(VARZ, {})

    @property
    def jsz(self) -> Page:
        """The daemon's page of streams."""
        return self.pages.get(JSZ, {})

    @property
    def jetstream(self) -> Page:
        """How its JetStream is configured; empty where it has none."""
        found = (self.varz.get("jetstream") or {}).get("config")
        return found if isinstance(found, dict) else {}

    @property
    def own(self) -> str:
        """The domain of this box, "" without one."""
        return str(self.jetstream.get("domain") or "")

    def report(self, finding: Finding) -> None:
        """One more."""
        self.findings.append(finding)

    def configured(self) -> list[LeafRemote]:
        """The remotes of the configuration."""
        leafnodes = self.case.server.leafnodes if self.case.server is not None else None
        return [one for one in (leafnodes.remotes if leafnodes is not None else ()) if not one.disabled]

    def remotes(self) -> list[tuple[LeafRemote, str]]:
        """Every address of a hub."""
        return hubs.places(self.configured())[:HUBS_MAX]

    def address(self) -> tuple[str, int]:
        """The address at which the daemon serves clients."""
        if self.varz.get("port"):
            host = str(self.varz.get("host", ""))
            return (self.case.host if host in EVERYWHERE else host), int(self.varz["port"])
        return self.case.server.client_address() if self.case.server is not None else ("127.0.0.1", 4222)

    # ---- the order

    async def run(self) -> None:
        """The whole examination."""
        async with trio.open_nursery() as first:
            first.start_soon(self.step, "the daemon's pages", self.fetch)
            if self.case.here:
                first.start_soon(self.step, "systemd", partial(machine.service, self.case.unit, self.report))
            for remote, url in self.remotes():
                first.start_soon(self.step, "the way to the hub", partial(self.reach, remote, url))
            first.start_soon(self.step, "what expires", self.look_at_files)
        self.judge_ways()
        await self.step("what the daemon says", self.look_at_pages)
        async with trio.open_nursery() as then:
            store = str(self.jetstream.get("store_dir") or "")
            if store and self.case.here:
                then.start_soon(self.step, "the disk's speed", partial(machine.disk, store, self.report))
            for hub in self.hubs:
                then.start_soon(self.step, f"the clock of {hub.place}", partial(self.look_at_clock, hub))
            then.start_soon(self.step, "the flows", self.look_at_flows)

    async def step(self, name: str, what: Callable[[], Awaitable[None]]) -> None:
        """One step. What nobody foresaw costs the step, not the examination."""
        self.unfinished[name] = self.unfinished.get(name, 0) + 1
        try:
            await what()
        except (LeafdError, End) as error:
            self.report(unproven(Check.DAEMON, name, str(error)))
        except Exception as error:
            self.report(unproven(Check.DAEMON, name, f"a mistake of the doctor: {type(error).__name__}: {error}"))
        self.unfinished[name] -= 1

    # ---- first

    async def fetch(self) -> None:
        """The daemon's pages."""
        for path in PAGES:
            before = time.time()
            try:
                self.pages[path] = await trio.to_thread.run_sync(self.case.page, path, abandon_on_cancel=True)
            except LeafdError as error:
                self.report(
                    fault(
                        Check.DAEMON,
                        "this box",
                        f"the daemon does not answer: {error}",
                        owner="start it (systemctl start leafd), or name its monitoring port with --url",
                    )
                )
                return
            if path == VARZ:
                now = seconds(self.varz.get("now"))
                self.ahead_s = now - (before + time.time()) / 2 if now is not None else 0.0
        name = str(self.varz.get("server_name", ""))
        self.report(well(Check.DAEMON, "this box", f"{name} answers, up {self.varz.get('uptime', '')}"))

    async def reach(self, remote: LeafRemote, url: str) -> None:
        """One address of a hub, as far as it goes. Of several of one remote the first that lets us in is examined
        further; what keeps us from the others is then a warning."""
        found = await hubs.reach(remote, url, self.report_of(remote))
        if found is None:
            return
        self.nursery.start_soon(found.session.run)
        self.report(well(Check.HUB_LOGIN, found.place, f"logged in{_into(found)}"))
        machine.hub_certificate(found.place, found.certificate, self.report)
        if not any(one.remote is remote for one in self.hubs):
            self.hubs.append(found)

    def report_of(self, remote: LeafRemote) -> Callable[[Finding], None]:
        """Takes findings about one address of this remote."""
        return lambda finding: self.on_the_way.append((remote, finding))

    def judge_ways(self) -> None:
        """Judges the ways to the hubs."""
        reached = [one.remote for one in self.hubs]
        for remote, one in self.on_the_way:
            grave = one.level is Level.FAULT and any(other is remote for other in reached)
            self.report(replace(one, level=Level.WARNING) if grave else one)
        self.on_the_way.clear()

    async def look_at_files(self) -> None:
        """Judges the files that the configuration names, and their expiry."""
        if self.case.server is None:
            return
        machine.certificates(self.case.server, self.report)
        for remote in self.configured():
            machine.credentials(remote, self.report)

    # ---- then

    async def look_at_pages(self) -> None:
        """Judges the daemon's own pages."""
        if self.varz:
            places = [place_of(url) for _, url in self.remotes()]
            links.judge(self.varz, dict.fromkeys(places), self.report)
            machine.memory(self.varz, self.report)
            machine.devices(self.varz, self.report)
            servers.judge(self.varz, self.jsz, self.report)
        if self.jetstream:
            machine.room(self.varz, self.jsz, self.report)
            machine.accounts(self.jsz, self.report)
            copies.old_origins(self.jsz, self.report)
        self.streams = streams_here(self.jsz)
        self.report_all(streams.limits(self.streams, here=True))

    async def client(self, account: str) -> Session | None:
        """A client of the daemon in an account; None: there is no way in."""
        async with self.entering:
            if account not in self.clients:
                self.clients[account] = None
                try:
                    login = login_of(self.case.server, account, self.case.creds, self.case.keys)
                    found = await log_in(self.address(), self.case.server, login)
                except LeafdError as error:
                    self.report(unproven(Check.DAEMON, f"account {account}", str(error)))
                else:
                    self.clients[account] = found
                    self.nursery.start_soon(found.run)
        return self.clients[account]

    async def look_at_clock(self, hub: Hub) -> None:
        """Compares this box's clock with the hub's."""
        await machine.clock(hub, self.ahead_s, self.report)

    async def look_at_flows(self) -> None:
        """Each hub, then each copy."""
        if not self.varz:
            return
        async with trio.open_nursery() as nursery:
            for hub in self.hubs:
                nursery.start_soon(self.step, f"the link to {hub.place}", partial(self.look_at_hub, hub))
        leaves = status.links(self.varz, self.pages.get(LEAFZ, {}))
        sides = copies.Sides(
            own=self.own,
            streams=self.streams,
            hubs=self.hubs,
            linked=frozenset(one.account for one in self.configured()),
            down=links.down(self.varz),
            leaves=frozenset(one.account for one in leaves if one.role == "leaf"),
        )
        more = len(copies.all_pulls(self.streams)) - copies.PULLS_MAX
        if more > 0:
            self.report(unproven(Check.ORIGIN, "this box", f"{more} more mirrors and sources were not looked at"))
        async with trio.open_nursery() as nursery:
            for pull in copies.all_pulls(self.streams)[: copies.PULLS_MAX]:
                client = await self.client(pull.stream.account)
                looking = partial(copies.look_here, pull, sides, client, self.report)
                nursery.start_soon(self.step, pull.about, looking)
            for hub in self.hubs:
                for pull in copies.taken_from(self.theirs.get(id(hub), []), self.own)[: copies.PULLS_MAX]:
                    looking = partial(copies.look_there, pull, sides, hub, self.report)
                    nursery.start_soon(self.step, pull.about, looking)

    async def look_at_hub(self, hub: Hub) -> None:
        """Examines the links between this box and one hub. A link of the system account carries neither streams nor
        probes."""
        if hub.remote.account == self.varz.get("system_account"):
            return
        if self.jetstream and not flows.domains(hub, self.own, self.report):
            return
        client = await self.client(hub.remote.account)
        here = [one for one in self.streams if one.account == hub.remote.account]
        needed = any(pull.domain == hub.domain for pull in copies.all_pulls(here))
        answered = await flows.api_up(hub, client, self.report, needed=needed)
        listing = f"$JS.{hub.domain}.API.STREAM.LIST"
        if answered.there and not held_back(hub, up=(listing,)):
            rows = await pages(hub.session, listing)
            theirs = self.theirs[id(hub)] = [stream_of(one, hub.account, hub=True) for one in rows]
            self.report_all(streams.twice(hub, here, theirs, self.own))
            self.report_all(streams.limits([one.stream for one in copies.taken_from(theirs, self.own)], here=False))
        isolates = False
        if client is not None:
            known = [*self.streams, *self.theirs.get(id(hub), [])]
            subjects = [subject for one in known for subject in one.subjects]
            isolates = await flows.probes(hub, client, subjects, answered, self.report)
        if self.jetstream:
            await flows.api_down(hub, self.own, self.report, listener=client if isolates else None)

    def report_all(self, found: Iterable[Finding]) -> None:
        """Several."""
        for one in found:
            self.report(one)


def _into(hub: Hub) -> str:
    return f" to the account {hub.account}" if hub.account else ""


async def examine(case: Case) -> list[Finding]:
    """All that is found within the time that there is."""
    async with trio.open_nursery() as nursery:
        examination = _Examination(case, nursery)
        with trio.move_on_after(case.timeout_s):
            await examination.run()
        examination.judge_ways()
        for name, times in examination.unfinished.items():
            if times > 0:
                text = f"not finished within {case.timeout_s:g} s: it hangs, or needs a longer --timeout"
                examination.report(warning(Check.DAEMON, name, text))
        nursery.cancel_scope.cancel()
    return examination.findings
