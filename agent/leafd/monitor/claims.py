"""Requests of the system account about JWTs of accounts, as nsc push, pull and delete send them, and nats-server's own.

    $SYS.REQ.CLAIMS.UPDATE, .LIST, .PACK, .DELETE        $SYS.REQ.ACCOUNT.<A>.CLAIMS.UPDATE, .LOOKUP

And the other way round: other servers of the system account are asked for an account that is not known here, and a full
resolver asks them now and then for all that it may have missed. Clients that may publish in the system account may ask;
what counts is signed by the operator. Not here: what an update does (daemon/account_book.py).
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from typing import Any, Final, Protocol

import trio

from leafd import native_types as t
from leafd.auth.nkeys import PREFIX_ACCOUNT, is_public_key
from leafd.auth.resolver import ClaimsError, Resolver
from leafd.fair import FairQueue
from leafd.gojson import dump
from leafd.monitor.facts import Facts
from leafd.native_accounts import Accounts
from leafd.turns import Pause

UPDATE: Final = "$SYS.REQ.CLAIMS.UPDATE"
UPDATES: Final = (UPDATE, "$SYS.REQ.ACCOUNT.*.CLAIMS.UPDATE", "$SYS.ACCOUNT.*.CLAIMS.UPDATE")
LIST: Final = "$SYS.REQ.CLAIMS.LIST"
DELETE: Final = "$SYS.REQ.CLAIMS.DELETE"
PACK: Final = "$SYS.REQ.CLAIMS.PACK"
LOOKUP: Final = "$SYS.REQ.ACCOUNT.{}.CLAIMS.LOOKUP"
RESPONDERS: Final = "responder"
AT_WORK_MAX: Final = 2
OTHERS_S: Final = 0.25


class Book(Protocol):
    """The known accounts of an operator, as daemon.account_book.AccountBook has them."""

    @property
    def resolver(self) -> Resolver: ...
    @property
    def linked(self) -> bool: ...
    @property
    def timeout_s(self) -> float: ...
    @property
    def interval_s(self) -> float: ...
    async def read(self, name: str) -> str | None: ...
    async def digest(self) -> bytes | None: ...
    async def update(self, token: str, name: str = "", *, newer: bool = False) -> tuple[str, str]: ...
    async def delete(self, token: str) -> int: ...


class ClaimsServices:
    """Owner of the subscriptions to these subjects, in the system account."""

    def __init__(self, facts: Facts, plane: Accounts, book: Book) -> None:
        self._facts = facts
        self._plane = plane
        self._book = book
        self._subscriptions: dict[str, int] = {}
        self._requests: FairQueue[t.Message] = FairQueue(at_work=AT_WORK_MAX, at_work_each=1)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until cancelled."""
        self.subscribe()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_up)
            task_status.started()
            while True:
                nursery.start_soon(self._serve, await self._requests.take())

    def subscribe(self) -> None:
        """Subscribes to what the resolver of today can answer, and no more; again when it is another one."""
        system, resolver = self._facts.graph.system, self._book.resolver
        if system is None:
            return
        wanted = list(UPDATES)
        if resolver.keeps:
            wanted += [LIST, DELETE]
        if resolver.complete:
            wanted += [LOOKUP.format("*"), PACK]
        for subject in wanted:
            if subject not in self._subscriptions:
                queue = RESPONDERS if subject == PACK else ""
                self._subscriptions[subject] = self._plane.subscribe(system.id, subject, self._message, queue=queue)
        for subject in self._subscriptions.keys() - set(wanted):
            self._plane.unsubscribe(system.id, self._subscriptions.pop(subject))

    def _message(self, message: t.Message) -> bool:
        """Takes a request; while it waits here it counts against its connection's credit."""
        self._requests.put(message.payer, message.connection, message)
        return True

    async def _serve(self, message: t.Message) -> None:
        try:
            with self._facts.guard.around("a request about an account's JWT"):
                await self._answer(message)
        finally:
            self._requests.done(message.payer, message.connection)
            self._plane.repay(message)

    # ---- requests

    async def _answer(self, message: t.Message) -> None:
        subject = message.subject
        if subject == LIST:
            self._reply(message, {"data": self._book.resolver.names()})
        elif subject == PACK:
            await self._pack(message)
        elif subject == DELETE:
            await self._delete(message)
        elif subject.endswith(".LOOKUP"):
            name = subject.split(".")[3]
            # An empty answer says that there is no such account; where the file cannot be read others may have it.
            if is_public_key(name, PREFIX_ACCOUNT) and (token := await self._book.read(name)) is not None:
                self._publish(message, token.encode("ascii", "replace"))
        else:
            await self._update(message)

    def _publish(self, message: t.Message, payload: bytes) -> None:
        if message.reply:
            self._plane.publish(message.account, message.reply, payload)

    def _reply(self, message: t.Message, members: dict[str, Any]) -> None:
        self._publish(message, dump({"server": self._facts.server_info()} | members))

    async def _update(self, message: t.Message) -> None:
        name = "" if message.subject == UPDATE else message.subject.split(".")[-3]
        try:
            account, done = await self._book.update(message.payload.decode("ascii", "replace"), name)
        except ClaimsError as error:
            refused = {"account": error.account or "n/a", "code": 500, "description": str(error)}
            self._reply(message, {"error": refused})
            return
        self._reply(message, {"data": {"account": account, "code": 200, "message": done}})

    async def _delete(self, message: t.Message) -> None:
        try:
            count = await self._book.delete(message.payload.decode("ascii", "replace"))
        except ClaimsError as error:
            self._reply(message, {"error": {"code": 500, "description": str(error)}})
            return
        self._reply(message, {"data": {"code": 200, "message": f"deleted {count} accounts"}})

    async def _pack(self, message: t.Message) -> None:
        """All that is kept, one account a message, then an empty one; that alone for a server that has the same."""
        resolver = self._book.resolver
        if message.payload != await self._book.digest():
            pause = Pause()
            for name in resolver.names():
                await pause()
                token = await self._book.read(name)
                if token:
                    self._publish(message, f"{name}|{token}".encode("ascii", "replace"))
        self._publish(message, b"")

    # ---- the other way round

    async def ask_others(self, name: str) -> str:
        """An account's JWT from another server of the system account; empty when nobody has it in time."""
        replies: list[bytes] = []
        found = trio.Event()
        with trio.move_on_after(self._book.timeout_s) as patience:

            def heard(message: t.Message) -> None:
                if message.payload:
                    replies.append(message.payload)
                    found.set()
                elif message.connection:  # one server has nothing: others have a moment more
                    patience.deadline = min(patience.deadline, trio.current_time() + OTHERS_S)

            if self._book.linked:
                await self._ask(LOOKUP.format(name), b"", heard, found)
        return replies[0].decode("ascii", "replace") if replies else ""

    async def _ask(self, subject: str, payload: bytes, heard: Callable[[t.Message], None], done: trio.Event) -> None:
        system = self._facts.graph.system
        if system is None:
            return
        inbox = f"$SYS._INBOX.{secrets.token_hex(11)}"
        subscription = self._plane.subscribe(system.id, inbox, heard)
        try:
            if subject in self._subscriptions:  # of a queue group, of which the own subscription would be preferred
                self._plane.unsubscribe(system.id, self._subscriptions.pop(subject))
            self._plane.publish(system.id, subject, payload, reply=inbox)
            self.subscribe()
            await done.wait()
        finally:
            self._plane.unsubscribe(system.id, subscription)

    async def _keep_up(self) -> None:
        """Asks a full resolver's peers for what it may have missed."""
        while True:
            await trio.sleep(self._book.interval_s)
            if self._book.linked and self._book.resolver.complete:
                with self._facts.guard.around("comparing JWTs with other servers"):
                    await self._compare()

    async def _compare(self) -> None:
        send, receive = trio.open_memory_channel[bytes](1024)
        done = trio.Event()

        def heard(message: t.Message) -> None:
            try:
                send.send_nowait(message.payload)
            except trio.WouldBlock:
                done.set()  # the rest comes with the next comparison

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._take_up, receive, done)
            with trio.move_on_after(self._book.interval_s):
                if (digest := await self._book.digest()) is not None:
                    await self._ask(PACK, digest, heard, done)
            nursery.cancel_scope.cancel()

    async def _take_up(self, received: trio.MemoryReceiveChannel[bytes], done: trio.Event) -> None:
        async for payload in received:
            if not payload:
                done.set()
                return
            name, _, token = payload.decode("ascii", "replace").partition("|")
            with contextlib.suppress(ClaimsError):
                await self._book.update(token, name, newer=True)
