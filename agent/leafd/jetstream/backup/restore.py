"""Restores: the request, and the conversation in which a client sends an archive in chunks, each a request that is
answered when consumed.

    request (configuration) --> reply: where to send --> chunk >< empty reply, ... --> empty chunk >< the stream's info

Not here: what becomes of the archive (restoring.py).
Reference: tests/wire/jetstream.md, "Backup".
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import trio

from leafd import native_types as t
from leafd.gojson import JsonError, dump, loose
from leafd.gotime import format_time, now_ns
from leafd.jetstream import errors
from leafd.jetstream.advisories import unique
from leafd.jetstream.backup import archive
from leafd.jetstream.backup.restoring import FAILURE, Restoring, as_api_error
from leafd.jetstream.catalogue import JetStreamAccount
from leafd.jetstream.context import Context
from leafd.jetstream.endpoints.streams import (
    check_replicable,
    judged,
)
from leafd.jetstream.models.requests import RestoreRequest
from leafd.jetstream.models.stream import StreamConfig
from leafd.jetstream.ports import Asker
from leafd.jetstream.publishing import author_for
from leafd.jetstream.registry import TYPE, Among, Body, Call, endpoint
from leafd.jetstream.rules.account_limits import check_new_stream
from leafd.jetstream.rules.stream_rules import refuse_unsupported
from leafd.jetstream.rules.versioning import comparable
from leafd.turns import aside

IDLE_SECONDS: Final = 5.0
FAR_IDLE_SECONDS: Final = 120.0  # by a slow line: a chunk of 64 KB at 10 kbit/s takes a minute
CHUNKS_MAX: Final = 1024  # sent without waiting for an answer
WAITING_MAX: Final = 32 << 20  # bytes of them
RESTORES_MAX: Final = 16  # of an account at a time


@endpoint(
    "STREAM.RESTORE.*",
    "stream_restore_response",
    RestoreRequest,
    body=Body.REQUIRED,
    failed={"deliver_subject": ""},
    among=Among.PLACED,
)
async def restore(call: Call, request: RestoreRequest) -> dict[str, Any]:
    """Judges the configuration, and says where to send the archive."""
    context, account, name = call.context, call.account, call.name(2)
    if request.config.name not in ("", name):
        raise errors.STREAM_MISMATCH.error()
    if "/" in name or "\\" in name:
        raise errors.STREAM_NAME_CONTAINS_PATH_SEPARATORS.error()
    config = await judged(call, replace(request.config, name=name), pedantic=False)
    if config.num_replicas > 1:
        check_replicable(context, config, later=True)
    if context.placing is not None and await context.placing.server_of(account.name, name):
        raise errors.STREAM_NAME_EXIST_RESTORE_FAILED.error()
    config = replace(config, metadata=comparable(config.metadata, config.metadata))
    author = await author_for(call.asker, config)
    told = await aside(len(call.body), _told, call.body)
    # From here on nothing waits until the restore is counted.
    check_new_stream(account, context.catalogue, context.settings, config)
    if name in account.streams or name in account.restoring or name in account.aside:
        raise errors.STREAM_NAME_EXIST_RESTORE_FAILED.error()
    refuse_unsupported(config)
    if len(account.restoring) >= RESTORES_MAX:
        raise errors.INSUFFICIENT_RESOURCES.error()
    receiving = Receiving(context, account, config, call.asker, told, author)
    call.after = receiving.run
    return {"deliver_subject": receiving.subject}


def _told(body: bytes) -> bytes:
    """The stream's state in the request, as far as it is looked at; empty where it is not one object, which is
    accepted, too."""
    try:
        state = loose(body).get("state")
    except JsonError:
        state = None
    known = state if isinstance(state, dict) else {}
    return dump({name: known[name] for name in archive.STATE_NAMES if isinstance(known.get(name), int)})


class Receiving:
    """The conversation: chunks in, answers out."""

    def __init__(
        self,
        context: Context,
        account: JetStreamAccount,
        config: StreamConfig,
        asker: Asker,
        told: bytes,
        author: str,
    ) -> None:
        self._context = context
        self._account = account
        self._client = asker.info()
        self._far = asker.far
        self._restoring = Restoring(context, account, config, told, author)
        self._queue, self._chunks = trio.open_memory_channel[t.Message](CHUNKS_MAX)
        self._bytes = 0
        self._waiting = 0  # bytes in the queue
        self.subject = f"$JS.SNAPSHOT.RESTORE.{config.name}.{unique()}"
        self._subscription = context.plane.subscribe(account.id, self.subject, self._message)
        account.taken.restore(config)

    def _message(self, message: t.Message) -> bool:
        """Into the queue, where its connection's credit lets it; beyond that a chunk is missed."""
        try:
            if self._waiting <= WAITING_MAX:
                self._queue.send_nowait(message)
                self._waiting += len(message.payload)
                return True
        except (trio.WouldBlock, trio.ClosedResourceError):
            pass
        return False

    def _drop_rest(self) -> None:
        with suppress(trio.WouldBlock):
            while True:
                self._context.plane.repay(self._chunks.receive_nowait())

    async def run(self) -> None:
        """Until the archive has come, has been refused, or nothing comes any more."""
        start, name = now_ns(), self._restoring.config.name
        self._context.advisories.backup(self._account, name, "RESTORE_CREATE", {"client": self._client})
        try:
            with self._queue, self._chunks:
                try:
                    heard = await self._receive()
                finally:
                    self._drop_rest()
        finally:
            self._context.plane.unsubscribe(self._account.id, self._subscription)
            self._context.plane.archives.hold(self._restoring, 0)
            self._account.taken.restored(name)
        if heard:
            times = {"start": format_time(start), "end": format_time(now_ns())}
            members = times | {"bytes": self._bytes, "client": self._client}
            self._context.advisories.backup(self._account, name, "RESTORE_COMPLETE", members)

    async def _receive(self) -> bool:
        """False: the client was not heard of any more."""
        reply = ""
        while True:
            message = await self._next(reply)
            if message is None:
                await self._restoring.give_up()
                return False
            reply = message.reply
            self._waiting -= len(message.payload)
            self._bytes += len(message.payload)
            try:
                if await self._consume(message):
                    return True
            finally:
                self._context.plane.repay(message)

    async def _next(self, reply: str) -> t.Message | None:
        """The next chunk. None: it does not come in time, or its sender, who waits for answers at `reply`, is gone."""
        deadline = trio.current_time() + (FAR_IDLE_SECONDS if self._far else IDLE_SECONDS)
        while True:
            with trio.move_on_after(IDLE_SECONDS) as self._restoring.waiting:
                return await self._chunks.receive()
            if self._restoring.gave_way or trio.current_time() >= deadline:
                return None
            if reply and not await self._context.plane.interest(self._account.id, reply):
                return None

    async def _consume(self, message: t.Message) -> bool:
        """True: it was the last one."""
        if not message.reply:
            await self._restoring.give_up()
            return True
        try:
            if not message.payload:
                self._answer(message.reply, await self._restoring.finish())
                return True
            await self._restoring.feed(message.payload)
        except FAILURE as error:
            await self._restoring.give_up()
            self._answer(message.reply, {"error": as_api_error(error).fields()})
            return True
        self._context.plane.publish(self._account.id, message.reply, b"")
        return False

    def _answer(self, reply: str, members: dict[str, Any]) -> None:
        body = dump({"type": f"{TYPE}stream_create_response"} | members)
        self._context.plane.publish(self._account.id, reply, body)
