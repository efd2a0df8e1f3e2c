"""A daemon from its first import to its end: pid and ports files, signals, systemd. What comes before is start.py.

TERM, INT stop    HUP reload    USR1 reopen the log    USR2 lame duck
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from leafd.auth.passwords import is_hash
from leafd.config.bind import Loaded
from leafd.config.flags import Flags
from leafd.daemon.declarations import declared_by
from leafd.daemon.expiry import Expiry
from leafd.daemon.reload import Reloads
from leafd.daemon.server import Server
from leafd.errors import StartError
from leafd.host import start_signals
from leafd.host.anew import Again
from leafd.host.garbage import end_start, short_collections
from leafd.host.gauge import Gauge
from leafd.host.listeners import Sockets
from leafd.host.log import Log
from leafd.host.systemd import Life, Notifier
from leafd.native_functions import give_back
from leafd.turns import SWITCH_S

if TYPE_CHECKING:
    from leafd.declared.assets import Declared

WARNINGS_KEPT = 20
"""For the status page."""


def serve(loaded: Loaded, flags: Flags, log: Log, sockets: Sockets) -> None:
    """Serves until a signal ends it. Raises LeafdError, alone or in groups."""
    if sockets.monitor is not None:
        log.keep(WARNINGS_KEPT)
    server = Server(loaded.server, log, sockets)
    server.facts.digest = loaded.digest
    try:
        declared = declared_by(loaded, server.current.compiled.graph)
        start_signals.judge()
        server.read_records()
        start_signals.judge()
        gauge = Gauge(log)
        server.facts.turns = gauge.report
        sys.setswitchinterval(SWITCH_S)
        trio.run(_main, server, flags, gauge, declared, instruments=[gauge])
    finally:
        server.close()
    if server.alarms.begins_again:
        raise Again


async def _main(server: Server, flags: Flags, gauge: Gauge, declared: Declared | None) -> None:
    notifier = Notifier()
    log = server.log
    with trio.open_signal_receiver(*start_signals.SIGNALS) as signals:
        start_signals.release()
        try:
            async with trio.open_nursery() as nursery:
                load_late_modules(server)
                await server.start(nursery, declared)
                await _start_services(server, nursery)
                # Behind the services: a client that comes at once and asks one of them is not told "no responders".
                server.listeners.begin_clients()
                with _files(server), short_collections():
                    if notifier.watchdog_s:
                        nursery.start_soon(_watchdog, server, notifier)
                    server.about.log_start(log, server.current.store)
                    notifier.ready(await _first_status(server, notifier, nursery))
                    # The first counters compile their class, which takes 250 KB that end_start() gives back.
                    server.plane.stats()
                    end_start(give_back)
                    gauge.begin()
                    reloads = Reloads(
                        server.current,
                        server.takeover,
                        server.declarations,
                        server.book,
                        flags,
                        notifier,
                        log,
                        server.guard,
                    )
                    nursery.start_soon(reloads.run)
                    async for number in signals:
                        if number in start_signals.ENDING:
                            break
                        with server.guard.around(f"handling {signal.Signals(number).name}"):
                            _handle(number, server, reloads, notifier, nursery)
                    if not server.alarms.begins_again:
                        log.info("Initiating Shutdown...", event="stopping")
                        notifier.stopping()
                    await server.hand_over()
                    server.unlisten()
                    nursery.cancel_scope.cancel()
        finally:
            await server.stop()


def _handle(number: int, server: Server, reloads: Reloads, notifier: Notifier, nursery: trio.Nursery) -> None:
    """A signal that does not end the process at once."""
    log = server.log
    if number == signal.SIGHUP:
        reloads.ask()
    elif number == signal.SIGUSR1:
        log.reopen()
        log.info("File log re-opened")
    elif number == signal.SIGUSR2:
        log.info("Entering lame duck mode, stop accepting new clients", event="lame_duck")
        notifier.stopping()
        nursery.start_soon(_leave, server)


def load_late_modules(server: Server) -> None:
    """Imports, before anybody can connect, what this configuration will need only later: an import opens files, and a
    client that fills the process's descriptors must not decide whether it succeeds."""
    wanted = ["leafd.monitor.services"]
    if server.current.config.syslog_url():
        wanted.append("encodings.idna")  # to look its name up
    if server.sockets.monitor is not None:
        wanted += ["leafd.monitor.http", "leafd.logins.page_logins"]
        if server.current.config.monitors_securely:
            wanted.append("leafd.monitor.secure")
    policies = (server.current.compiled.policy, server.current.compiled.leaf_policy)
    if any(is_hash(policy.token) or any(is_hash(one.password) for one in policy.users.values()) for policy in policies):
        wanted.append("bcrypt")
    if any(policy.asks_for_nkeys for policy in policies) or server.boxes is not None:
        wanted += ["nacl.signing", "nacl.exceptions"]
    if any(policy.trust is not None for policy in policies):
        wanted += ["leafd.auth.jwt_verdict", "leafd.auth.hours"]
    for name in wanted:
        importlib.import_module(name)


async def _load_late_modules(server: Server) -> None:
    """After a reload, which may bring the first hashed password or the first nkey."""
    load_late_modules(server)


async def _start_services(server: Server, nursery: trio.Nursery) -> None:
    """Monitoring and the system account's services, each loaded only when it is wanted."""
    from leafd.monitor.services import Services

    expiry = Expiry(lambda: server.current.config, server.log, server.guard)
    nursery.start_soon(expiry.run)
    if server.book is not None:
        from leafd.monitor.claims import ClaimsServices

        claims = ClaimsServices(server.facts, server.plane, server.book)
        server.book.ask_others, server.book.resolver_changed = claims.ask_others, claims.subscribe
        await nursery.start(claims.run)
        nursery.start_soon(server.book.run)
    services = Services(
        server.facts, server.plane, lambda: os.kill(os.getpid(), signal.SIGHUP), send_away=server.farewell.send_away
    )
    await nursery.start(services.run)
    await nursery.start(server.events.run)
    server.current.followers += [services.subscribe, partial(_load_late_modules, server), expiry.look]
    if server.sockets.mqtt is not None and server.jetstream is not None:
        from leafd.daemon.mqtt import bound_retained

        bound = partial(bound_retained, server.jetstream, server.current, server.log)
        server.current.followers.append(bound)
        with server.guard.around("the bounds of retained messages"):
            await bound()
    if server.sockets.monitor is not None:
        from leafd.logins.page_logins import PageLogins
        from leafd.monitor.http import serve

        logins = PageLogins(
            server.clients.guesses,
            server.log,
            lambda: server.current.compiled.policy,
            lambda: server.current.compiled.graph,
            lambda: server.clients.call_out,
        )
        server.facts.login, server.facts.warnings = logins.admits, lambda: server.log.recent or ()
        nursery.start_soon(serve, server.sockets.monitor, server.facts, server.current.config.http_base_path)


async def _leave(server: Server) -> None:
    with server.guard.around("lame duck mode"):
        await server.farewell.lame_duck()
    os.kill(os.getpid(), signal.SIGTERM)


async def _first_status(server: Server, notifier: Notifier, nursery: trio.Nursery) -> str:
    """The first status line for systemd, if that listens; from then on it is kept up to date."""
    if not notifier.heard:
        return ""
    from leafd.daemon.status_line import StatusLine

    takes_leafs = server.sockets.leaf is not None
    kept = StatusLine(server.plane, server.leafs, server.replicas, takes_leafs=takes_leafs, guard=server.guard)
    line = await kept.now()
    nursery.start_soon(kept.tell, notifier, line)
    return line


async def _watchdog(server: Server, notifier: Notifier) -> None:
    """systemd hears of us as long as this thread comes round and the plane's and the journal's turn."""
    life = Life(server.plane.stats(), trio.current_time())
    while True:
        with server.guard.around("the watchdog"):
            server.plane.nudge()
        await trio.sleep(notifier.watchdog_s / 2)
        with server.guard.around("the watchdog"):
            if life.proven(server.plane.stats(), trio.current_time()):
                notifier.watchdog()


@contextlib.contextmanager
def _files(server: Server) -> Iterator[None]:
    """The pid file and the ports file, as long as the server runs."""
    wanted: list[tuple[Path, str]] = []
    if server.current.config.pid_file:
        wanted.append((Path(server.current.config.pid_file), f"{os.getpid()}"))
    if server.current.config.ports_file_dir:
        # Launchers of the official clients look for this name, whatever the program is called.
        wanted.append(
            (Path(server.current.config.ports_file_dir) / f"nats-server_{os.getpid()}.ports", server.about.ports())
        )
    for path, text in wanted:
        try:
            # Renamed into place: a program that waits for the file never reads half of it.
            temporary = path.with_name(f".{path.name}.{os.getpid()}")
            temporary.write_text(text)
            temporary.rename(path)
        except OSError as error:
            raise StartError(
                f"{path} cannot be written ({error.strerror}): check pid_file and ports_file_dir"
            ) from error
    try:
        yield
    finally:
        for path, _ in wanted:
            path.unlink(missing_ok=True)
