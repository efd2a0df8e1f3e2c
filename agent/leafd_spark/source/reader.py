"""Reading a range of sequences off a stream: every row that is there, whichever server answers and whatever breaks.

Here: which way a stream is read, dialling anew and going on where the last row was, and what becomes of
sequences that did not come. Not here: bytes (`wire`), columns (`decoder`), what the stream's leader says
(`leader`), whether something that is not there is a loss (`losses`), which range to read (`planner`).

Three ways:

    direct gets       many messages a request, where the stream allows them and there is at most one filter
    a consumer        the other streams, those of which a mirror answers the direct gets, and long ranges, since
                      nats-server delivers to a consumer twice as fast as it answers direct gets. It pushes, which
                      costs a server less than pulls do, unless much would be pushed behind the range's end, or
                      deliveries or the answers to their flow control do not get through
    single messages   work queues and interest streams that do not allow direct gets, since there a consumer takes
                      messages away; and a window of them wherever somebody was found to be behind

**Nothing is believed to be missing until the stream's leader says so.** Direct gets are answered by any replica,
which may be behind, and by mirrors; a consumer, too, may be on a replica that is behind. Rows that come are true, so
it is the sequences between and behind them that the leader is asked about: what comes next from there on? If it names
one that we did not get, the next window is read from the leader. A replica applies what its leader has applied, in
that order, so it is the end where it lies; gaps between rows are asked about while they are few (`GAPS_ASKED` a
batch), which a stream with a limit per subject has more of. A mirror is a stream of its own, with limits of its own:
its answers are not used.

Direct gets are asked for one batch ahead: the request for the next batch leaves as soon as the end of this one has
come, so the server fills the socket's buffer while Spark takes the rows.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.compute as pc
from leafd.wire_client import Message, header_of

from leafd_spark.consumer import Consumer, NoPush, pull_ended
from leafd_spark.fetch import DEFAULT_API, TROUBLE, ApiError, Patience, dial
from leafd_spark.options import Options
from leafd_spark.ranges import Range, StreamState
from leafd_spark.wire import Connection, Denied, NoResponders, WireError

from .batches import OtherStream
from .columns import Place, Rows, domain_of
from .decoder import Decoder, is_native, make_decoder
from .leader import WINDOW, Facts, Leader
from .losses import LOG, Missing, rule_that_removed

AHEAD_BYTES = 16 << 20  # pulled and not read: far from where a server calls a client slow (64 MB)
AHEAD_MESSAGES = 65_536
PUSHED_AHEAD = 32 << 20  # the most that flow control lets a server push ahead
PUSH_WORTH = 8  # times that a range is what is pushed behind it
CONSUMER_WORTH = 50_000  # sequences of a range for which making a consumer takes little of the time
GAPS_ASKED = 32  # a batch
DOUBTS_MAX = 2  # times that direct gets were found to be behind before a range is read on without them


class Behind(WireError):
    """The stream's leader does not have messages yet that were there when the batch was planned."""


class Doubt(Exception):
    """The leader says that a message which an answer passed over is there."""


class NoConsumer(Exception):
    """A consumer is refused; where it was only the faster way there is another."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


class RangeReader:
    """Reads one range once. `position` is the next sequence wanted; everything before it was handed over, or is not
    there by the word of the stream's leader.

    created: which incarnation of the stream the range is of; empty is the one that is there when reading begins.
    """

    def __init__(self, options: Options, wanted: Range, *, created: str = "") -> None:
        self._options = options
        self._wanted = wanted
        self._created = created
        self.position = wanted.first
        self.gaps: list[Range] = []  # what the leader confirmed that it is not there
        self.doubts = 0  # answers that the leader did not confirm
        self._mirrored = False  # a mirror answers the direct gets
        self._may_push = options.api == DEFAULT_API  # under another name the API may be another account's
        self._no_consumer = False  # the user must not have one, or the stream has too many
        self._made_anew = False
        self._window = WINDOW

    def batches(self) -> Iterator[Any]:
        """The range's rows as Arrow record batches, in the order of their sequences."""
        patience = Patience(self._options.retry)
        while self.position <= self._wanted.last:
            try:
                with dial(self._options) as asking:
                    leader = Leader(asking, self._options)
                    for rows in self._session(leader):
                        patience.renew()
                        yield rows.batch
                    self._settle(leader.facts())
            except TROUBLE as error:
                patience.wait(error)

    def _session(self, leader: Leader) -> Iterator[Rows]:
        """The rows that can be read before something breaks."""
        facts = leader.facts()
        self._look(facts.state)
        if self._made_anew:
            self.position = self._wanted.last + 1  # what is left of the range went with its stream
            return
        domain = domain_of(self._options.api) or leader.domain
        place = Place(self._options.stream, domain, facts.origins)
        while self.position <= self._wanted.last:
            way = self._way(facts)
            if way is not None:
                try:
                    with dial(self._options) as connection:
                        for rows in way(connection, leader, place):
                            yield from self._believed(rows, leader)
                except Doubt:
                    self.doubts += 1
                except OtherStream:
                    self._mirrored = True
                    continue
                except NoPush:
                    self._may_push = False
                    continue
                except NoConsumer as error:
                    if not facts.state.allows_direct or len(self._options.subjects) > 1:
                        raise error.reason from error
                    self._no_consumer = True
                    continue
            if self.position <= self._wanted.last:
                yield from self._from_leader(leader, place, facts, alone=way is None)

    def _look(self, state: StreamState) -> None:
        """Is it still the stream that the range is of?"""
        self._created = self._created or state.created
        if self._created and state.created != self._created and not self._made_anew:
            self._made_anew = True
            what = f"the stream was made anew at {state.created}, after {_named(self._wanted)} were to be read of it"
            self._missing(what).settle(self._options.fail_on_data_loss)

    def _way(self, facts: Facts) -> Way | None:
        direct = facts.state.allows_direct and len(self._options.subjects) <= 1
        direct = direct and not self._mirrored and self.doubts < DOUBTS_MAX
        consumer = facts.keeps_all and not self._no_consumer
        if direct and not (consumer and is_native() and self._left(self.position) >= CONSUMER_WORTH):
            return self._direct
        if not consumer:
            return None
        return self._pushed if self._may_push and self._ends_soon_enough(facts.state) else self._pulled

    def _ends_soon_enough(self, state: StreamState) -> bool:
        """Whether little comes of a consumer that pushes on behind the range until it is removed."""
        size = state.bytes // max(1, state.messages)
        behind = min(PUSHED_AHEAD, size * max(0, state.last - self._wanted.last))
        return behind <= size * self._left(self.position) // PUSH_WORTH

    # -- what to believe --------------------------------------------------

    def _believed(self, rows: Rows, leader: Leader) -> Iterator[Rows]:
        """The rows up to the first gap in which messages are, where this way ends."""
        rows = _between(rows, self.position, self._wanted.last)
        if not len(rows.sequences):
            return
        gaps = [] if self._options.subjects else _gaps(self.position, rows.sequences)
        if len(gaps) <= GAPS_ASKED:
            for gap in gaps:
                found = leader.next(gap.first)
                if found is not None and found <= gap.last:
                    before = _between(rows, self.position, gap.first - 1)
                    self.position = gap.first
                    if len(before.sequences):
                        yield before
                    raise Doubt
                self.gaps.append(gap)
        else:
            self.gaps += gaps
        self.position = int(rows.sequences[-1]) + 1
        yield rows

    def _from_leader(self, leader: Leader, place: Place, facts: Facts, *, alone: bool) -> Iterator[Rows]:
        """Asks the leader where no other server has more: is it the end of the range? If not, a window of messages from
        the leader."""
        last = self._wanted.last
        found = leader.next_for_sure(self.position, facts)
        if found is None and (now := leader.facts()).state.last < last:
            raise Behind(
                f"stream {self._options.stream} ends at {now.state.last}, and was planned to be read to {last}"
            )
        if found is None or found > last:
            self._passed(last + 1)
            return
        self.doubts += not alone
        self._passed(found)
        window = Range(found, min(last, found + self._window - 1))
        rows = leader.messages(place, window, self._options.include_headers)
        if rows is None:
            self._passed(found + 1)  # it went in between
            return
        size = max(1, rows.batch.nbytes // len(rows.sequences))
        self._window = max(1, min(WINDOW, self._options.fetch_bytes // size))
        # Behind the window's last row nothing is settled yet.
        if not self._options.subjects:
            self.gaps += _gaps(self.position, rows.sequences)
        self.position = int(rows.sequences[-1]) + 1
        yield rows

    def _passed(self, position: int) -> None:
        """The leader confirmed that there is nothing for us before a position."""
        if position > self.position and not self._options.subjects:
            self.gaps.append(Range(self.position, position - 1))
        self.position = position

    def _settle(self, facts: Facts) -> None:
        """The range is read. Were the sequences passed over ours to read?

        What the stream's beginning has moved past went while we read: planning saw to it that the range began within
        the stream. What is missing behind it may have been deleted before there was a query: a warning, no loss.
        """
        self._look(facts.state)
        gaps = [] if self._made_anew else joined(self.gaps)
        self.gaps.clear()
        within = []
        for gap in gaps:
            gone = Range(gap.first, min(gap.last, facts.state.first - 1))
            if len(gone):
                rule = rule_that_removed(gone, facts.state)
                self._missing(f"{_named(gone)} vanished before they were read", rule, len(gone)).settle(
                    self._options.fail_on_data_loss
                )
            within.append(Range(max(gap.first, facts.state.first), gap.last))
        if count := sum(len(gap) for gap in within):
            first = next(gap.first for gap in within if len(gap))
            LOG.info("stream %s: %s hold no message, the first %d", self._options.stream, _sequences(count), first)

    def _missing(self, what: str, rule: str = "", count: int = 0) -> Missing:
        return Missing(self._options.stream, what, rule, count)

    # -- direct gets ------------------------------------------------------

    def _ask(self, connection: Connection, leader: Leader, position: int) -> None:
        body: dict[str, Any] = {"seq": position, "batch": min(self._options.fetch_messages, self._left(position))}
        body["max_bytes"] = self._options.fetch_bytes
        if self._options.subjects:
            body["next_by_subj"] = self._options.subjects[0]
            # A filtered answer's gaps are other subjects; only before it was asked for is a loss told from them.
            first = leader.facts().state.first
            if first > position:
                self.gaps.append(Range(position, min(first - 1, self._wanted.last)))
        subject = self._options.subject_of(f"DIRECT.GET.{self._options.stream}")
        connection.publish_request(subject, json.dumps(body).encode())

    def _left(self, position: int) -> int:
        return self._wanted.last - position + 1

    def _direct(self, connection: Connection, leader: Leader, place: Place) -> Iterator[Rows]:
        last = self._wanted.last
        options = self._options
        decoder = make_decoder(place, options.include_headers, options.fetch_messages, options.fetch_bytes)
        self._ask(connection, leader, self.position)
        more = True
        while more:
            status = connection.gather(decoder)
            if status is not None:
                more = _batch_goes_on(status)
                if more:
                    reached = _number_of(status, b"Nats-Last-Sequence")
                    more = reached < last and _number_of(status, b"Nats-Num-Pending") > 0
                    if more:
                        self._ask(connection, leader, reached + 1)
            if decoder.rows:
                yield decoder.take()

    # -- a consumer -------------------------------------------------------

    @contextlib.contextmanager
    def _consumer(self, leader: Leader, target: str = "") -> Iterator[Consumer]:
        """A consumer of the range, while it is read."""
        if self._options.subjects and (first := leader.facts().state.first) > self.position:
            self.gaps.append(Range(self.position, min(first - 1, self._wanted.last)))
        consumer = Consumer(self._options)
        try:
            try:
                leader.make(consumer, self.position, target)
            except (Denied, ApiError) as error:
                if isinstance(error, ApiError) and error.may_pass:
                    raise
                raise NoConsumer(error) from error
            yield consumer
        finally:
            leader.remove(consumer)

    def _deliveries(self, place: Place) -> Decoder:
        options = self._options
        decoder = make_decoder(place, options.include_headers, options.fetch_messages, options.fetch_bytes)
        decoder.deliveries, decoder.last = True, self._wanted.last
        return decoder

    def _pushed(self, connection: Connection, leader: Leader, place: Place) -> Iterator[Rows]:
        decoder = self._deliveries(place)
        target = f"{connection.inbox}push"
        try:
            connection.subscribe(target)
            connection.intake.in_pieces()
            with self._consumer(leader, target) as consumer:
                pending = consumer.pending
                while pending and self.position <= self._wanted.last:
                    status = connection.gather(decoder)
                    more = status is None or consumer.goes_on(connection, status)
                    if decoder.rows and not (status is not None and more):
                        pending = decoder.pending
                        yield decoder.take()
                    if not more:
                        break
        except Denied as error:  # to hear the deliveries, or to answer requests for flow control
            raise NoPush(str(error)) from error

    def _pulled(self, connection: Connection, leader: Leader, place: Place) -> Iterator[Rows]:
        decoder = self._deliveries(place)
        with self._consumer(leader) as consumer:
            pending = consumer.pending
            coming = 0  # messages asked for
            ahead = self._options.fetch_messages
            while pending and self.position <= self._wanted.last:
                left = self._left(self.position)
                if coming <= ahead // 2 and coming < left:
                    coming += consumer.pull(connection, min(ahead, left - coming))
                decoder.rows_max = min(coming, self._options.fetch_messages)
                status = connection.gather(decoder)
                if decoder.rows:
                    coming -= decoder.rows
                    pending = decoder.pending
                    rows = decoder.take()
                    ahead = max(1, min(AHEAD_MESSAGES, AHEAD_BYTES * len(rows.sequences) // rows.batch.nbytes))
                    yield rows
                if status is not None:
                    pull_ended(status)
                    break


Way = Callable[[Connection, Leader, Place], Iterator[Rows]]


def _named(wanted: Range) -> str:
    return f"messages {wanted.first} to {wanted.last}"


def _sequences(count: int) -> str:
    return f"{count} sequences" if count > 1 else "one sequence"


def joined(gaps: list[Range]) -> list[Range]:
    """The same sequences in as few ranges as it takes."""
    found: list[Range] = []
    for gap in sorted(gaps, key=lambda gap: gap.first):
        if found and gap.first <= found[-1].last + 1:
            found[-1] = Range(found[-1].first, max(found[-1].last, gap.last))
        else:
            found.append(gap)
    return found


def _between(rows: Rows, first: int, last: int) -> Rows:
    """The rows of these sequences."""
    sequences = rows.sequences
    if len(sequences) and first <= sequences[0] and sequences[-1] <= last:
        return rows
    begin, end = (int(place) for place in np.searchsorted(sequences, (first, last + 1)))
    return Rows(rows.batch.slice(begin, end - begin), sequences[begin:end])


def _gaps(expected: int, sequences: Any) -> list[Range]:
    """The gaps between a position and the rows' last sequence."""
    found = []
    if int(sequences[0]) != expected:
        found.append(Range(expected, int(sequences[0]) - 1))
    if int(sequences[-1]) - int(sequences[0]) + 1 != len(sequences):
        for place in np.flatnonzero(np.diff(sequences) != 1):
            found.append(Range(int(sequences[place]) + 1, int(sequences[place + 1]) - 1))
    return found


def _number_of(status: Message, name: bytes) -> int:
    found = header_of(status.headers, name)
    if not found.isdigit():
        raise WireError(f"an end of batch without {name.decode()}")
    return int(found)


def _batch_goes_on(status: Message) -> bool:
    """Whether a batch ended so that a next one may follow; False if there is nothing left."""
    if status.status in (204, 404):
        return status.status == 204
    if status.status == 503:
        raise NoResponders("direct gets: stream or server is gone, or allow_direct was turned off")
    raise WireError(f"a direct get was answered with {status.headers[:80]!r}")


def size_admitted(options: Options, wanted: Range, max_bytes: int) -> int:
    """The sequence behind the last message that fits into max_bytes of payload; one message always fits.

    The messages are read for their sizes, so a limit by bytes costs one transfer of that many bytes more a
    trigger. The server has no cheaper way to tell, and an estimate would not be a limit.
    """
    fetch_bytes = min(options.fetch_bytes, max_bytes)
    sizing = replace(options, include_headers=False, fail_on_data_loss=False, fetch_bytes=fetch_bytes)
    used = 0
    some = False
    for batch in RangeReader(sizing, wanted).batches():
        total = used + np.cumsum(pc.binary_length(batch.column("data")).to_numpy())
        fitting = int(np.searchsorted(total, max_bytes, side="right"))
        if fitting < len(total):
            refused = int(batch.column("sequence")[fitting].as_py())
            return refused if fitting or some else refused + 1
        used = int(total[-1])
        some = True
    return wanted.last + 1
