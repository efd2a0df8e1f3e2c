"""The pulling side of one mirror or source slot, as a pure machine: news in, orders out, time handed in.

    IDLE --poll--> ASKING --created--> RUNNING --gap, silence, refusal, link lost--> IDLE
             |         `--error, no answer--> IDLE, after a wait
             `--nobody heard the request--> IDLE, after a short wait

An origin in a domain that is not in reach is seldom looked for: the link that brings it wakes its slots (kick). One
behind another prefix, which may be any subject, is looked for often in the first seconds (POLL_S), later every other
second, or less often where many slots wait; all of them at the same moments. A request that was heard and not answered,
or refused, is repeated slowly. The position always comes from what is stored: the machine asks for last_sequence + 1,
and the store drops what it has. A durable consumer, where the configuration names one, is set back instead of made; it
acknowledges by flow control, whose replies wait for the disk here. It belongs to somebody, who may set it back or make
it anew at any time: the plane then reports a gap, and the next answer tells whether it is still the same stream.

An origin that was put back from an old copy has other messages at sequences that were taken. A leafd says with its
answer where its stream ends and what stamp the message has that was taken last (Leafd-Stream-Position, asked for by
Leafd-Last-Taken). Of another server the consumer begins at that message once more, whose stamp the plane looks at. Then
the next consumer begins at what is newer than all that was taken.

A server that is no leafd sends megabytes over a link that carries kilobytes a second. Where that is far what its
consumer sends is acknowledged, so that no more is on its way than the link needs (native/jetstream/span.h finds out how
much). A server that refuses such a consumer, or is never told of what was acknowledged, has one without.

Not here: messages (native/jetstream/ingest.c), sockets, subscriptions (asking.py), the answers' fields (answers.py).
Reference: tests/wire/jetstream.md, "Mirrors and sources".
"""

from __future__ import annotations

import math
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from leafd.gojson import JsonError, decode
from leafd.links.answers import Created, CreateError, OriginInfo, is_number
from leafd.links.creation import Wanted, body_of
from leafd.links.earlier import Earlier
from leafd.links.epochs import Epochs, told
from leafd.links.origin import Origin
from leafd.links.steps import SILENCE_NS, Ask, Back, Forget, Moves, Order, PutBack, Renewed, Rewind, Run
from leafd.native_codes import IngestAt
from leafd.native_ingests import NO_SPAN, Span
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.links.link import Link

POLL_S: Final = 0.2
POLLS_OFTEN: Final = 25
"""So many in a row; then the time between two doubles, up to POLL_MAX_S or what was asked for."""
POLL_MAX_S: Final = 2.0
ANSWER_TIMEOUT_S: Final = 5.0
ANSWER_TIMEOUT_MAX_S: Final = 30.0
RETRY_S: Final = 1.0
RETRY_MAX_S: Final = 30.0
HASTE_S: Final = 60.0
"""So long is asked in haste after a server was lost or has come back at a hub that is a cluster: .."""
HASTE_FIRST_S: Final = 1.0
""".. so far apart at first, and later .."""
HASTE_PARTS: Final = {False: 16, True: 4}
""".. by this part of what has passed; by whether the link is far."""
HASTE_EACH_S: Final = {False: 0.002, True: 0.25}
"""More for each other copy that waits, since all of them ask over one link."""
RESET_SPACING_S: Final = 2.0
"""Between two starts from one durable consumer: two that want the same one do not set it back all the time."""
LEVELS: Final = (5, 4, 0)
"""API levels to ask with: 5 knows stream identities, 4 knows `sourcing`, 0 is the form that servers before 2.14
take."""

HEARTBEAT_NS: Final = 1_000_000_000
"""The time between idle heartbeats of a consumer of this server. .."""
FAR_HEARTBEAT_NS: Final = 25_000_000_000
""".. Of one behind a link: as seldom as silence is still told within a minute. .."""
ELSEWHERE_HEARTBEAT_NS: Final = 2_000_000_000
""".. Of one in another cluster than the near hub's: that its server is gone is told by nothing else. .."""
FAR_ELSEWHERE_HEARTBEAT_NS: Final = 10_000_000_000
""".. The same behind a far link, where each takes some 200 B of the line: only of FEW copies there. .."""
FEW: Final = 16
SPARED_S: Final = 300
""".. Of a leafd at the other end of a link, which tells of a consumer's end; that the link is alive the link knows."""
INACTIVE_NS: Final = 10_000_000_000
"""So long a consumer stays without interest. .."""
FAR_INACTIVE_NS: Final = 60_000_000_000
""".. One behind a far link, or a link of another server, of which nothing is known: its answer has to come here, and
what is heard by it has to come back there."""
FAR_S: Final = 0.02
"""A round trip from which on a link is far."""
SPAN_FIRST: Final = 64
"""So many messages may be on their way of a consumer that acknowledges, until it is known how many are needed."""
SPAN_KINDS: Final = {"all": False, "flow_control": True}
"""How such a one acknowledges; a server may choose the other one. Whether that is by flow control."""
TOO_NEW_CODES: Final = (10185, 10025)
IDENTITY_CODE: Final = 10225
ACK_CODES: Final = {True: 10214, False: 10217}
"""By whether it is a mirror: the durable consumer does not acknowledge by flow control."""


class State(Enum):
    """The state of a slot."""

    IDLE = "idle"
    ASKING = "asking"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot: the local stream, its origin and what is taken from there. number: 0 for a mirror, 1.. for sources."""

    stream: int
    stream_name: str
    account: int
    account_name: str
    number: int
    mirror: bool
    origin: Origin
    domain: str
    consumer: str
    """The name to ask for; the origin may give another one back."""

    @property
    def aim(self) -> str:
        """The end of names where no link is known to lead to the origin."""
        return self.origin.aim(self.domain)


class Replica:
    """One slot. Time is monotonic seconds."""

    def __init__(
        self,
        slot: Slot,
        last_sequence: int,
        identity: str,
        newest_ts: int = 0,
        earlier: Earlier | None = None,
        epochs: Epochs | None = None,
    ) -> None:
        self.slot = slot
        self.state = State.IDLE
        self.last_sequence = last_sequence
        self.newest_ts = newest_ts
        """The newest stamp of all that was taken, at the origin, Unix ns; 0: not known."""
        self._tells_position = False
        """Whether the origin answered the last time where its stream ends."""
        self._put_back = False
        self.put_back_s: float | None = None
        """When it was told last that the origin was put back (origin_news.py)."""
        self._settles = False
        self._rewound = False
        """Since it is known that the origin was put back, it has said behind which sequence all is new there."""
        self._earlier = earlier or Earlier()
        self._epochs = epochs or Epochs()
        self.identity = identity
        self.error: dict[str, Any] | None = None
        self.by_link = self._alone = False
        """A link leads to its origin directly; _alone: and nothing else does."""
        self.ahead = False
        """The server at the other end answers before it delivers."""
        self.far = False
        """Its link is far, and no leafd is at the other end. .."""
        self._span = SPAN_FIRST
        """.. So many messages may be on their way; 0: any number."""
        self._spanned = False
        """The consumer that runs is one with a span."""
        self._level = 0
        self._number = 0
        self._in_reach = 0
        """The request during which it was told that its origin is in reach."""
        self._deliver = ""
        self._failures = 0
        self._unheard = 0
        self._deadline_s = 0.0
        self._started_s = -math.inf
        self._round_trip_s = 0.0
        self._hub_cluster = ""
        """The hub's cluster that the link leads to; "": no cluster."""
        self._elsewhere = False
        """Its origin is in another cluster, behind a gateway."""
        self._located = ""
        """The hub's cluster when the origin said that last."""
        self._few = True
        """Whether few copies share the link."""
        self._hastened_s = -math.inf
        self._others = 0
        """Copies that wait, too, and ask over the same link."""

    def __repr__(self) -> str:
        kind = "mirror" if self.slot.mirror else "source"
        return (
            f"<{kind} {self.slot.stream_name} of {self.slot.origin.stream} {self.state.value} at {self.last_sequence}>"
        )

    @property
    def deadline_s(self) -> float:
        """The moment at which poll() has work to do; infinite while the slot runs."""
        return float("inf") if self.state is State.RUNNING else self._deadline_s

    @property
    def is_costly(self) -> bool:
        """Whether a try costs much: its line is slow, or its consumer is somebody's who may want it as well."""
        return self.far or bool(self.slot.origin.durable)

    @property
    def is_late(self) -> bool:
        """Whether it is asked again, since no answer came."""
        return self.state is State.ASKING and self._failures > 0

    @property
    def unanswered(self) -> bool:
        """Whether its durable consumer did not answer when it was asked last: it may not be there yet."""
        return self.is_late and bool(self.slot.origin.durable)

    def in_reach(self) -> bool:
        """Notes that its origin is in reach. True: its request is on its way over the link that leads there, and the
        news comes with the answer, or right before it. It is asked again if it turns out that nobody heard it."""
        asked = self.state is State.ASKING and self.by_link and self._failures == 0
        if asked:
            self._in_reach = self._number
        return asked

    def may_be_forgotten(self, now_s: float) -> bool:
        """Whether an origin elsewhere that has come back may know nothing of the consumer that runs."""
        return not self._is_here and self.state is State.RUNNING and now_s - self._started_s >= RESET_SPACING_S

    def waits_for(self, number: int) -> bool:
        """Whether the answer to that request is still wanted."""
        return number == self._number and self.state is State.ASKING

    def kick(self, at_s: float) -> None:
        """Lets the next attempt begin at that moment, as if none had failed: the origin may be in reach."""
        self._failures = self._unheard = 0
        self._span = self._span or SPAN_FIRST
        if self.state is not State.RUNNING:
            self.state = State.IDLE
            self._deadline_s = at_s

    def hasten(self, now_s: float, before: int, others: int) -> None:
        """Asks anew, and soon again without an answer: the server that has the origin's stream may have come back.
        others: how many wait for the same, before: that many of them ask first."""
        self._hastened_s, self._others = now_s, others
        self.kick(now_s + before * HASTE_EACH_S[self.far])

    @property
    def is_put_back(self) -> bool:
        """Whether it is known that the origin was put back, and nothing newer was taken of it yet."""
        return self._put_back

    @property
    def settles(self) -> bool:
        """Whether its consumer's acknowledgements alone remove messages at the origin, and the next one is to be the
        same. One for what is newer by its stamp has another start."""
        return self._settles and not self._put_back

    def put_back(self, behind: int) -> Epochs:
        """The origin was put back: the plane has heard or seen it, or its stream ends too early. Of a durable
        consumer the plane goes on behind that sequence by itself. What is known of its epochs from now on."""
        self._epochs = self._epochs.untold(self.last_sequence)
        if self.slot.origin.durable:
            self.last_sequence, self.newest_ts = behind, 0
        else:
            self._put_back = True
        return self._epochs

    def ends_early(self, body: bytes) -> int | None:
        """The end of the origin's stream, by its answer to a stream info, if that is below what was taken; else None.
        Raises JsonError for an answer that is none."""
        info = decode(OriginInfo, body, strict=False)
        ends = info.state.last_seq if info.state is not None else self.last_sequence
        return ends if ends < self.last_sequence and not self._put_back else None

    def moved_elsewhere(self, body: bytes) -> bool:
        """Notes by the origin's answer to a stream info where it is. True: its consumer's heartbeats are to come more
        often than they do. Raises JsonError for an answer that is none."""
        info, before = decode(OriginInfo, body, strict=False), self._elsewhere
        there = info.cluster.name if info.cluster is not None else ""
        self._located = self._hub_cluster
        self._elsewhere = bool(there and self._hub_cluster) and there != self._hub_cluster
        return self._elsewhere and not before

    def lost(self, last_sequence: int, now_s: float, wait_s: float = 0.0, newest_ts: int = 0) -> None:
        """The consumer is of no use any more: a gap, silence, a refusal, or its link went down."""
        if newest_ts > self.newest_ts:  # something was taken; of an origin that was put back at a lower sequence
            self.last_sequence, self.newest_ts = last_sequence, newest_ts
            self._put_back = self._rewound = False
        self.last_sequence = max(self.last_sequence, last_sequence)
        self.state = State.IDLE
        self._deadline_s = now_s + wait_s
        if self._hub_cluster and (not self.far or (self._elsewhere and self._few)):
            self._hastened_s, self._others = now_s, 0
        if self.slot.origin.durable:
            self._deadline_s = max(self._deadline_s, self._started_s + RESET_SPACING_S)

    @property
    def span(self) -> int:
        """So many messages may come of its consumer before one is acknowledged, if it is asked for now; 0: any
        number."""
        return self._span if self.far and not self.slot.origin.durable else 0

    def _span_as(self, ack_policy: str, consumer: str) -> Span:
        """The span of the consumer that was made, which acknowledges in that way. Only one that has the name that was
        asked for is sent anything: what it delivers says where to."""
        if not self.span or ack_policy not in SPAN_KINDS or not consumer.startswith(self.slot.consumer):
            return NO_SPAN
        return Span(self.span, SPAN_KINDS[ack_policy], self.slot.origin.stream)

    def learn_span(self, size: int) -> None:
        """Sets the span of the next consumer, as the one that ended has found out."""
        if self._spanned:
            self._span = size

    def reached_by(self, link: Link | None, copies: int = 1, *, alone: bool = True) -> None:
        """The link that leads to its origin directly; None: there is none, or it is not known. copies: sharing it;
        alone: no other one leads there."""
        self._few, self._alone = copies <= FEW, alone and link is not None
        self.ahead = link is not None and link.bind is not None and link.bind.orderly
        self.by_link = link is not None
        self.far = link is not None and not self.ahead and link.round_trip_s >= FAR_S
        self._round_trip_s = link.round_trip_s if link is not None else 0.0
        self._hub_cluster = link.bind.cluster if link is not None and link.bind is not None and link.to_cluster else ""

    def poll(self, now_s: float) -> list[Order]:
        """The orders that are due now."""
        if now_s < self.deadline_s or self.state is State.RUNNING:
            return []
        if self.state is State.ASKING:
            self.error = {"code": 408, "err_code": 10029, "description": "no answer from the origin"}
            self._failures += 1
        origin = self.slot.origin
        # Asked again for the same consumer: over a slow link the first answer may be under way, and it is as good. Not
        # so where a durable consumer is set back: the second order sets it back once more, behind the first answer.
        if self.state is not State.ASKING or origin.durable:
            self._number += 1
            aim = "" if self.by_link else self.slot.aim
            self._deliver = origin.durable_deliver or origin.deliver_subject(self.slot.mirror, aim)
        self.state = State.ASKING
        self._deadline_s = now_s + self._patience_s(now_s)
        return [self._ask()]

    def asked_at(self, number: int, now_s: float) -> None:
        """Notes that a request has left just now: from then on its answer is waited for."""
        if self.waits_for(number):
            self._deadline_s = now_s + self._patience_s(now_s)

    def waits_to_ask(self, now_s: float) -> None:
        """Notes that a request has not left yet: thousands may be before it."""
        if self.state is State.ASKING:
            self._deadline_s = now_s + self._patience_s(now_s)

    def _patience_s(self, now_s: float) -> float:
        """How long the answer to what is asked now is waited for."""
        # A server that is no leafd would make another one in place of it, and its answers may pass each other.
        wait_s = ANSWER_TIMEOUT_MAX_S if self.far else ANSWER_TIMEOUT_S * (1 + self._failures)
        passed_s = now_s - self._hastened_s
        if passed_s < HASTE_S or self._elsewhere:
            apart_s = max(HASTE_FIRST_S, 3 * self._round_trip_s, passed_s / HASTE_PARTS[self.far])
            wait_s = min(wait_s, max(apart_s, self._others * HASTE_EACH_S[self.far]))
        return min(wait_s, ANSWER_TIMEOUT_MAX_S)

    def unheard(self, number: int, now_s: float, seldom_s: float = POLL_MAX_S) -> None:
        """Notes that a request had no subscriber: the link is down or has not told its interest yet. seldom_s: the time
        between two tries when it stays so."""
        if self.waits_for(number):
            self.state = State.IDLE
            self.error = {"code": 503, "err_code": 10029, "description": "origin not reachable"}
            self._unheard = min(self._unheard + 1, POLLS_OFTEN + 16)
            wait_s = max(seldom_s, POLL_MAX_S)
            if not self.slot.origin.domain:
                wait_s = min(POLL_S * 2 ** max(self._unheard - POLLS_OFTEN, 0), wait_s)
            # Of a thousand slots all those wake together that wait for the same moment.
            ticks = math.floor(now_s / POLL_S) + round(wait_s / POLL_S)
            self._deadline_s = ticks * POLL_S if ticks * POLL_S > now_s else (ticks + 1) * POLL_S
            if self._in_reach == number:
                self._deadline_s = now_s  # it was heard of between the look and this

    def answered(
        self,
        number: int,
        identity: str,
        body: bytes,
        now_s: float,
        position: str = "",
        heartbeat: str = "",
        new: str = "",
        epochs: str = "",
    ) -> list[Order]:
        """The origin's answer to request `number`; identity, position, heartbeat, new, epochs: its headers
        Nats-Stream-Identity, Leafd-Stream-Position, Leafd-Heartbeat, Leafd-New-Behind and Leafd-Epochs, or ""."""
        if not self.waits_for(number):
            return []
        try:
            reply = decode(Created, body, strict=False)
        except JsonError:
            self._retry(now_s)
            return []
        if reply.error is not None:
            return self._refused(reply.error, now_s)
        if self.slot.origin.durable and (reply.config is None or reply.config.ack_policy != "flow_control"):
            kind = "mirror" if self.slot.mirror else "source"
            text = f"stream {kind} consumer requires flow control ack policy"
            return self._refused(CreateError(400, ACK_CODES[self.slot.mirror], text), now_s)
        orders: list[Order] = []
        if identity:
            # Setting a consumer back is not refused when the stream is another one (a mirror does not even ask).
            if self.slot.origin.durable and not self.slot.mirror and self.identity not in ("", identity):
                self._start_over()
                orders.append(Forget(self._earlier.packed))
            elif not self.identity and (taken := self._earlier.taken(identity)) is not None:
                self.identity, (self.last_sequence, self.newest_ts) = identity, taken
                self.state, self._deadline_s = State.IDLE, now_s
                return [Back(self.last_sequence)]  # this consumer begins too early: the next one has its name
            elif self.slot.mirror and self.last_sequence and self.identity not in ("", identity):
                orders.append(Renewed(self.last_sequence))
            self.identity = identity
        name = reply.name or self.slot.consumer
        self._settles = reply.config is not None and reply.config.ack_policy == "flow_control"
        knew, other = self._epoch, self._placed(name, epochs, position, new)
        if other is not None and not self.slot.origin.durable:
            again, self.state, self._deadline_s = len(self._epochs.moved) > 2, State.IDLE, now_s
            if again:  # by what it says of its epochs it is now one stream and now another
                self._retry(now_s)
            return [*orders, other]
        if knew and not (self._epoch or self._looks or self.slot.origin.durable):
            # By that epoch it began where nothing tells whether it is right. Without it, its origin says if it is not.
            self.state, self._deadline_s = State.IDLE, now_s
            return [*orders, Rewind(name)]
        orders += [other] if other is not None else []
        self.error = None
        self._failures = self._unheard = 0
        self.state = State.RUNNING
        self._started_s = now_s
        return [*orders, self._run(reply, name, heartbeat)]

    def _placed(self, name: str, epochs: str, position: str, new: str) -> Order | None:
        """Learns by the origin's epochs, or else by stamps, where the source stands. An order: not where it stood."""
        theirs, had = told(epochs) if self._counts_epochs else (), self.last_sequence
        stands = self._epochs.stands(self.identity, theirs, had) if theirs else None
        to = had if stands is None else stands
        other = Moves(name, had, to) if to != had else self._begins_wrong(name, position, new)
        kept = theirs if other is None or to != had else ()
        self._epochs = self._epochs.goes_on(self.identity, kept, had, stands)
        if to != had:
            self.last_sequence, self.newest_ts = to, 0
        return other

    def _run(self, reply: Created, name: str, heartbeat: str) -> Run:
        behind = reply.delivered.stream_seq if reply.delivered is not None else 0
        look = self._looks and not (self._put_back or self._tells_position or reply.num_pending)
        spared = self.by_link and heartbeat.isascii() and heartbeat.isdigit() and 0 < int(heartbeat[:6]) <= SPARED_S
        asked_ns = reply.config.idle_heartbeat if reply.config is not None else 0
        between_ns = int(heartbeat) * 10**9 if spared else asked_ns
        span = self._span_as("" if reply.config is None else reply.config.ack_policy, name)
        self._spanned = span.size != 0
        return Run(
            self._deliver,
            name,
            self.last_sequence,
            self.identity,
            behind,
            self._begins,
            self._wonders,
            look,
            reply.num_pending,
            silence_ns=max(0 if self._elsewhere and not self.far else SILENCE_NS, between_ns * 11 // 5),
            spared=spared,
            span=span,
            epochs=self._epochs,
        )

    def settled(self, asked: Epochs, stored: Epochs) -> None:
        """Notes that its stored position is the one that it stands at. stored: in place of the ones of its order."""
        if self._epochs is asked:
            self._epochs = stored.settled()

    @property
    def _epoch(self) -> str:
        """The epoch of what was taken last; "": it is not known."""
        return self._epochs.at(self.last_sequence) if self._epochs.identity == self.identity else ""

    @property
    def _counts_epochs(self) -> bool:
        """Whether all that its consumer delivers is of the epochs that the answer tells. A consumer that acknowledges
        outlives its origin's start, so of such a one only where one link alone leads there, and it is lost then."""
        return not self.slot.mirror and not self._put_back and (self._alone or not self._settles)

    @property
    def _wonders(self) -> bool:
        """Whether it asks where its origin is: at a start over a near link, over a far one once."""
        if not self._hub_cluster or self.slot.origin.durable:
            return False
        return not self.far or (self._few and self._located != self._hub_cluster)

    @property
    def _looks(self) -> bool:
        """Whether it asks with a consumer made for this start, behind something whose stamp is known."""
        plain = not self.slot.mirror and not self.slot.origin.durable
        return plain and self.last_sequence > 0 and self.newest_ts > 0

    def _ends_before(self, position: str) -> int | None:
        """The end of the origin's stream, if it cannot be the stream that the last message came from; else None."""
        words = position.split()
        self._tells_position = all(map(is_number, words)) and len(words) == 2
        if not self._tells_position:
            return None
        ends, taken_ts = map(int, words)
        return ends if ends < self.last_sequence or taken_ts not in (0, self.newest_ts) else None

    def _begins_wrong(self, name: str, position: str, new_behind: str) -> Order | None:
        """The origin's position tells that the consumer that was made begins at the wrong place."""
        if self._looks and not self._put_back and (ends := self._ends_before(position)) is not None:
            self._put_back = True
            return PutBack(name, ends)
        if self._put_back and not self._rewound and is_number(new_behind):
            self._rewound, self.last_sequence, self.newest_ts = True, int(new_behind), 0
            return Rewind(name)
        return None

    @property
    def _begins(self) -> IngestAt:
        """The place where the consumer begins that is asked for now."""
        if not self._put_back:
            return IngestAt.NEXT
        return IngestAt.NEW if self._rewound else IngestAt.TIME

    def _start_over(self) -> None:
        self.last_sequence = self.newest_ts = 0
        self._put_back = self._rewound = False

    def _refused(self, error: CreateError, now_s: float) -> list[Order]:
        code = error.err_code
        if code in TOO_NEW_CODES and self._level + 1 < len(LEVELS):
            self._level += 1
            self.state = State.IDLE
            self._deadline_s = now_s
            return []
        self.error = {"code": error.code, "err_code": code, "description": error.description}
        if self.span and code != IDENTITY_CODE:
            self._span = 0  # that may be what it does not take, or it says no once more
            self.state = State.IDLE
            self._deadline_s = now_s
            return []
        if code == IDENTITY_CODE:
            self._earlier.leave(self.identity, self.last_sequence, self.newest_ts)
            self.identity = ""
            self._start_over()
            self.state = State.IDLE
            self._deadline_s = now_s
            return [Forget(self._earlier.packed)]
        self._retry(now_s)
        return []

    def _retry(self, now_s: float) -> None:
        self.state = State.IDLE
        self._deadline_s = now_s + min(RETRY_S * 2**self._failures, RETRY_MAX_S)
        self._failures = min(self._failures + 1, 16)

    def _ask(self) -> Ask:
        level = LEVELS[self._level]
        ahead = self.by_link and self.ahead
        if self.slot.origin.durable:
            return Ask(self._number, self.slot.origin.reset_subject, self._header(level), b"", self._deliver, ahead)
        name = self.slot.consumer if level else f"{self.slot.consumer}_{self._deliver.rpartition('.')[2]}"
        subject, body = self.slot.origin.create_subject(name), body_of(self.slot, self._wanted(level, name))
        return Ask(self._number, subject, self._header(level), body, self._deliver, ahead)

    def _header(self, level: int) -> bytes:
        mirrors_durable = self.slot.mirror and bool(self.slot.origin.durable)
        if not level or (mirrors_durable and not self.by_link):
            return b""
        lines = [] if mirrors_durable else [f"Nats-Required-Api-Level: {4 if self.slot.mirror else level}"]
        if self.by_link:
            lines.append(f"Leafd-Heartbeat: {SPARED_S}")
        if level >= 5 and not self.slot.mirror:
            lines.append(f"Nats-Stream-Identity: {self.identity}")
            lines.append(f"Leafd-Epoch: {self.last_sequence} {self._epoch}".rstrip())
        if self._looks:
            lines.append(f"Leafd-Last-Taken: {self.last_sequence}")
        return ("NATS/1.0\r\n" + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode()

    @property
    def _is_here(self) -> bool:
        return self.slot.origin.domain in ("", self.slot.domain)

    @property
    def _heartbeat_ns(self) -> int:
        if self._is_here:
            return HEARTBEAT_NS
        if self._elsewhere and (self._few or not self.far):
            return FAR_ELSEWHERE_HEARTBEAT_NS if self.far else ELSEWHERE_HEARTBEAT_NS
        return FAR_HEARTBEAT_NS

    def _wanted(self, level: int, name: str) -> Wanted:
        newer_than_ns = self.newest_ts if self._put_back else 0
        first = 0
        if self.last_sequence and not newer_than_ns:
            once_more = self._looks and not self._tells_position
            first = self.last_sequence if once_more else self.last_sequence + 1
        near = (self.by_link or self._is_here) and not self.span
        inactive_ns = INACTIVE_NS if near else FAR_INACTIVE_NS
        return Wanted(level, name, self._deliver, self._heartbeat_ns, inactive_ns, self.span, newer_than_ns, first)
