"""All mirrors and sources of this server: one task drives every slot's machine, the plane does the copying.

    catalogue (jetstream/) --set_slots--> Replica machines --orders--> plane (publish, ingest_start, ingest_stop)
    answers, EVENT_INGEST, links up and down --> machines

What does not live here: the state of one slot (replica.py), names (origin.py), messages (native/jetstream/ingest.c).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import field, replace
from typing import Final, Protocol

import trio

from leafd import native_types as t
from leafd.gojson import JsonError
from leafd.guard import Guard
from leafd.links.leafs import Log
from leafd.links.link import Link
from leafd.links.origin import bounded, random8
from leafd.links.replica import Ask, Forget, Order, PutBack, Replica, Run, Slot, State
from leafd.links.told import Behind, SlotInfo, Told
from leafd.records import dataclass

Job = Callable[[], Awaitable[None]]
SILENCE_NS: Final = 5_000_000_000
REFUSED_WAIT_S: Final = 2.0
UNEXPECTED_WAIT_S: Final = 30.0
UNHEARD_A_SECOND: Final = 100
"""Requests of all slots together that nobody hears, in the long run."""
FAR_SPACING_S: Final = 1.0
"""Between two rounds over all slots that wait, when links come up."""
# Interest of a peer follows its handshake within a round trip or so; asked again at POLL_S when it was too early.
_IDENTITY_RECORD: Final = b"source-identity/"
# With the prefix and a stream's number it is a key that the store takes.
_IDENTITY_KEY_SIZE_MAX: Final = 480


class ReplicaPlane(Protocol):
    """What this room needs of native.Plane."""

    def subscribe(
        self, account: int, subject: str, handler: Callable[[t.Message], None], *, queue: str = "", flags: int = 0
    ) -> int: ...
    def unsubscribe(self, account: int, subscription: int) -> None: ...
    async def publish_counted(
        self, account: int, subject: str, payload: bytes, *, reply: str = "", header: bytes = b"", flags: int = 0
    ) -> int: ...
    def publish(
        self, account: int, subject: str, payload: bytes, *, reply: str = "", header: bytes = b"", flags: int = 0
    ) -> None: ...
    async def ingest_start(
        self,
        stream: int,
        slot: int,
        *,
        mirror: bool,
        durable_behind: int | None,
        last_sequence: int,
        silence_ns: int,
        deliver_subject: str,
        consumer: str,
        source: t.IngestSource,
        transforms: Iterable[tuple[str, str]] = ...,
        link: int = ...,
        origin: int = ...,
        by_time: bool = ...,
        pending: int | None = ...,
    ) -> None: ...
    async def ingest_stop(self, stream: int, slot: int) -> t.IngestState: ...
    async def ingest_state(self, stream: int, slot: int) -> t.IngestState: ...
    async def ingest_forget(self, stream: int, key: str) -> None: ...
    async def record_put(self, key: bytes, value: bytes) -> None: ...


@dataclass(slots=True)
class _Active:
    replica: Replica
    consumer: str = ""
    reply: int = 0
    asked: int = 0
    """The number of the request whose answer it listens for, .."""
    inbox: str = ""
    """.. and where."""
    answered_by: int = 0
    """The connection by which that answer came; 0: this server's own."""
    probe: int = 0
    ingesting: bool = False
    link: int = 0
    """The connection that it ingests by, if it is known."""
    told: Told = field(default_factory=Told)
    jobs: dict[str, Job] = field(default_factory=dict)
    """What is to be done for it, in this order: at most one job of a kind, .."""
    queued: bool = False
    """.. for which it waits in line."""

    def stopped(self) -> SlotInfo:
        """What is told of it while it is not ingesting."""
        return self.told.info(self.replica.last_sequence, self.replica.error)


class Replicas:
    """Owner of every slot. `run` drives; the other methods bring news and may be called by any task of the control
    thread."""

    def __init__(self, plane: ReplicaPlane, log: Log, guard: Guard | None = None) -> None:
        self._plane = plane
        self._log = log
        self._guard = guard or Guard()
        self._slots: dict[tuple[int, int], _Active] = {}
        self._progress: dict[tuple[int, str], tuple[int, int]] = {}
        """Of sources, by stream and key: the origin's sequence taken last, and the newest stamp."""
        self._identities: dict[bytes, str] = {}
        self._line: deque[_Active] = deque()
        """Those with jobs."""
        self._lined_up = trio.Event()
        self._links: dict[tuple[int, str], int] = {}
        self._bound: dict[int, tuple[int, str]] = {}
        """Which domain's stream a connection may answer for."""
        """Which connection leads to a domain, by account."""
        self._far: set[int] = set()
        """Accounts that got a link since their slots of far domains were tried, .."""
        self._far_s = 0.0
        """.. which happens again from this time on."""
        self._wake = trio.Event()
        self._nearest_s = 0.0
        """Until when run() waits."""

    # ---- at start

    def load_progress(self, stream: int, key: str, sequence: int, newest_ts: int = 0) -> None:
        """Stored progress of a source (RECORD_SOURCE), told before the slots are."""
        self._progress[(stream, key)] = sequence, newest_ts

    def load_record(self, key: bytes, value: bytes) -> None:
        """A stored control record; takes the ones that are origins' identities."""
        if key.startswith(_IDENTITY_RECORD):
            self._identities[key] = value.decode()

    # ---- news

    def set_slots(self, stream: int, slots: Iterable[Slot], mirror_last_sequence: int = 0) -> None:
        """The mirror or sources of a stream, now. Slots that stay the same go on undisturbed."""
        wanted = {(stream, slot.number): slot for slot in slots}
        for key in [key for key in self._slots if key[0] == stream]:
            if wanted.get(key) != self._slots[key].replica.slot:
                self._end(key)
        for key, slot in wanted.items():
            if key not in self._slots:
                last, newest_ts = mirror_last_sequence, 0
                if not slot.mirror:
                    last, newest_ts = self._progress.get((stream, slot.origin.key), (0, 0))
                identity = self._identities.get(_identity_key(slot), "")
                self._slots[key] = _Active(Replica(slot, last, identity, newest_ts))
        self._wake.set()

    def remove_stream(self, stream: int) -> None:
        """The stream is gone: stop, and tell the origin so."""
        for key in [key for key in self._slots if key[0] == stream]:
            self._end(key)

    def link_up(self, link: Link) -> None:
        """A leaf link was bound: slots that take from its domain start at once. Others that wait may take from a domain
        behind it: they are tried at once, too, but once a second where many links come up together."""
        assert link.bind is not None
        now_s = trio.current_time()
        self._links[(link.bind.account, link.bind.remote_domain)] = link.connection
        self._bound[link.connection] = link.bind.account, link.bind.remote_domain
        for active in self._slots.values():
            replica = active.replica
            if (replica.slot.account, replica.slot.origin.domain) != (link.bind.account, link.bind.remote_domain):
                continue
            if replica.state is State.RUNNING:
                self._queue_restart(active)
            replica.kick(now_s)
        self._far.add(link.bind.account)
        self._far_s = max(now_s, self._far_s)
        self._wake.set()

    def _kick_far(self, now_s: float) -> None:
        """Slots that wait for a domain to which no link leads directly."""
        if not self._far or now_s < self._far_s:
            return
        for active in self._slots.values():
            slot = active.replica.slot
            direct = (slot.account, slot.origin.domain) in self._links
            if slot.account in self._far and not direct and active.replica.state is State.IDLE:
                active.replica.kick(now_s)
        self._far.clear()
        self._far_s = now_s + FAR_SPACING_S

    def link_down(self, link: Link) -> None:
        """A leaf link was lost. Its slots restart when it is back; nothing can be asked before."""
        if link.bind is not None:
            key = (link.bind.account, link.bind.remote_domain)
            if self._links.get(key) == link.connection:
                del self._links[key]
            self._bound.pop(link.connection, None)
        self._wake.set()

    def ingest_event(self, event: t.Ingest) -> None:
        """News of the C side."""
        active = self._slots.get((event.stream, event.slot))
        if active is None or event.code == t.IngestCode.FIRST:
            return
        if event.code == t.IngestCode.BACK:
            if active.replica.is_put_back:
                return  # it was asked for what is newer, and this is that
            self._tell_put_back(active, event.last_sequence)
            if active.replica.slot.origin.durable:
                return  # what it delivers is all that is there
            active.replica.put_back()
        wait_s = REFUSED_WAIT_S if event.code == t.IngestCode.REFUSED else 0.0
        self._log.debug(f"{active.replica!r}: {t.IngestCode(event.code).name.lower()} at {event.last_sequence}")
        self._queue_restart(active, wait_s)

    async def info(self, stream: int, slot: int) -> SlotInfo:
        """Lag, activity and error of one slot."""
        active = self._slots.get((stream, slot))
        if active is None:
            return SlotInfo()
        if not active.ingesting:
            return active.stopped()
        try:
            state = await self._plane.ingest_state(stream, slot)
        except t.PlaneError as error:
            if error.status != t.Status.NOT_FOUND:
                raise
            return active.stopped()  # while we asked
        linked = active.link in (0, self._link_of(active))
        return active.told.info(active.replica.last_sequence, active.replica.error, state, linked=linked)

    def _link_of(self, active: _Active) -> int:
        """The connection that leads to its origin, 0: none does, or it is not known."""
        slot = active.replica.slot
        return self._links.get((slot.account, slot.origin.domain), 0)

    async def behind(self) -> Behind:
        """How far the copies of this server are behind."""
        found = [await self.info(*key) for key in tuple(self._slots)]
        running = sum(one.running for one in found)
        return Behind(running, sum(one.lag for one in found if one.known), len(found) - running)

    def waiting(self) -> int:
        """How many jobs wait for the plane."""
        return sum(len(active.jobs) for active in self._line)

    # ---- driving

    async def run(self) -> None:
        """Drives all slots for ever. Cancel to end it."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._work)
            while True:
                now_s = trio.current_time()
                self._kick_far(now_s)
                for active in list(self._slots.values()):
                    self._poll(active, now_s)
                self._wake = trio.Event()
                nearest = min((a.replica.deadline_s for a in self._slots.values()), default=float("inf"))
                if self._far:
                    nearest = min(nearest, self._far_s)
                self._nearest_s = nearest
                with trio.move_on_at(nearest):
                    await self._wake.wait()

    def _poll(self, active: _Active, now_s: float) -> None:
        try:
            for order in active.replica.poll(now_s):
                self._queue(active, order)
            if active.replica.unanswered and not active.probe:
                self._listen(active)
        except Exception as error:
            self._guard.caught("a mirror or source", error)
            active.replica.lost(0, now_s, UNEXPECTED_WAIT_S)

    def _listen(self, active: _Active) -> None:
        """A durable consumer that did not answer may be made at any time: what it delivers, if only a heartbeat, tells
        that it is there. It is then set back, so that nothing of it is missed."""
        slot = active.replica.slot

        def heard(_message: t.Message) -> None:
            self._drop_probe(active)
            active.replica.kick(trio.current_time())
            self._wake.set()

        active.probe = self._plane.subscribe(slot.account, slot.origin.durable_deliver, heard)

    async def _work(self) -> None:
        """Orders are carried out one after the other, so that a stop is never overtaken by a start."""
        while True:
            while self._line:
                active = self._line.popleft()
                active.queued = False
                jobs, active.jobs = active.jobs, {}
                for job in jobs.values():
                    await self._do(job)
            self._lined_up = trio.Event()
            await self._lined_up.wait()

    async def _do(self, job: Job) -> None:
        try:
            await job()
        except t.PlaneError as error:
            # The stream went away between the order and now, or the plane is stopping. A request that was not sent
            # is repeated when its answer does not come.
            self._log.warning(f"mirror or source: {error}")
        except Exception as error:
            self._guard.caught("an order of a mirror or source", error)

    def _job(self, active: _Active, kind: str, job: Job) -> None:
        """To be done after what waits already. However slow the plane is, what waits is bounded by the number of slots:
        of one kind only the latest counts, as only the answer to the latest request does."""
        active.jobs.pop(kind, None)
        active.jobs[kind] = job
        if not active.queued:
            active.queued = True
            self._line.append(active)
            self._lined_up.set()

    def _queue(self, active: _Active, order: Order) -> None:
        match order:
            case Ask():
                self._job(active, "ask", lambda: self._ask(active, order))
            case Run():
                self._job(active, "start", lambda: self._start(active, order))
            case PutBack():
                active.consumer = order.consumer
                self._delete_consumer(active)
                self._tell_put_back(active, order.ends)
            case Forget():
                slot = active.replica.slot
                self._log.warning(
                    f"stream {slot.origin.stream} was made anew at its origin: {slot.stream_name} starts over",
                    event="origin_made_anew",
                    account=slot.account_name,
                    stream=slot.stream_name,
                )
                self._progress[(slot.stream, slot.origin.key)] = 0, 0
                self._job(active, "forget", lambda: self._plane.ingest_forget(slot.stream, slot.origin.key))

    def _is_current(self, active: _Active) -> bool:
        slot = active.replica.slot
        return self._slots.get((slot.stream, slot.number)) is active

    async def _ask(self, active: _Active, order: Ask) -> None:
        slot = active.replica.slot
        if not self._is_current(active):
            return
        if not active.reply or active.asked != order.number:
            self._listen_for(active, order.number)
        heard = await self._plane.publish_counted(
            slot.account,
            order.subject,
            order.body,
            reply=active.inbox,
            header=order.header,
            flags=t.PublishFlag.REQUEST,
        )
        if heard == 0:
            self._drop_reply(active)
            active.replica.unheard(order.number, trio.current_time(), len(self._slots) / UNHEARD_A_SECOND)
            if active.replica.deadline_s < self._nearest_s:
                self._wake.set()  # not for each of a thousand: run() looks at all slots then

    def _listen_for(self, active: _Active, number: int) -> None:
        """Whichever answer to that request comes first is taken, however often it was sent."""
        self._drop_reply(active)

        def answered(message: t.Message) -> None:
            if not self._may_answer(active.replica.slot, message.connection):
                return
            active.answered_by = message.connection
            self._drop_reply(active)
            self._drop_probe(active)
            identity = _header(message.header, "Nats-Stream-Identity")
            position = _header(message.header, "Leafd-Stream-Position")
            now_s = trio.current_time()
            for next_order in active.replica.answered(number, identity, message.payload, now_s, position):
                self._queue(active, next_order)
            self._wake.set()

        active.asked, active.inbox = number, f"$JSC.R.{random8()}"
        active.reply = self._plane.subscribe(active.replica.slot.account, active.inbox, answered)

    def _may_answer(self, slot: Slot, connection: int) -> bool:
        """Whose deliveries are taken under the names that they give: this server's own API answers for a stream of its
        own, and a link to the origin's domain, where there is one, for that domain."""
        if not slot.origin.api or not connection:
            return not connection
        key = (slot.account, slot.origin.domain)
        return not slot.origin.domain or key not in self._bound.values() or self._bound.get(connection) == key

    async def _start(self, active: _Active, order: Run) -> None:
        slot = active.replica.slot
        if not self._is_current(active) or active.replica.state is not State.RUNNING:
            return
        active.consumer = order.consumer
        last_sequence = max(order.last_sequence, self._without_consumer(slot, order.identity))
        link = self._link_of(active)
        try:
            # Known before the first message of it is stored: or after a crash it would be a stream never seen.
            await self._remember(slot, order.identity)
            await self._plane.ingest_start(
                slot.stream,
                slot.number,
                mirror=slot.mirror,
                durable_behind=order.behind if slot.origin.durable else None,
                last_sequence=last_sequence,
                silence_ns=SILENCE_NS,
                deliver_subject=order.deliver,
                consumer=order.consumer,
                source=_source_of(slot, order.identity),
                transforms=slot.origin.transforms,
                link=link,
                origin=active.answered_by,
                by_time=order.by_time,
                pending=order.pending,
            )
        except Exception:
            # Nobody takes in what the consumer sends, and no event would ever say so.
            self._delete_consumer(active)
            active.replica.lost(order.last_sequence, trio.current_time(), REFUSED_WAIT_S)
            self._wake.set()
            raise
        active.ingesting, active.link = True, link
        if order.look:
            self._look(active)

    def _look(self, active: _Active) -> None:
        """Asks the origin where its stream ends. Without an answer that is asked at the next start."""
        slot, replica = active.replica.slot, active.replica
        self._drop_probe(active)

        def told(message: t.Message) -> None:
            self._drop_probe(active)
            try:
                ends = replica.ends_early(message.payload)
            except JsonError:
                return
            if ends is not None and replica.state is State.RUNNING:
                self._tell_put_back(active, ends)
                replica.put_back()
                self._queue_restart(active)

        inbox = f"$JSC.R.{random8()}"
        active.probe = self._plane.subscribe(slot.account, inbox, told)
        self._plane.publish(slot.account, slot.origin.info_subject, b"", reply=inbox, flags=t.PublishFlag.REQUEST)

    async def _remember(self, slot: Slot, identity: str) -> None:
        key = _identity_key(slot)
        if identity and self._identities.get(key) != identity:
            await self._plane.record_put(key, identity.encode())
            self._identities[key] = identity

    def _without_consumer(self, slot: Slot, identity: str) -> int:
        """How far a source was that is now to use a durable consumer, by the consumers that were made for it: all of
        that is stored, if it is still the same stream."""
        if slot.mirror or not slot.origin.durable or not identity:
            return 0
        before = replace(slot, origin=replace(slot.origin, durable="", durable_deliver=""))
        if self._identities.get(_identity_key(before)) != identity:
            return 0
        return self._progress.get((slot.stream, before.origin.key), (0, 0))[0]

    def _queue_restart(self, active: _Active, wait_s: float = 0.0) -> None:
        self._job(active, "restart", lambda: self._restart(active, wait_s))

    async def _restart(self, active: _Active, wait_s: float) -> None:
        if not active.ingesting or not self._is_current(active):
            return
        last, newest_ts = active.replica.last_sequence, 0
        try:
            last, newest_ts = await self._stop_ingest(active)
        finally:
            # A position too low costs messages that are dropped on arrival; a slot that nobody asks for, all of them.
            active.ingesting = False
            self._delete_consumer(active)
            active.replica.lost(last, trio.current_time(), wait_s, newest_ts)
            self._wake.set()

    async def _stop_ingest(self, active: _Active) -> tuple[int, int]:
        """The origin's sequence taken last, and the newest stamp."""
        slot = active.replica.slot
        # Where it ended, not where it was when it was asked before: messages may come in between.
        ended = await self._plane.ingest_stop(slot.stream, slot.number)
        active.ingesting = False
        active.told.note(ended)
        self._progress[(slot.stream, slot.origin.key)] = ended.last_sequence, ended.newest_ts
        return ended.last_sequence, ended.newest_ts

    def _tell_put_back(self, active: _Active, ends: int) -> None:
        slot = active.replica.slot
        self._log.warning(
            f"stream {slot.origin.stream} was put back to an earlier state at its origin, up to sequence {ends}:"
            f" {slot.stream_name}, which had {active.replica.last_sequence} of it, goes on with what is newer",
            event="origin_put_back",
            account=slot.account_name,
            stream=slot.stream_name,
        )

    def _delete_consumer(self, active: _Active) -> None:
        """Best effort: spares the origin ten seconds of a consumer that nobody listens to."""
        slot = active.replica.slot
        if active.consumer and not slot.origin.durable:
            subject = slot.origin.delete_subject(active.consumer)
            self._plane.publish(slot.account, subject, b"", flags=t.PublishFlag.REQUEST)
            active.consumer = ""

    def _end(self, key: tuple[int, int]) -> None:
        active = self._slots.pop(key)
        self._drop_reply(active)
        self._drop_probe(active)

        async def end() -> None:
            self._delete_consumer(active)
            if active.ingesting:
                await self._stop_ingest(active)

        running = active.ingesting or active.replica.state is State.RUNNING
        if running or active.consumer or active.jobs:
            self._job(active, "end", end)

    def _drop_reply(self, active: _Active) -> None:
        if active.reply:
            self._plane.unsubscribe(active.replica.slot.account, active.reply)
            active.reply = 0

    def _drop_probe(self, active: _Active) -> None:
        if active.probe:
            self._plane.unsubscribe(active.replica.slot.account, active.probe)
            active.probe = 0


def _identity_key(slot: Slot) -> bytes:
    return _IDENTITY_RECORD + f"{slot.stream}/{bounded(slot.origin.key, _IDENTITY_KEY_SIZE_MAX)}".encode()


def _source_of(slot: Slot, identity: str) -> t.IngestSource:
    if slot.mirror:
        return t.IngestSource()
    name, filters, destinations = slot.origin.index
    return t.IngestSource(name, filters, destinations, identity, slot.origin.key)


def _header(block: bytes, name: str) -> str:
    for line in block.split(b"\r\n")[1:]:
        field, colon, value = line.partition(b":")
        if colon and field.decode("utf-8", "replace") == name:
            return value.strip().decode("utf-8", "replace")
    return ""
