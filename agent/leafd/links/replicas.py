"""All mirrors and sources of this server: one task drives every slot's machine, the plane does the copying.

    catalogue (jetstream/) --set_slots--> Replica machines --orders--> plane (publish, ingest_start, ingest_stop)
    answers, EVENT_INGEST, EVENT_REACHED, links up and down --> machines

Work follows what happened: a link that comes up, or asks for what goes to an API, wakes the slots of that domain, and
nothing else is looked at. A slot whose origin is in the domain at the other end of a link is answered and delivered to
by that link alone: with a thousand boxes each would hear of the subjects of all others.

Not here: the state of one slot (replica.py), where its answers come (asking.py), names (origin.py), jobs and deadlines
(orders.py), messages (native/jetstream/ingest.c).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

import trio

from leafd import native_types as t
from leafd.gojson import JsonError
from leafd.guard import Guard
from leafd.links import origin_news, refusals
from leafd.links.asking import MISSED_WAIT_S, Asking
from leafd.links.creation import source_of
from leafd.links.identities import Identities
from leafd.links.lag import Behind, SlotInfo, Told
from leafd.links.leaders import Key, Leaders
from leafd.links.link import Link
from leafd.links.orders import ASK, Job, Moments, Orders, Waiting
from leafd.links.origin import header_field, inbox
from leafd.links.replica import Replica, Slot, State
from leafd.links.steps import ANSWER_HEADERS, Ask, Back, Forget, Moves, Order, PutBack, Renewed, Rewind, Run
from leafd.links.trips import Trips
from leafd.native_commands import Commands
from leafd.operator_log import Log
from leafd.turns import Pause

UNEXPECTED_WAIT_S: Final = 30.0
UNHEARD_A_SECOND: Final = 20
"""Looks of all slots together whether their origin is there, in the long run: a link that asks for it wakes them."""
INFOS_TOGETHER: Final = 128
"""Slots that the plane is asked for at once."""
UNTOLD_S: Final = 0.5
"""So long after a link came up its domain's slots look by themselves: it may have been told of before."""


class _Active(Waiting):
    """One slot at work."""

    def __init__(self, replica: Replica, asking: Asking) -> None:
        super().__init__(hash((replica.slot.stream, replica.slot.number)))
        self.replica = replica
        self.asking = asking
        self.domain = replica.slot.account, replica.slot.origin.domain
        """Account, and its origin's domain."""
        self.consumer = ""
        self.ingesting = False
        self.link = 0
        """The connection that it ingests by, if it is known."""
        self.told = Told()

    @property
    def key(self) -> tuple[int, int]:
        """Stream and number."""
        return self.replica.slot.stream, self.replica.slot.number

    def stopped(self) -> SlotInfo:
        """The slot's info while it is not ingesting."""
        return self.told.info(self.replica)


class Replicas:
    """Owner of every slot. `run` drives; the other methods bring news and may be called by any task of the control
    thread."""

    def __init__(self, plane: Commands, log: Log, guard: Guard | None = None) -> None:
        self._plane = plane
        self._log = log
        self._guard = guard or Guard()
        self._slots: dict[tuple[int, int], _Active] = {}
        self._progress: dict[tuple[int, str], tuple[int, int]] = {}
        """Positions of sources, by stream and key: the origin's sequence taken last, and the newest stamp."""
        self._identities = Identities(plane)
        self._numbers: dict[int, set[int]] = {}
        """The numbers of the slots of each stream."""
        self._by_domain: dict[tuple[int, str], dict[tuple[int, int], _Active]] = {}
        """The slots by account and their origin's domain."""
        self._orders: Orders[_Active] = Orders(self._do, self._rested)
        self._moments: Moments[_Active] = Moments()
        self._links: dict[tuple[int, str], dict[str, int]] = {}
        """Connections that lead to a domain, by account, and each by its server; the newest last."""
        self._ways: dict[int, Link] = {}
        """.. Each by its connection."""
        self._trips = Trips(plane, self._guard, self._ways)
        self._leaders = Leaders(plane, self._leader_moved, self._hub_grew)
        self._refusals = refusals.Refusals()
        self._wake = trio.Event()

    # ---- at start

    def load_progress(self, stream: int, key: str, sequence: int, newest_ts: int = 0) -> None:
        """Stored progress of a source (RECORD_SOURCE), told before the slots are."""
        self._progress[(stream, key)] = sequence, newest_ts

    def load_record(self, key: bytes, value: bytes) -> None:
        """A stored control record; takes the ones that are origins' identities."""
        self._identities.load(key, value)

    def begin_anew(self, stream: int, positions: dict[str, tuple[int, int]]) -> None:
        """Another server may have driven the sources of this stream since, and come so far. What it has seen of the
        origins' identities is not known here."""
        self.remove_stream(stream, handed_on=True)
        for key, position in positions.items():
            self._progress[stream, key] = position
        self._identities.forget(stream)

    # ---- news

    def set_slots(self, stream: int, slots: Iterable[Slot], mirror_last_sequence: int = 0) -> None:
        """The mirror or sources of a stream, now. Slots that stay the same go on undisturbed."""
        wanted = {(stream, slot.number): slot for slot in slots}
        for key in [(stream, number) for number in self._numbers.get(stream, ())]:
            if wanted.get(key) != self._slots[key].replica.slot:
                self._end(key)
        for key, slot in wanted.items():
            if key not in self._slots:
                last, newest_ts, stored = mirror_last_sequence, 0, (0, 0)
                if not slot.mirror:
                    stored = self._progress.get((stream, slot.origin.key), stored)
                    last, newest_ts = self._identities.position(slot, stored)
                earlier, epochs = self._identities.earlier(slot), self._identities.epochs(slot).found(stored[0])
                replica = Replica(slot, last, self._identities.of(slot), newest_ts, earlier, epochs)
                active = self._slots[key] = _Active(replica, Asking(self._plane, slot))
                self._numbers.setdefault(stream, set()).add(slot.number)
                self._by_domain.setdefault(active.domain, {})[key] = active
                self._due(active)

    def remove_stream(self, stream: int, *, handed_on: bool = False) -> None:
        """The stream is gone: stop, and tell the origin so. handed_on: another server drives its slots now."""
        for number in list(self._numbers.get(stream, ())):
            self._end((stream, number), handed_on=handed_on)

    def link_up(self, link: Link) -> None:
        """A leaf link was bound: slots of its domain start as soon as it asks for what goes to that domain's API, which
        is what it says first. One that runs starts over: the consumer may have ended with the old link."""
        assert link.bind is not None
        self._leaders.link_up(link)
        domain = (link.bind.account, link.bind.remote_domain)
        known = self._links.setdefault(domain, {})
        known.pop(link.bind.remote_id, None)
        known[link.bind.remote_id] = link.connection
        self._ways[link.connection] = link
        for active in self._by_domain.get(domain, {}).values():
            if active.replica.state is State.RUNNING:
                self._queue_restart(active)
            self._kick(active, UNTOLD_S if link.bind.remote_domain and not link.bind.orderly else 0.0)

    def reached(self, event: t.Reached) -> None:
        """A link or a route asks for what goes to a domain's API, which is at its other end or somewhere behind it.
        What runs over no link of this server starts over: that the origin was away was told by nothing else."""
        named = event.subject.split(".")[1]
        if named == "*":
            domains = [one for one in self._by_domain if one[0] == event.account and one[1]]
        else:
            domains = [(event.account, named)]
        for domain in domains:
            for active in [one for one in self._by_domain.get(domain, {}).values() if not one.replica.in_reach()]:
                if named != "*" and not active.link and active.replica.may_be_forgotten(trio.current_time()):
                    self._queue_restart(active)
                self._kick(active)

    def link_down(self, link: Link) -> None:
        """A leaf link was lost, and with it what was under way. Its slots are told of as stopped until it is back."""
        self._ways.pop(link.connection, None)
        self._leaders.link_down(link)
        if link.bind is None:
            return
        domain = (link.bind.account, link.bind.remote_domain)
        known = self._links.get(domain, {})
        if known.get(link.bind.remote_id) == link.connection:
            del known[link.bind.remote_id]
        if not known:
            self._links.pop(domain, None)
        for active in self._by_domain.get(domain, {}).values():
            if active.link == link.connection and active.replica.state is State.RUNNING:
                self._queue_restart(active)

    def _leader_moved(self, key: Key, wait_s: float) -> None:
        active = self._slots.get(key)
        if active is not None and active.replica.state is State.RUNNING:
            self._queue_restart(active, wait_s)
        elif active is not None:
            self._kick(active, wait_s)

    def _hub_grew(self, keys: list[Key]) -> None:
        """A server has come to the hub's cluster: perhaps that of the streams whose copies wait."""
        found, now_s = map(self._slots.get, keys), trio.current_time()
        waiting = [one for one in found if one is not None and one.replica.state is not State.RUNNING]
        for number, active in enumerate(waiting):
            active.replica.hasten(now_s, number, len(waiting))
            self._due(active)

    def _link_of(self, active: _Active) -> int:
        """The connection that leads to its origin, 0: none does, or it is not known."""
        return next(reversed(self._links.get(active.domain, {}).values()), 0)

    def _only_link_of(self, active: _Active) -> int:
        """The connection by which alone its origin is reached; 0: there may be others."""
        known = self._links.get(active.domain, {}) if active.domain[1] else {}
        return next(iter(known.values())) if len(known) == 1 else 0

    def ingest_event(self, event: t.Ingest) -> None:
        """News of the C side."""
        if event.code == t.IngestCode.ROOM:
            self._room_in(event.stream)
            return
        active = self._slots.get((event.stream, event.slot))
        if active is None or event.code == t.IngestCode.FIRST:
            return
        if event.code == t.IngestCode.BACK:
            if active.replica.is_put_back:
                return  # it was asked for what is newer, and this is that
            origin_news.put_back(self._log, active.replica, event.last_sequence)
            epochs = active.replica.put_back(event.last_sequence)
            if active.replica.slot.origin.durable:
                # What comes now is of none of these: a process that begins here must not take it for the last one's.
                self._job(active, "untold", lambda: self._identities.stand(active.replica.slot, epochs.settled()))
                return
        wait_s = 0.0
        if event.code == t.IngestCode.REFUSED:
            wait_s = self._refusals.wait_s(active.key, taken=event.last_sequence > active.replica.last_sequence)
        self._log.debug(f"{active.replica!r}: {t.IngestCode(event.code).name.lower()} at {event.last_sequence}")
        self._queue_restart(active, wait_s)

    def _room_in(self, stream: int) -> None:
        """The stream is less full than when it refused something, or has other limits."""
        for active in filter(None, map(self._slots.get, self._refusals.of(stream))):
            wait_s = self._refusals.room_wait_s(active.key, seldom=active.replica.is_costly)
            if active.ingesting:  # it is about to be stopped
                self._queue_restart(active, wait_s)
            elif active.replica.state is State.IDLE and active.replica.deadline_s > trio.current_time() + wait_s:
                self._kick(active, wait_s)

    def room(self) -> None:
        """The store has room again: those that were refused are asked at once."""
        for active in filter(None, map(self._slots.get, self._refusals.all())):
            if active.replica.state is State.IDLE:
                self._kick(active)

    async def info(self, stream: int, slot: int) -> SlotInfo:
        """Lag, activity and error of one slot."""
        return (await self.infos([(stream, slot)]))[0]

    async def infos(self, keys: Sequence[tuple[int, int]]) -> list[SlotInfo]:
        """The same of each, some together: the plane has one turn for them."""
        found, pause = list[SlotInfo](), Pause()
        for begin in range(0, len(keys), INFOS_TOGETHER):
            some = keys[begin : begin + INFOS_TOGETHER]
            asked = [key for key in some if key in self._slots and self._slots[key].ingesting]
            states = await self._plane.ingest_states(asked) if asked else []
            told = dict(zip(asked, states, strict=True))
            found += [self._info(key, told.get(key)) for key in some]
            await pause()
        return found

    def _info(self, key: tuple[int, int], state: t.IngestState | None) -> SlotInfo:
        active = self._slots.get(key)
        if active is None:
            return SlotInfo()
        if state is None:  # also one that stopped while we asked
            return active.stopped()
        linked = active.link in (0, self._link_of(active))
        return active.told.info(active.replica, state, linked=linked)

    async def behind(self) -> Behind:
        """How far the copies of this server are behind."""
        found = await self.infos(tuple(self._slots))
        running = sum(one.running for one in found)
        return Behind(running, sum(one.lag for one in found if one.known), len(found) - running)

    async def behind_each(self, account: int) -> dict[str, int | None]:
        """How far each far domain's copies in an account are behind, together; None: one of them is not known."""
        found, pause = dict[str, int | None](), Pause()
        copies = [
            one for place, here in self._by_domain.items() if place[0] == account and place[1] for one in here.values()
        ]
        for begin in range(0, len(copies), INFOS_TOGETHER):
            some = copies[begin : begin + INFOS_TOGETHER]
            asked = [one for one in some if one.ingesting]
            states = await self._plane.ingest_states([one.key for one in asked]) if asked else []
            told = dict(zip(asked, states, strict=True))
            for active in some:
                behind, before = self._behind(active, told.get(active)), found.get(active.domain[1], 0)
                found[active.domain[1]] = before + behind if before is not None and behind is not None else None
            await pause()
        return found

    def _behind(self, active: _Active, state: t.IngestState | None) -> int | None:
        """How many messages it has still to get, as its info says; None: that is not known."""
        if state is None:
            return None
        active.told.note(state)
        linked = active.link in (0, self._link_of(active))
        return active.told.lag if linked and state.running and state.known_ns >= 0 else None

    def waiting(self) -> int:
        """How many jobs wait for the plane."""
        return self._orders.waiting()

    # ---- driving

    async def run(self) -> None:
        """Drives all slots for ever. Cancel to end it."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._orders.run)
            nursery.start_soon(self._trips.run)
            while True:
                now_s = trio.current_time()
                for active in self._moments.due(now_s):
                    self._poll(active, now_s)
                self._wake = trio.Event()
                with trio.move_on_at(self._moments.nearest_s):
                    await self._wake.wait()

    def _poll(self, active: _Active, now_s: float) -> None:
        replica = active.replica
        link, copies = self._ways.get(self._link_of(active)), len(self._by_domain.get(active.domain, ()))
        replica.reached_by(link, copies, alone=self._only_link_of(active) != 0)
        if ASK in active.jobs:
            replica.waits_to_ask(now_s)
        try:
            for order in replica.poll(now_s):
                self._queue(active, order)
            if replica.is_late:
                self._trips.late()
            if active.replica.unanswered and not active.asking.probes:
                self._listen(active)
        except Exception as error:
            self._guard.caught("a mirror or source", error)
            active.replica.lost(0, now_s, UNEXPECTED_WAIT_S)
        self._due(active)

    def _due(self, active: _Active) -> None:
        """Something has happened to a slot: it may be due at another moment."""
        if self._is_current(active) and self._moments.at(active, active.replica.deadline_s):
            self._wake.set()

    def _kick(self, active: _Active, wait_s: float = 0.0) -> None:
        active.replica.kick(trio.current_time() + wait_s)
        self._due(active)

    def _listen(self, active: _Active) -> None:
        """A durable consumer that did not answer may be made at any time: what it delivers, if only a heartbeat, tells
        that it is there. It is then set back, so that nothing of it is missed."""

        def heard(_message: t.Message) -> None:
            active.asking.drop_probe()
            self._kick(active)

        active.asking.probe(active.replica.slot.origin.durable_deliver, heard)

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
        self._orders.put(active, kind, job)

    def _queue(self, active: _Active, order: Order) -> None:
        match order:
            case Ask():
                self._job(active, ASK, lambda: self._ask(active, order))
            case Run():
                self._job(active, "start", lambda: self._start(active, order))
            case PutBack() | Rewind() | Moves():
                active.consumer = order.consumer
                self._delete_consumer(active)
                if isinstance(order, PutBack):
                    origin_news.put_back(self._log, active.replica, order.ends)
                elif isinstance(order, Moves):
                    origin_news.moves(self._log, active.replica, order)
            case Back() | Renewed():
                origin_news.another(self._log, active.replica.slot, order)
            case Forget():
                slot = active.replica.slot
                origin_news.made_anew(self._log, slot)
                self._progress[(slot.stream, slot.origin.key)] = 0, 0
                self._job(active, "forget", lambda: self._forget(slot, order.earlier))

    def _is_current(self, active: _Active) -> bool:
        slot = active.replica.slot
        return self._slots.get((slot.stream, slot.number)) is active

    async def _ask(self, active: _Active, order: Ask) -> None:
        slot = active.replica.slot
        if not self._is_current(active):
            return
        # To tell links of an answer that nobody will give is what costs; of origins here that is always known.
        far = slot.origin.domain not in ("", slot.domain)
        if far and not order.ahead and not await self._plane.reaches(slot.account, order.subject):
            self._unheard(active, order)
            return
        if not self._is_current(active) or not active.replica.waits_for(order.number):
            return  # another one has taken its place meanwhile
        if not active.asking.listens(order.number, self._only_link_of(active)):
            self._listen_for(active, order)
        active.asking.sent()
        active.replica.asked_at(order.number, trio.current_time())
        self._due(active)
        heard = await self._plane.publish_counted(
            slot.account,
            order.subject,
            order.body,
            reply=active.asking.inbox,
            header=order.header,
            flags=t.PublishFlag.REQUEST,
            link=self._link_of(active) if order.ahead else 0,
        )
        if heard == 0:
            self._unheard(active, order)

    def _unheard(self, active: _Active, order: Ask) -> None:
        active.asking.drop()
        active.replica.unheard(order.number, trio.current_time(), len(self._slots) / UNHEARD_A_SECOND)
        self._due(active)

    def _listen_for(self, active: _Active, order: Ask) -> None:
        self._leaders.listen(active.replica.slot, self._link_of(active))

        def answered(message: t.Message) -> bool:
            if not self.may_answer(active.replica.slot, message.connection) or not active.asking.first(message):
                return False
            identity, *rest = (header_field(message.header, name) for name in ANSWER_HEADERS)
            now_s = trio.current_time()
            for next_order in active.replica.answered(order.number, identity, message.payload, now_s, *rest):
                self._queue(active, next_order)
            self._due(active)
            if not order.ahead or not active.jobs:
                active.asking.drop_ahead()
                return False
            active.asking.keep(message)
            return True

        deliver = order.deliver if order.ahead else ""
        active.asking.listen(order.number, self._only_link_of(active), answered, deliver)

    def _rested(self, active: _Active) -> None:
        if active.asking.keeps:
            active.asking.let_go()

    def may_answer(self, slot: Slot, connection: int) -> bool:
        """Whose deliveries are taken under the names that they give: this server's own API answers for a stream of its
        own, and a link to the origin's domain, where there is one, for that domain."""
        if not slot.origin.api or not connection:
            return not connection
        known = self._links.get((slot.account, slot.origin.domain), {})
        return not slot.origin.domain or not known or connection in known.values()

    async def _start(self, active: _Active, order: Run) -> None:
        slot = active.replica.slot
        if not self._is_current(active) or active.replica.state is not State.RUNNING:
            return
        active.consumer = order.consumer
        last_sequence, epochs = self._identities.goes_on(slot, order, self._progress)
        link = self._link_of(active)
        try:
            # Known before the first message of it is stored: or after a crash it would be a stream never seen.
            await self._identities.remember(slot, order.identity)
            await self._identities.stand(slot, epochs)
            if epochs.moved:
                self._progress[slot.stream, slot.origin.key] = epochs.moved[-1], 0
            active.replica.settled(order.epochs, epochs)
            await self._plane.ingest_start(
                slot.stream,
                slot.number,
                mirror=slot.mirror,
                durable_behind=order.behind if slot.origin.durable else None,
                last_sequence=last_sequence,
                silence_ns=order.silence_ns,
                deliver_subject=order.deliver,
                consumer=order.consumer,
                source=source_of(slot, order.identity),
                transforms=slot.origin.transforms,
                link=link,
                alone=self._only_link_of(active) != 0,
                origin=active.asking.answered_by,
                begins=order.begins,
                pending=order.pending,
                spared=order.spared,
                span=order.span,
            )
        except Exception as error:
            # Nobody takes in what the consumer sends, and no event would ever say so.
            self._delete_consumer(active)
            wait_s = origin_news.not_begun(self._log, active.replica, error)
            active.replica.lost(order.last_sequence, trio.current_time(), wait_s)
            self._due(active)
            raise
        active.ingesting, active.link = True, link
        if active.asking.missed:  # where nothing comes behind it, only a heartbeat would tell, and these are seldom
            self._queue_restart(active, MISSED_WAIT_S)
        elif order.look or order.where:
            self._look(active, order)

    def _look(self, active: _Active, order: Run) -> None:
        """Asks the origin where its stream ends, or where it is. Without an answer that is asked at the next start."""
        slot, replica = active.replica.slot, active.replica

        def told(message: t.Message) -> None:
            active.asking.drop_probe()
            try:
                ends = replica.ends_early(message.payload) if order.look else None
                moved = order.where and replica.moved_elsewhere(message.payload)
            except JsonError:
                return
            if moved and replica.state is State.RUNNING:
                self._queue_restart(active)
            if ends is not None and replica.state is State.RUNNING:
                origin_news.put_back(self._log, replica, ends)
                replica.put_back(ends)
                self._queue_restart(active)

        link = self._only_link_of(active)
        to = inbox("" if link else slot.aim)
        active.asking.probe(to, told, link)
        self._plane.publish(slot.account, slot.origin.info_subject, b"", reply=to, flags=t.PublishFlag.REQUEST)

    async def _forget(self, slot: Slot, earlier: bytes) -> None:
        await self._identities.leave(slot, earlier)
        await self._plane.ingest_forget(slot.stream, slot.origin.key)

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
            self._delete_consumer(active, same=True)
            active.replica.lost(last, trio.current_time(), wait_s, newest_ts)
            self._due(active)

    async def _stop_ingest(self, active: _Active) -> tuple[int, int]:
        """The origin's sequence taken last, and the newest stamp."""
        slot = active.replica.slot
        # Where it ended, not where it was when it was asked before: messages may come in between.
        ended = await self._plane.ingest_stop(slot.stream, slot.number)
        active.ingesting = False
        active.told.note(ended)
        active.replica.learn_span(ended.span)
        if ended.newest_ts or not active.replica.is_put_back:  # else the stored position is still the one of before
            self._progress[(slot.stream, slot.origin.key)] = ended.last_sequence, ended.newest_ts
        return ended.last_sequence, ended.newest_ts

    def _delete_consumer(self, active: _Active, *, same: bool = False) -> None:
        """same: the next request may be given it, which it keeps where else messages waited at the origin for ever."""
        if active.consumer and not (same and active.replica.settles) and not active.replica.slot.origin.durable:
            active.asking.delete(active.consumer)
            active.consumer = ""

    def _end(self, key: tuple[int, int], *, handed_on: bool = False) -> None:
        active = self._slots.pop(key)
        self._leaders.forget(key)
        self._refusals.forget(key)
        self._moments.at(active, float("inf"))
        self._numbers[key[0]].discard(key[1])
        if not self._numbers[key[0]]:
            del self._numbers[key[0]]
        del self._by_domain[active.domain][key]
        if not self._by_domain[active.domain]:
            del self._by_domain[active.domain]
        active.asking.drop()
        active.asking.drop_probe()
        active.asking.let_go()

        async def end() -> None:
            self._delete_consumer(active, same=handed_on)
            if active.ingesting:
                with suppress(t.PlaneError):  # the plane has ended it: another server leads its stream
                    await self._stop_ingest(active)

        running = active.ingesting or active.replica.state is State.RUNNING
        if running or active.consumer or active.jobs:
            self._job(active, "end", end)
