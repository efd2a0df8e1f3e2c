"""Brings about what is declared, through the JetStream API, in a server that runs.

    planned()        what it would do now; a reload asks before it takes over anything
    bring_about()    does it, as far as nothing would be lost; says what it did and what it left

Removals come first, then streams (one may wait for another to give up a subject), then consumers. What cannot be done
stays as it is and is logged; it never ends a start. Several servers may declare the same, and the first one makes it:
what a stream is like is asked of the server that has it, since news of another server's change may still be on their
way.
Not here: deciding (plan.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Set
from dataclasses import replace
from typing import Any, Final

import trio

from leafd.declared.assets import Asset, Declared, DeclaredStream
from leafd.declared.plan import NOT_ASKED, plan
from leafd.declared.steps import DELETED, MADE, Action, Key, Present, PresentStream, Step, told_stream
from leafd.gojson import decode, dump, written
from leafd.jetstream import errors
from leafd.jetstream.catalogue import JetStreamAccount, Stream
from leafd.jetstream.models.consumer import ConsumerConfig
from leafd.jetstream.models.stream import FILE, MEMORY, StreamConfig
from leafd.jetstream.ports import SERVER
from leafd.jetstream.registry import API
from leafd.jetstream.rules.versioning import static_consumer, static_stream
from leafd.jetstream.service import JetStream
from leafd.operator_log import Log
from leafd.turns import ITEM_WEIGHT, aside

_Left = tuple[Asset, str]
"""An asset that is not as declared, and why."""
_TRIES: Final = 20
_TRY_S: Final = 0.5
"""The pause while a stream's servers have yet to find who leads it, as after a start of all of them."""
_LATER: Final = {NOT_ASKED, *(one.error().description for one in (errors.CLUSTER_NOT_AVAILABLE, errors.STREAM_OFFLINE))}
"""Reasons that may be gone in a moment."""
_ROOM: Final = 1 << 62
_WEIGHT: Final = 4 * ITEM_WEIGHT
"""The weight of judging a stream or consumer."""


class Bringer:
    """Brings about the declared streams, consumers and buckets of one server."""

    def __init__(self, jetstream: JetStream, log: Log) -> None:
        self._jetstream = jetstream
        self._log = log

    async def planned(self, declared: Declared) -> tuple[Step, ...]:
        """The steps that it would take now. Accounts that are not known yet have nothing."""
        accounts = self._jetstream.catalogue.by_name
        found = {name: await self._present(accounts[name], declared) for name in declared.accounts if name in accounts}
        return await aside(
            _WEIGHT * len(declared.assets), plan, declared, lambda account: found.get(account, Present())
        )

    async def _present(self, account: JetStreamAccount, declared: Declared) -> Present:
        names = {one.name for one in declared.streams if one.account == account.name}
        consumers = [one for one in declared.consumers if one.account == account.name]
        names |= {one.stream for one in consumers}
        others = self._jetstream.elsewhere
        everywhere = others.configs(account.name) if others is not None else {}
        streams = {}
        for name, stream in list(account.streams.items()):
            looked_at = name in names and name not in everywhere
            state = await self._state(account, name) if looked_at else {}
            streams[name] = _present_stream(stream, state, consumers=looked_at)
        for name, config in everywhere.items():
            if name not in names:
                streams.setdefault(name, PresentStream(config))
        for name in sorted(names) if others is not None else ():
            wanted = [one.name for one in consumers if one.stream == name]
            asked = await self._asked_stream(account, name, everywhere.get(name), wanted)
            if asked is not None:
                streams[name] = asked
        whole = self._jetstream.catalogue.reserved
        elsewhere = {kind: whole.of(kind) - account.taken.reserved(kind) for kind in (FILE, MEMORY)}
        settings = self._jetstream.settings
        if settings.shared:  # which server has room is judged where one is chosen
            settings, elsewhere = replace(settings, max_memory=_ROOM, max_store=_ROOM), {}
        return Present(streams, settings, account.limits, elsewhere)

    async def _asked(self, account: JetStreamAccount, request: str) -> dict[str, Any]:
        """The members of the answer of whichever server has it; with `error`, also where there is none."""
        assert self._jetstream.elsewhere is not None
        answered = await self._jetstream.elsewhere.answer(account, f"{API}{request}", b"", b"", SERVER)
        return dict(answered.members) if answered is not None else {"error": {}}

    async def _asked_stream(
        self, account: JetStreamAccount, stream: str, known: StreamConfig | None, consumers: list[str]
    ) -> PresentStream | None:
        """One of the servers' streams, as the server with it tells; None: there is none. known: as the table has it
        here, for where nobody tells."""
        info = await self._asked(account, f"STREAM.INFO.{stream}")
        found: dict[str, ConsumerConfig] = {}
        for name in consumers if "error" not in info else ():
            about = await self._asked(account, f"CONSUMER.INFO.{stream}.{name}")
            if "error" not in about:
                found[name] = static_consumer(decode(ConsumerConfig, dump(about["config"]), strict=False))
            elif about["error"].get("err_code") != errors.CONSUMER_NOT_FOUND.err_code:
                info = about
        if "error" in info:
            return PresentStream(known, asked=False) if known is not None else None
        config = static_stream(decode(StreamConfig, dump(info["config"]), strict=False))
        return told_stream(config, info.get("state", {}), found)

    async def _state(self, account: JetStreamAccount, stream: str) -> dict[str, Any]:
        return dict((await self._jetstream.look(account.name, f"STREAM.INFO.{stream}")).get("state", {}))

    async def bring_about(self, declared: Declared, new: Set[Key]) -> None:
        """new: what was not declared in the same words before. What else differs was changed by somebody else."""
        left, refused = await self._pass(declared, new)
        if refused:  # a client may have changed something since it was planned
            left, refused = await self._pass(declared, new)
        for _ in range(_TRIES):
            if not any(reason in _LATER for _, reason in left + refused):
                break
            await trio.sleep(_TRY_S)
            left, refused = await self._pass(declared, new)
        for asset, reason in left + refused:
            self._left(asset, reason)

    async def _pass(self, declared: Declared, new: Set[Key]) -> tuple[list[_Left], list[_Left]]:
        """The steps that were not done: those that the plan refuses, and those that the API refused all the same."""
        planned = await self.planned(declared)
        steps = [one for one in planned if not one.refused and one.action is not Action.NOTHING]
        refused: list[_Left] = []
        for step in reversed(steps):  # consumers before their streams
            if step.action in DELETED:
                refused += await self._do(step, self._delete, new, silent=step.action is Action.REPLACE)
        streams = [one for one in steps if one.action in MADE and isinstance(one.asset, DeclaredStream)]
        refused += await self._make_all(streams, new)
        for step in steps:
            if step.action in MADE and not isinstance(step.asset, DeclaredStream):
                refused += await self._do(step, self._make, new)
        return [(one.asset, one.refused) for one in planned if one.refused], refused

    async def _make_all(self, steps: Iterable[Step], new: Set[Key]) -> list[_Left]:
        """Streams: what is refused is tried once more after others have changed."""
        left = list(steps)
        while left:
            refused = [(step, error) for step in left if (error := await self._make(step))]
            for step in left:
                if all(step is not one for one, _ in refused):
                    self._tell(step, new)
            if len(refused) == len(left):
                return [(step.asset, error) for step, error in refused]
            left = [step for step, _ in refused]
        return []

    async def _do(
        self, step: Step, work: Callable[[Step], Awaitable[str]], new: Set[Key], *, silent: bool = False
    ) -> list[_Left]:
        error = await work(step)
        if error:
            return [(step.asset, error)]
        if not silent:
            self._tell(step, new)
        return []

    # ---- requests

    async def _delete(self, step: Step) -> str:
        """Why it was refused, or nothing."""
        asset = step.asset
        if isinstance(asset, DeclaredStream):
            return await self._jetstream.order(asset.account, f"STREAM.DELETE.{asset.name}")
        return await self._jetstream.order(asset.account, f"CONSUMER.DELETE.{asset.stream}.{asset.name}")

    async def _make(self, step: Step) -> str:
        asset = step.asset
        assert asset.config is not None
        config = written(asset.config)
        if isinstance(asset, DeclaredStream):
            verb = "UPDATE" if step.action is Action.UPDATE else "CREATE"
            return await self._jetstream.order(asset.account, f"STREAM.{verb}.{asset.name}", config)
        body = {"stream_name": asset.stream, "config": config, "action": ""}
        return await self._jetstream.order(asset.account, f"CONSUMER.CREATE.{asset.stream}.{asset.name}", body)

    # ---- what is told

    def _left(self, asset: Asset, reason: str) -> None:
        self._log.error(
            f"{asset.place}: {asset.shown} of account {asset.account} is not as declared: {reason}",
            event="declared_refused",
            account=asset.account,
        )

    def _tell(self, step: Step, new: Set[Key]) -> None:
        asset, changes = step.asset, ", ".join(f"{one.key} {one.before}, now {one.after}" for one in step.changes)
        if step.action is Action.UPDATE and asset.key not in new:
            self._log.warning(
                f"{asset.place}: {asset.shown} of account {asset.account} was changed and is as declared again: "
                f"{changes}",
                event="declared_restored",
                account=asset.account,
            )
            return
        done = {Action.CREATE: "created", Action.UPDATE: "updated", Action.REMOVE: "removed"}
        text = f"{asset.shown} of account {asset.account} {done.get(step.action, 'made anew')}, as declared"
        self._log.info(f"{text}: {changes}" if changes else text)


def _present_stream(stream: Stream, state: dict[str, Any], *, consumers: bool) -> PresentStream:
    found = {name: one.config for name, one in stream.consumers.items()} if consumers else {}
    return told_stream(stream.config, state, found)
