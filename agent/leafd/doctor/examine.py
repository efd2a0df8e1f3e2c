"""An examination: what is looked at in which order, and how long that may take.

    first    side by side: the daemon's pages, each address of each hub
    then     with what that brought: links, probes

Whatever hangs costs its own finding and no more: every step has a bound, and the whole has one. What does not live
here: any step's meaning.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from leafd.config.schema.leafnodes import LeafRemote
from leafd.config.schema.server import ServerConfig
from leafd.doctor import flows, hub as hubs
from leafd.doctor.findings import Check, Finding, fault, unproven, well
from leafd.doctor.hub import Hub
from leafd.doctor.local import NoLogin, log_in, login_of
from leafd.doctor.wire import End, Session
from leafd.errors import LeafdError
from leafd.records import dataclass

Page = Mapping[str, Any]
PAGES: Final = ("/varz", "/leafz", "/jsz?accounts=1&streams=1&consumers=1&config=1")
HUBS_MAX: Final = 16
"""Addresses that are tried; a box has one or two."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is known before the examination."""

    server: ServerConfig | None
    """The configuration; None: none was found."""
    page: Callable[[str], Page]
    """A page of the daemon's monitoring port; blocks. Raises LeafdError."""
    creds: Path | None = None
    """A login for the daemon, in place of the configuration's."""
    timeout_s: float = 30.0


@dataclass(slots=True)
class _Examination:
    case: Case
    nursery: trio.Nursery
    findings: list[Finding] = field(default_factory=list)
    pages: dict[str, Page] = field(default_factory=dict)
    hubs: list[Hub] = field(default_factory=list)
    clients: dict[str, Session | None] = field(default_factory=dict)
    """By account; None: there is no way in, and that was told."""
    unfinished: dict[str, int] = field(default_factory=dict)

    @property
    def varz(self) -> Page:
        """The daemon's own report, an empty one where it does not answer."""
        return self.pages.get(PAGES[0], {})

    def report(self, finding: Finding) -> None:
        """One more."""
        self.findings.append(finding)

    async def run(self) -> None:
        """All of it."""
        async with trio.open_nursery() as first:
            first.start_soon(self.step, "the daemon's pages", self.fetch)
            for remote, url in self.remotes():
                first.start_soon(self.step, "the way to the hub", partial(self.reach, remote, url))
        async with trio.open_nursery() as then:
            for hub in self.hubs:
                then.start_soon(self.step, f"the link to {hub.place}", partial(self.look_at_hub, hub))

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

    def remotes(self) -> list[tuple[LeafRemote, str]]:
        """Every address of a hub."""
        leafnodes = self.case.server.leafnodes if self.case.server is not None else None
        return hubs.places(leafnodes.remotes if leafnodes is not None else ())[:HUBS_MAX]

    async def fetch(self) -> None:
        """The daemon's pages."""
        for path in PAGES:
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
        name = str(self.varz.get("server_name", ""))
        self.report(well(Check.DAEMON, "this box", f"{name} answers, up {self.varz.get('uptime', '')}"))

    async def reach(self, remote: LeafRemote, url: str) -> None:
        """One address of a hub, as far as it goes."""
        found = await hubs.reach(remote, url, self.report)
        if found is not None:
            self.hubs.append(found)
            self.nursery.start_soon(found.session.run)
            self.report(well(Check.HUB_LOGIN, found.place, f"logged in{_into(found)}"))

    async def client(self, account: str) -> Session | None:
        """A client of the daemon in an account; None: there is no way in."""
        if account not in self.clients:
            self.clients[account] = None
            server = self.case.server
            try:
                login = login_of(server, account, self.case.creds)
                found = await log_in(self.address(), server, login)
            except NoLogin as error:
                self.report(unproven(Check.DAEMON, f"account {account}", str(error)))
            else:
                self.clients[account] = found
                self.nursery.start_soon(found.run)
        return self.clients[account]

    def address(self) -> tuple[str, int]:
        """Where the daemon serves clients."""
        if self.varz.get("port"):
            return str(self.varz.get("host", "")), int(self.varz["port"])
        return self.case.server.client_address() if self.case.server is not None else ("127.0.0.1", 4222)

    async def look_at_hub(self, hub: Hub) -> None:
        """What there is between this box and one hub."""
        if not self.varz:
            return
        jetstream = self.varz.get("jetstream") or {}
        flows.domains(hub, str((jetstream.get("config") or {}).get("domain") or ""), self.report)
        client = await self.client(hub.remote.account)
        if client is not None:
            await flows.probes(hub, client, self.report)


def _into(hub: Hub) -> str:
    return f" to the account {hub.account}" if hub.account else ""


async def examine(case: Case) -> list[Finding]:
    """All that is found within the time that there is."""
    async with trio.open_nursery() as nursery:
        examination = _Examination(case, nursery)
        with trio.move_on_after(case.timeout_s):
            await examination.run()
        for name, times in examination.unfinished.items():
            if times > 0:
                examination.report(
                    unproven(Check.DAEMON, name, f"not finished within {case.timeout_s:g} s: --timeout gives it more")
                )
        nursery.cancel_scope.cancel()
    return examination.findings
