"""The streams, consumers and buckets that the configuration declares, in a daemon's life: read with it, judged before a
reload takes over anything, brought about at the start before anybody may connect, and after each reload.

At a start nothing of this keeps the daemon from serving: what would lose data, or is refused for another reason, stays
as it is and is logged. In a group of servers, whose leader decides on streams, it waits for one, and clients may come
before; the leader goes first, since all of them may declare the same. A reload is refused as a whole when what is new
in the file is. `leafd -t` and `leafd check` rehearse it. Not here: all else (leafd/declared, which is loaded for
configurations that declare something).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import trio

from leafd.accounts.graph import Graph, Numbers, compile_graph
from leafd.config.bind import Loaded
from leafd.daemon.store import enrol_directory
from leafd.errors import ConfigError

if TYPE_CHECKING:
    from leafd.daemon.current import Current
    from leafd.daemon.placing import Placing
    from leafd.daemon.together import Together
    from leafd.declared.assets import Declared
    from leafd.declared.steps import PresentStream, Step
    from leafd.enrol.register import Register
    from leafd.guard import Guard
    from leafd.host.log import Log
    from leafd.jetstream.service import JetStream

_LEADER_FIRST_S: Final = 2.0
_UNKNOWN: Final = 1 << 62
"""The machine's room, where the configuration leaves that open."""


def declared_by(loaded: Loaded, graph: Graph) -> Declared | None:
    """The JetStream assets that a configuration declares; None where it declares none. Raises ConfigError."""
    if not loaded.server.declares:
        return None
    from leafd.declared.read import read

    return read(loaded, graph)


class Declarations:
    """The declarations of a server's configuration today. register: the boxes that are enrolled, where they may be."""

    def __init__(self, jetstream: JetStream, register: Register | None, log: Log, guard: Guard) -> None:
        self._jetstream, self._register, self._log, self._guard = jetstream, register, log, guard
        self._declared: Declared | None = None

    async def judge(self, declared: Declared | None) -> None:
        """Raises ConfigError where it asks for something new that would lose data or cannot be. What was declared
        before is no reason to refuse a reload: clients could see to it that there is one."""
        if declared is None:
            return
        from leafd.declared.provision import Bringer

        new = declared.since(self._declared)
        refused = [
            f"{one.asset.place}: {one.asset.shown}: {one.refused}"
            for one in await Bringer(self._jetstream, self._log).planned(self._expanded(declared))
            if one.refused and one.asset.key in new
        ]
        if refused:
            raise ConfigError("\n".join(refused))

    async def bring_about(self, declared: Declared | None, *, starting: bool = False) -> None:
        """From here on the server has what is declared."""
        before, self._declared = self._declared, declared
        if declared is None:
            return
        from leafd.declared.provision import Bringer

        new = declared.since(None if starting else before)
        with self._guard.around("bringing about what is declared"):
            await Bringer(self._jetstream, self._log).bring_about(self._expanded(declared), new)

    async def start(
        self, declared: Declared | None, nursery: trio.Nursery, together: Together | None, current: Current
    ) -> None:
        """Brings about what is declared at the start."""
        placing = together.placing if together is not None else None
        if placing is None or declared is None:
            await self.bring_about(declared, starting=True)
            return
        self._declared = declared
        self._log.info("JetStream cluster: what is declared waits for a metadata leader")
        nursery.start_soon(self._bring_about_led, placing, current)

    async def _bring_about_led(self, placing: Placing, current: Current) -> None:
        await placing.until_led()
        if placing.leader != placing.own:  # most likely declares the same, and makes it meanwhile
            await trio.sleep(_LEADER_FIRST_S)
        async with current.changing:  # a reload may have come before
            await self.bring_about(self._declared, starting=True)

    async def collect(self) -> None:
        """Other boxes are enrolled than before: the streams that collect from them follow. Its caller holds
        `changing`."""
        if self._declared is None or self._register is None:
            return
        from leafd.declared.boxes import expanded
        from leafd.declared.provision import Bringer

        wanted = expanded(self._declared, self._register.names, only_these=True)
        if wanted.streams:
            new = frozenset(one.key for one in wanted.streams)
            await Bringer(self._jetstream, self._log).bring_about(wanted, new)

    def _expanded(self, declared: Declared) -> Declared:
        if self._register is None:
            return declared
        from leafd.declared.boxes import expanded

        return expanded(declared, self._register.names)


def rehearsed(loaded: Loaded, streams: Callable[[], Mapping[str, dict[str, PresentStream]]]) -> tuple[Step, ...]:
    """The steps that a daemon would take which has these streams. Raises ConfigError."""
    graph = compile_graph(loaded.server, Numbers())
    declared = declared_by(loaded, graph)
    if declared is None:
        return ()
    directory = enrol_directory(loaded.server)
    if directory is not None:
        from leafd.declared.boxes import expanded
        from leafd.enrol.journal import names_of

        declared = expanded(declared, names_of(directory).names)
    from leafd.daemon.compiled import jetstream_settings
    from leafd.daemon.tenants import share_limits
    from leafd.declared.plan import plan
    from leafd.declared.steps import Present, reserved_by
    from leafd.jetstream.catalogue import JetStreamLimits
    from leafd.jetstream.models.stream import FILE, MEMORY
    from leafd.native_types import Limits

    jetstream = loaded.server.jetstream
    assert jetstream is not None  # or it would declare nothing
    sizes = (jetstream.max_file_store, jetstream.max_memory_store)
    file_store, memory_store = (one if one is not None and one >= 0 else _UNKNOWN for one in sizes)
    limits = Limits(max_file_store=file_store, max_memory_store=memory_store)
    settings, found = jetstream_settings(loaded.server, limits, "", ""), streams()

    def present(name: str) -> Present:
        account = graph.by_name.get(name)
        share = account.jetstream if account is not None else None
        others = [one.config for account, streams in found.items() if account != name for one in streams.values()]
        elsewhere = {kind: reserved_by(others, kind) for kind in (FILE, MEMORY)}
        # with an operator the limits are in the account's JWT, and hold when the streams are made
        limits = share_limits(share) if share is not None else JetStreamLimits()
        return Present(found.get(name, {}), settings, limits, elsewhere)

    return plan(declared, present)
