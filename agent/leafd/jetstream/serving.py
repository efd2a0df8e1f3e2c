"""Requests of $JS.API on their way: they wait for their turn, are answered, and the reply is sent.

    message() --> FairQueue, by account and connection --> the answer --> reply, counters, audit advisory
    guest()   --> the same, of clients of servers without JetStream, by the account and client that their server names

Requests run side by side, each in a task of its own, so a create that waits for the disk delays no other; the locks
of the registry keep changes of one stream, or of one account's streams, in order. Not here: any answer (registry.py).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from leafd import native_types as t
from leafd.fair import FairQueue
from leafd.gojson import dumped
from leafd.jetstream import errors
from leafd.jetstream.ordered import is_order
from leafd.jetstream.registry import API, Answer, find, is_empty, refusal
from leafd.quoting import quoted
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.guard import Guard
    from leafd.jetstream.catalogue import JetStreamAccount
    from leafd.jetstream.context import Context
    from leafd.jetstream.ports import Asker

AT_WORK_MAX: Final = 64
AT_WORK_EACH: Final = 16
LISTINGS_MAX: Final = 2
"""Each may be a hundred thousand subjects, tens of MB until it is sent: one in the plane, one being written down. An
account has one of them at a time."""

Answering = Callable[["JetStreamAccount", str, bytes, bytes, "Asker"], Awaitable[Answer | None]]


@dataclass(frozen=True, slots=True)
class Guest:
    """A client that asks by way of the system account. account: the name of the one whose streams are meant; turn: his
    own account, and which of its clients he is: many come over one route, and none of them waits for another's."""

    account: str
    asker: Asker
    turn: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class _Request:
    message: t.Message
    account: JetStreamAccount | None
    guest: Guest | None = None


class Serving:
    """All requests. answering: finds the answer, by now also at other servers."""

    def __init__(self, context: Context, answering: Callable[[], Answering], guard: Guard) -> None:
        self._context, self._answering, self._guard = context, answering, guard
        self._plane, self._log = context.plane, context.log
        self._nursery: trio.Nursery | None = None
        self._listings: FairQueue[trio.Event] = FairQueue(at_work=LISTINGS_MAX, at_work_each=1)
        self._requests: FairQueue[_Request] = FairQueue(at_work=AT_WORK_MAX, at_work_each=AT_WORK_EACH)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves requests until cancelled.

        Those of a connection are begun in the order in which they came: each runs to where it has to wait, for a lock
        at first, before the next one is begun. So a client need not wait for its stream before it asks for a consumer.
        """
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._admit_listings)
            task_status.started()
            try:
                while True:
                    request = await self._requests.take()
                    # take() is a checkpoint, so of two in a row the first has run to where it waits
                    nursery.start_soon(self._serve, request)
            finally:
                self._nursery = None

    async def _admit_listings(self) -> None:
        while True:
            (await self._listings.take()).set()

    @asynccontextmanager
    async def _listing(self, request: _Request) -> AsyncIterator[None]:
        turn = trio.Event()
        self._listings.put(*_asker(request), turn)
        await turn.wait()
        try:
            yield
        finally:
            self._listings.done(*_asker(request))

    def message(self, message: t.Message) -> bool:
        """A request of the subscription to SUBJECT in some account; for Plane.subscribe as its handler. It counts
        against its connection's credit until it is answered, which bounds what waits here."""
        account = self._context.catalogue.accounts.get(message.account)
        return account is not None and self._take(_Request(message, account))

    def guest(self, message: t.Message, guest: Guest) -> bool:
        """A request that came in the system account for another one's streams; the reply goes back there."""
        return self._take(_Request(message, None, guest))

    def _take(self, request: _Request) -> bool:
        if not request.message.subject.startswith(API):
            return False
        if self._nursery is not None and self._requests.begin(*_asker(request)):
            self._nursery.start_soon(self._serve, request)
        else:
            self._requests.put(*_asker(request), request)
        return True

    async def _serve(self, request: _Request) -> None:
        message, guest = request.message, request.guest
        after: Callable[[], Awaitable[None]] | None = None
        try:
            account = request.account
            if guest is not None:
                account = await self._context.catalogue.known(guest.account)
            asker = guest.asker if guest is not None else self._context.neighbours.asker(message)
            if account is None:
                pass  # as with nats-server: nobody answers for an account that is not known
            elif _lists(message):
                async with self._listing(request):
                    after = await self._answer_and_reply(account, message, asker)
            else:
                after = await self._answer_and_reply(account, message, asker)
        finally:
            self._requests.done(*_asker(request))
            self._plane.repay(message)
        if after is not None:
            with self._guard.around("a JetStream conversation"):
                await after()

    async def _answer_and_reply(
        self, account: JetStreamAccount, message: t.Message, asker: Asker
    ) -> Callable[[], Awaitable[None]] | None:
        """The work that goes on once the reply has been sent, if any; the reply itself is gone when this returns."""
        answered = await self._answered(account, message, asker)
        if answered is None:
            return None
        try:
            await self._reply(account, message, asker, answered)
        except Exception as error:
            self._guard.caught("sending a JetStream API reply", error)
        return answered.after

    async def _answered(self, account: JetStreamAccount, message: t.Message, asker: Asker) -> Answer | None:
        """As answer(); a request that fails in a way that nobody foresaw is refused like any other."""
        try:
            return await self._answering()(account, message.subject, message.header, message.payload, asker)
        except Exception as error:
            line = find(message.subject.removeprefix(API).split("."))
            if line is None:
                raise
            if isinstance(error, t.PlaneError):
                self._log.warning(f"{quoted(message.subject)}: {error}")
                return refusal(line, errors.STREAM_GENERAL.error(err=error))
            self._guard.caught(f"a JetStream API request ({'.'.join(line.pattern)})", error)
            return refusal(line, errors.STREAM_GENERAL.error(err="unexpected error"))

    async def _reply(self, account: JetStreamAccount, message: t.Message, asker: Asker, answered: Answer) -> None:
        async with self._plane.reports.room(answered.size):
            body = await dumped(answered.weight, answered.members)
            if answered.counted and account.enabled:
                account.api_total += 1
                account.api_errors += int(answered.error)
            if message.reply:
                self._plane.publish(message.account, message.reply, body, header=answered.header)
            ordered = is_order(account, message.subject.removeprefix(API).split("."))
            if answered.counted and (ordered or not account.system):
                await self._context.advisories.audit(account, message.subject, asker, message.payload, body)


def _asker(request: _Request) -> tuple[Hashable, Hashable]:
    """In whose turn it is served: of an account's connections, also behind an import."""
    if request.guest is not None:
        own, client = request.guest.turn
        return own, (request.message.connection, client)
    return request.message.payer or request.message.account, request.message.connection


def _lists(message: t.Message) -> bool:
    """Whether it may ask for a stream's subjects or deleted sequences: an info with options."""
    return message.subject.startswith(f"{API}STREAM.INFO.") and not is_empty(message.payload)
