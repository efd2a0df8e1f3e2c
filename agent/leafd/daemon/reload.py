"""A reload: reads the configuration anew, judges it as a whole, and has the server take over what may change.

    SIGHUP --ask()--> read and check (a thread of its own) --refused--> one line for each fault, nothing has changed
                                                           --a plan--> Takeover, in slices --> done

Another SIGHUP meanwhile is taken afterwards, and several of them are one. A configuration is taken over or refused as
a whole: one that changes what only a restart can change is refused, as by the reference, because the rest of it need
not be safe without that. Not here: what is taken over in which order (takeover.py), what may change
(config/schema/).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import trio

from leafd.config.bind import Loaded
from leafd.config.differences import differences, spelt
from leafd.config.flags import Flags
from leafd.config.load import load
from leafd.config.schema.section import Takes
from leafd.config.schema.server import ServerConfig
from leafd.daemon.declarations import Declarations, declared_by
from leafd.daemon.start import log_target
from leafd.daemon.takeover import Plan
from leafd.errors import ConfigError, LeafdError
from leafd.quoting import printable
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.daemon.account_book import AccountBook
    from leafd.daemon.current import Current
    from leafd.daemon.takeover import Takeover
    from leafd.declared.assets import Declared
    from leafd.guard import Guard
    from leafd.host.log import Log

LINES_MAX: Final = 20
LINE_MAX: Final = 500
"""The most that the log has of a configuration's faults: a file of another kind may be wrong in every line."""
_reader: Final = trio.CapacityLimiter(1)
"""Not the worker of turns.py: a configuration may take seconds, and clients wait for that one."""


class Notifier(Protocol):
    """Whom a reload is announced to (systemd)."""

    def reloading(self) -> None: ...
    def ready(self) -> None: ...


class Reloads:
    """Takes one reload after the other. run() until cancelled."""

    def __init__(
        self,
        current: Current,
        takeover: Takeover,
        declarations: Declarations | None,
        book: AccountBook | None,
        flags: Flags,
        notifier: Notifier,
        log: Log,
        guard: Guard,
    ) -> None:
        self._current = current
        self._takeover = takeover
        self._declarations = declarations
        self._book = book
        self._log = log
        self._guard = guard
        self._flags = flags
        self._notifier = notifier
        self._asked = trio.Event()

    def ask(self) -> None:
        """There is to be a reload that begins from now on."""
        self._asked.set()

    async def run(self) -> None:
        """Waits to be asked, for ever."""
        while True:
            await self._asked.wait()
            self._asked = trio.Event()
            self._notifier.reloading()
            with self._guard.around("a reload"):
                await self._reload()
            self._notifier.ready()

    async def _reload(self) -> None:
        log = self._log
        async with self._current.changing:
            try:
                read = partial(read_aside, self._takeover, self._flags)
                found = await trio.to_thread.run_sync(read, limiter=_reader, abandon_on_cancel=True)
                if self._declarations is not None:
                    await self._declarations.judge(found.declared)
            except LeafdError as error:
                for line in str(error).splitlines():
                    log.error(f"Failed to reload server configuration: {line}", event="reload_refused")
                return
            await self._adopt(found)
        log.info("Reloaded server configuration", event="reloaded")

    async def _adopt(self, found: Found) -> None:
        log = self._log
        for warning in found.warnings:
            log.warning(warning)
        config = found.plan.compiled.config
        log.follow(log_target(config), debug=config.debug, trace=config.traces)
        log.times, log.utc = config.logtime, config.logtime_utc
        await self._takeover.apply(found.plan)
        self._takeover.facts.digest = found.digest
        if self._book is not None:
            await self._book.reconfigured()
        if self._declarations is not None:
            await self._declarations.bring_about(found.declared)


@dataclass(frozen=True, slots=True)
class Found:
    """A configuration that was read, with its warnings."""

    plan: Plan
    warnings: tuple[str, ...]
    declared: Declared | None = None
    digest: str = ""


def read_aside(takeover: Takeover, flags: Flags) -> Found:
    """Reads and checks, on a thread of its own; changes nothing. Raises ConfigError with a text fit for the log."""
    try:
        return _read(takeover, flags)
    except LeafdError as error:
        raise ConfigError(_shortened(str(error))) from None


def _shortened(text: str) -> str:
    lines = text.splitlines()
    shown = [printable(line, LINE_MAX) for line in lines[:LINES_MAX]]
    if len(lines) > LINES_MAX:
        shown.append(f"{len(lines) - LINES_MAX} more errors like these")
    return "\n".join(shown)


def _read(takeover: Takeover, flags: Flags) -> Found:
    with _no_collections():
        loaded = load(flags)
        config, later = merged(takeover.current.config, loaded)
        coming = takeover.plan(config, lambda number: loaded.place("leafnodes", "remotes", number))
        operated = coming.compiled.operated
        warnings = (*loaded.warnings, *later, *(operated.warnings if operated is not None else ()))
        return Found(coming, warnings, declared_by(loaded, coming.compiled.graph), loaded.digest)


@contextmanager
def _no_collections() -> Iterator[None]:
    """A full collection would walk all that is made here while everybody waits, several times. None of it is garbage,
    and what of it goes later has no cycles: it is frozen, as what the start made is."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def merged(old: ServerConfig, loaded: Loaded) -> tuple[ServerConfig, list[str]]:
    """The new configuration with the old values of fields that may wait for a restart, and a line for each of these.
    Raises ConfigError where a field has changed that may not."""
    config, found = differences(old, loaded.server)
    refused = [one.path for one in found if one.takes == Takes.RESTART]
    if refused:
        raise ConfigError(
            "\n".join(
                f"{loaded.place(*path)}: {spelt(path)} has changed, which takes a restart; nothing was taken over: "
                "restart leafd, or change it back"
                for path in refused
            )
        )
    lines = [
        f"{loaded.place(*one.path)}: {spelt(one.path)} has changed: it takes effect at the next restart"
        for one in found
        if one.takes == Takes.LATER
    ]
    return config, lines
