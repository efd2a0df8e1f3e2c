"""One mirror or source slot's machine, with time handed in (tests/wire/jetstream.md, "Mirrors and sources")."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

from leafd.links.origin import Origin, consumer_name, hash8
from leafd.links.replica import SPAN_FIRST, Replica, Slot, State
from leafd.links.steps import Ask, Back, Forget, PutBack, Renewed, Rewind, Run
from leafd.native_codes import IngestAt
from leafd.native_ingests import NO_SPAN, Span

ORIGIN = Origin("ORDERS", "$JS.hub.API")
SLOT = Slot(1, "AGG", 2, "A", 1, False, ORIGIN, "leaf", "JS_SRC_x")


def ask(replica: Replica, now_s: float) -> tuple[Ask, dict[str, Any]]:
    (order,) = replica.poll(now_s)
    assert isinstance(order, Ask)
    return order, json.loads(order.body)


def created(name: str = "JS_SRC_x-12345678") -> bytes:
    return json.dumps({"type": "t", "stream_name": "ORDERS", "name": name}).encode()


def refused(err_code: int) -> bytes:
    return json.dumps({"error": {"code": 400, "err_code": err_code, "description": "d"}}).encode()


def test_hash8_is_the_references() -> None:
    """Vectors captured from the reference server."""
    assert hash8("A") == "NUmM6cRx"
    assert hash8("$JS.hub.API") == "bTMUkJQk"
    assert consumer_name(True, "MIR", "A", "leaf") == "JS_MIRROR_dYxW0oZY"


def test_index_name_is_the_references() -> None:
    """Captured: `ORDERS:bTMUkJQk 3 orders.> > orders.3`."""
    assert replace(ORIGIN, filter="orders.>").index == ("ORDERS:bTMUkJQk", "orders.>", ">")
    assert Origin("C").index == ("C", ">", ">")
    renamed = replace(ORIGIN, transforms=(("a.>", "b.>"), ("c.*", "")))
    assert renamed.index == ("ORDERS:bTMUkJQk", "a.>\fc.*", "b.>\f>")
    assert renamed.filters == ("a.>", "c.*")


def test_a_key_that_the_store_would_not_take_is_hashed() -> None:
    """Each other list of transforms has another key, however long it is; what fits is kept readable."""
    pairs = tuple((f"subject.number.{number}.>", f"{number}.>") for number in range(50))
    one, other = replace(ORIGIN, transforms=pairs), replace(ORIGIN, transforms=pairs[:-1])

    assert len(one.key) < 100
    assert one.key != other.key
    assert replace(ORIGIN, transforms=pairs[:1]).key == "ORDERS:bTMUkJQk subject.number.0.> 0.>"


def test_a_durable_consumer_is_set_back() -> None:
    """Where the configuration names a consumer it is reset, whatever is stored here, and taken up as it delivers; one
    that does not acknowledge by flow control is an error that is tried again slowly."""
    origin = replace(ORIGIN, durable="hub", durable_deliver="d.hub")
    assert origin.index == (f"ORDERS:{hash8('$JS.hub.API')}:C={hash8('hub')}", ">", ">")
    replica = Replica(replace(SLOT, origin=origin), 7, "")
    header = b"NATS/1.0\r\nNats-Required-Api-Level: 5\r\nNats-Stream-Identity: \r\nLeafd-Epoch: 7\r\n\r\n"
    assert replica.poll(0.0) == [Ask(1, "$JS.hub.API.CONSUMER.RESET.ORDERS.hub", header, b"", "d.hub")]
    assert replica.answered(1, "", json.dumps({"name": "hub", "config": {"ack_policy": "none"}}).encode(), 0.0) == []
    assert replica.error is not None
    assert replica.error["err_code"] == 10217
    assert replica.poll(0.5) == []
    (order,) = replica.poll(2.0)
    assert isinstance(order, Ask)
    assert replica.answered(order.number, "ID", RESET, 2.0) == [Run("d.hub", "hub", 7, "ID", 4)]


RESET = json.dumps(
    {"name": "hub", "config": {"ack_policy": "flow_control"}, "delivered": {"consumer_seq": 0, "stream_seq": 4}}
).encode()


def durable(identity: str = "", *, mirror: bool = False) -> Replica:
    origin = replace(ORIGIN, durable="hub", durable_deliver="d.hub")
    return Replica(replace(SLOT, origin=origin, mirror=mirror), 7, identity)


def test_a_source_sees_by_its_durable_consumer_that_its_origin_was_made_anew() -> None:
    """Another identity in the answer means another stream, of which nothing is stored. A mirror does not ask: it has
    the origin's sequences."""
    replica = durable("OLD")
    (order,) = replica.poll(0.0)
    assert isinstance(order, Ask)
    assert b"Nats-Stream-Identity: OLD\r\n" in order.header
    assert replica.answered(1, "NEW", RESET, 0.0) == [Forget(), Run("d.hub", "hub", 0, "NEW", 4)]

    mirror = durable(mirror=True)
    assert mirror.poll(0.0) == [Ask(1, "$JS.hub.API.CONSUMER.RESET.ORDERS.hub", b"", b"", "d.hub")]
    assert mirror.answered(1, "", RESET, 0.0) == [Run("d.hub", "hub", 7, "", 4)]


def test_an_older_origin_is_asked_for_its_durable_consumer_without_identity() -> None:
    """API level 4 knows how to set a consumer back, and no identities."""
    replica = durable()
    replica.poll(0.0)
    assert replica.answered(1, "", refused(10185), 0.0) == []
    (order,) = replica.poll(0.0)
    assert isinstance(order, Ask)
    assert order.header == b"NATS/1.0\r\nNats-Required-Api-Level: 4\r\n\r\n"


def test_two_that_want_the_same_durable_consumer_set_it_back_every_other_second() -> None:
    """Each start takes the consumer away from the other one, which sees a gap at once."""
    replica = durable()
    replica.poll(0.0)
    replica.answered(1, "", RESET, 0.1)
    replica.lost(8, 0.2)
    assert replica.deadline_s == 2.1
    replica.poll(2.1)
    replica.answered(2, "", RESET, 2.2)
    replica.lost(9, 60.0)
    assert replica.deadline_s == 60.0


def test_first_start_takes_everything() -> None:
    """A slot that has stored nothing asks for all, with flow control and heartbeats and no acks."""
    order, request = ask(Replica(SLOT, 0, ""), 0.0)
    config = request["config"]

    assert order.subject == "$JS.hub.API.CONSUMER.CREATE.ORDERS"
    assert b"Nats-Required-Api-Level: 5\r\nNats-Stream-Identity: \r\n" in order.header
    assert config["deliver_policy"] == "all"
    assert (config["ack_policy"], config["flow_control"], config["idle_heartbeat"]) == ("none", True, 25 * 10**9)
    assert config["deliver_subject"] == order.deliver
    assert order.deliver.startswith("$JS.S.")


def test_restart_goes_on_behind_what_is_stored() -> None:
    """The position comes from the stored sequence, and the identity is shown to the origin."""
    order, request = ask(Replica(SLOT, 41, "SLQhbl5x"), 0.0)

    assert request["config"]["deliver_policy"] == "by_start_sequence"
    assert request["config"]["opt_start_seq"] == 42
    assert b"Nats-Stream-Identity: SLQhbl5x\r\n" in order.header


def test_an_origin_that_says_that_it_ends_early_is_asked_for_what_is_newer() -> None:
    """Below what was taken, or with another message there; the consumer that was made is given up."""
    for position in ("9 0", "41 1700000000000000009"):
        replica = Replica(SLOT, 40, "i", 1_700_000_000_000_000_000)
        order, request = ask(replica, 0.0)
        assert b"\r\nLeafd-Last-Taken: 40\r\n" in order.header
        ends = int(position.split()[0])

        assert [PutBack("c", ends)] == replica.answered(order.number, "i", created("c"), 0.1, position)
        order, request = ask(replica, 0.1)
        assert "by_start_time" == request["config"]["deliver_policy"]
        assert "2023-11-14T22:13:20.000000001Z" == request["config"]["opt_start_time"]
        (run,) = replica.answered(order.number, "i", created("c"), 0.2, position)
        assert isinstance(run, Run)
        assert run.begins is IngestAt.TIME
        assert not run.look
        replica.lost(7, 1.0, 0.0, 1_700_000_000_000_000_010)
        assert 8 == ask(replica, 1.0)[1]["config"]["opt_start_seq"], "it goes on at the sequences of now"


def test_an_origin_that_says_behind_what_all_is_new_is_asked_for_that() -> None:
    """Its clock was behind when it stored that. Nothing of the old position counts until something of it was taken."""
    replica = Replica(SLOT, 40, "i", 1_700_000_000_000_000_000)
    for now_s, behind in ((0.0, "x"), (0.1, "7")):
        order, _ = ask(replica, now_s)
        replica.answered(order.number, "i", created("c"), now_s + 0.1, "9 0", "", behind)
    order, request = ask(replica, 0.2)
    assert 8 == request["config"]["opt_start_seq"]
    assert "opt_start_time" not in request["config"]
    assert b"Leafd-Last-Taken" not in order.header
    (run,) = replica.answered(order.number, "i", created("d"), 0.3, "", "", "7")
    assert isinstance(run, Run)
    assert (IngestAt.NEW, 7) == (run.begins, run.last_sequence)
    replica.lost(7, 1.0)
    order, request = ask(replica, 1.0)
    (run,) = replica.answered(order.number, "i", created("e"), 1.1)
    assert isinstance(run, Run)
    assert (IngestAt.NEW, 8) == (run.begins, request["config"]["opt_start_seq"])
    replica.lost(10, 2.0, 0.0, 1_600_000_000_000_000_000)
    order, request = ask(replica, 2.0)
    assert 11 == request["config"]["opt_start_seq"]
    assert b"Leafd-Last-Taken: 10\r\n" in order.header
    (run,) = replica.answered(order.number, "i", created("f"), 2.1, "12 1600000000000000000")
    assert isinstance(run, Run)
    assert IngestAt.NEXT is run.begins


def test_the_consumer_that_begins_too_late_is_given_up() -> None:
    replica = Replica(SLOT, 40, "i", 1_700_000_000_000_000_000)
    order, _ = ask(replica, 0.0)
    replica.answered(order.number, "i", created("c"), 0.1, "9 0")
    order, _ = ask(replica, 0.1)
    assert [Rewind("d")] == replica.answered(order.number, "i", created("d"), 0.2, "9 0", "", "0")


def test_an_origin_that_was_not_put_back_says_nothing_of_that() -> None:
    replica = Replica(SLOT, 40, "i", 1_700_000_000_000_000_000)
    order, _ = ask(replica, 0.0)
    (run,) = replica.answered(order.number, "i", created("c"), 0.1, "40 1700000000000000000", "", "7")
    assert isinstance(run, Run)
    assert (IngestAt.NEXT, 40) == (run.begins, run.last_sequence)


def test_an_origin_that_fits_goes_on_behind_what_was_taken() -> None:
    """With the message that was taken last, or without it; nonsense is no word about it."""
    said = {"40 1700000000000000000": True, "90 0": True, "x y": False, "1": False, "9" * 30 + " 0": False}
    for position, fits in said.items():
        replica = Replica(SLOT, 40, "i", 1_700_000_000_000_000_000)
        order, request = ask(replica, 0.0)
        assert 40 == request["config"]["opt_start_seq"], "once more, since it is not known what the origin says"

        (run,) = replica.answered(order.number, "i", created("c"), 0.1, position)

        assert isinstance(run, Run)
        assert run.begins is IngestAt.NEXT
        assert run.look == (not fits), "nonsense is no word"


def test_an_origin_that_says_nothing_is_asked_where_it_ends() -> None:
    """If the message that was taken last is not there: it may be deleted, or the stream ends before it."""
    replica = Replica(SLOT, 40, "i", 1_700_000_000_000_000_000)
    order, _ = ask(replica, 0.0)
    (run,) = replica.answered(order.number, "i", created("c"), 0.1)
    assert isinstance(run, Run)
    assert run.look

    assert replica.ends_early(b'{"state":{"last_seq":40}}') is None
    assert replica.ends_early(b'{"error":{"code":503}}') is None
    assert 39 == replica.ends_early(b'{"state":{"last_seq":39}}')
    replica.put_back(0)
    replica.lost(40, 0.2, 0.0, 1_700_000_000_000_000_000)
    assert "by_start_time" == ask(replica, 0.2)[1]["config"]["deliver_policy"]


def test_a_single_filter_is_in_the_subject() -> None:
    """ACLs at the origin can then see what is asked for."""
    slot = replace(SLOT, origin=replace(ORIGIN, filter="orders.eu"))
    order, request = ask(Replica(slot, 0, ""), 0.0)

    assert order.subject == "$JS.hub.API.CONSUMER.CREATE.ORDERS.JS_SRC_x.orders.eu"
    assert request["config"]["filter_subject"] == "orders.eu"


def test_answer_starts_the_ingest_with_the_given_name() -> None:
    """The origin may rename the consumer; its messages carry that name."""
    replica = Replica(SLOT, 5, "")
    order, _ = ask(replica, 0.0)
    (run,) = replica.answered(order.number, "ID", created(), 0.1)

    assert run == Run(order.deliver, "JS_SRC_x-12345678", 5, "ID")
    assert replica.state is State.RUNNING
    assert replica.poll(100.0) == []


def asked_at(replica: Replica, begin_s: float, seconds: float, seldom_s: float = 0.0) -> list[float]:
    """When it asks for so long, with nobody there."""
    times, now_s = [], begin_s
    while now_s < begin_s + seconds:
        order, _ = ask(replica, now_s)
        times.append(now_s - begin_s)
        replica.unheard(order.number, now_s, seldom_s)
        assert replica.deadline_s > now_s
        now_s = replica.deadline_s
    return times


def test_an_unreachable_origin_of_no_domain_is_asked_often_at_first_and_seldom_later() -> None:
    """Catch-up has to start within a second of its return; no link tells of that."""
    slot = replace(SLOT, origin=Origin("ORDERS", "JS.hub.API"))
    replica = Replica(slot, 0, "")
    for begin_s in (0.0, 1000.05):
        times = asked_at(replica, begin_s, 100.0)
        apart = [after - before for before, after in pairwise(times)]
        assert max(apart[:20]) < 0.25
        assert all(1.7 < one < 2.1 for one in apart[30:])
        replica.kick(1000.05)
    many = asked_at(Replica(slot, 0, ""), 0.0, 200.0, seldom_s=10.0)
    assert all(9.7 < after - before < 10.1 for before, after in pairwise(many[35:]))


def test_an_unreachable_domain_is_looked_for_seldom_from_the_start() -> None:
    """The link that brings it wakes its slots."""
    for seldom_s, about in ((0.0, 2.0), (50.0, 50.0)):
        apart = [after - before for before, after in pairwise(asked_at(Replica(SLOT, 0, ""), 0.0, 300.0, seldom_s))]
        assert all(about - 0.3 < one < about + 0.1 for one in apart)


def test_old_origins_are_asked_in_the_older_forms() -> None:
    """10185 or 10025 steps down: level 5, level 4, then the plain form of servers before 2.14."""
    replica = Replica(SLOT, 0, "")
    levels = []
    for turn in range(3):
        order, request = ask(replica, float(turn))
        levels.append((order.header, "sourcing" in request["config"]))
        replica.answered(order.number, "", refused(10185 if turn else 10025), float(turn))

    assert b"Level: 5" in levels[0][0]
    assert b"Level: 4" in levels[1][0]
    assert levels[2] == (b"", False)


def test_an_origin_made_anew_is_taken_from_its_start() -> None:
    """10225: the identity does not match, so stored positions mean nothing."""
    replica = Replica(SLOT, 900, "OLD")
    order, _ = ask(replica, 0.0)

    assert replica.answered(order.number, "", refused(10225), 0.0) == [Forget(b'{"OLD":[900,0]}')]
    order, request = ask(replica, 0.0)
    assert request["config"]["deliver_policy"] == "all"
    assert b"Nats-Stream-Identity: \r\n" in order.header


def test_a_mirror_whose_origin_was_made_anew_says_so_once() -> None:
    """It goes on behind what it has, as nats-server's does: its sequences are its origin's and cannot start over."""
    replica = Replica(replace(SLOT, mirror=True), 900, "OLD")
    order, _ = ask(replica, 0.0)
    renewed, run = replica.answered(order.number, "NEW", created(), 0.0)
    assert renewed == Renewed(900)
    assert isinstance(run, Run)

    replica.lost(901, 1.0)
    order, request = ask(replica, 1.0)
    assert request["config"]["opt_start_seq"] == 902
    (again,) = replica.answered(order.number, "NEW", created(), 1.0)
    assert isinstance(again, Run)


def test_of_two_streams_that_take_turns_at_an_origin_each_is_taken_once() -> None:
    """Two machines with one name take the link from each other: neither of them is taken from its start each time."""
    replica = Replica(SLOT, 0, "")
    for turn, (there, had) in enumerate((("ONE", 0), ("TWO", 0), ("ONE", 10), ("TWO", 10), ("ONE", 20))):
        order, _ = ask(replica, turn)
        if turn > 0:
            (forget,) = replica.answered(order.number, "", refused(10225), turn)
            assert isinstance(forget, Forget)
            order, _ = ask(replica, turn)
        if had:
            assert replica.answered(order.number, there, created(), turn) == [Back(had)]
            order, request = ask(replica, turn)
            assert request["config"]["opt_start_seq"] == had  # the last one once more, for its stamp
            assert f"Nats-Stream-Identity: {there}\r\n".encode() in order.header
        (run,) = replica.answered(order.number, there, created(), turn)
        assert isinstance(run, Run)
        assert (run.last_sequence, run.identity) == (had, there)
        replica.lost(had + 10, turn, newest_ts=turn + 1)


def test_a_late_answer_is_an_answer() -> None:
    """Who asks again, because a slow link has not brought the answer yet, asks for the same: the first one counts."""
    replica = Replica(SLOT, 0, "")
    first, _ = ask(replica, 0.0)
    second, _ = ask(replica, replica.deadline_s)

    assert first == second
    (run,) = replica.answered(first.number, "", created(), 6.0)
    assert isinstance(run, Run)
    assert run.deliver == first.deliver
    assert replica.answered(second.number, "", created(), 7.0) == []


def test_of_two_orders_to_set_a_durable_consumer_back_the_newer_one_counts() -> None:
    """The older one's answer tells of deliveries that the newer one begins once more."""
    replica = durable()
    (first,) = replica.poll(0.0)
    (second,) = replica.poll(replica.deadline_s)
    assert isinstance(first, Ask)
    assert isinstance(second, Ask)
    answer = json.dumps({"config": {"ack_policy": "flow_control"}, "delivered": {"stream_seq": 3}}).encode()

    assert replica.answered(first.number, "", answer, 6.0) == []
    (run,) = replica.answered(second.number, "", answer, 7.0)
    assert isinstance(run, Run)
    assert run.behind == 3


def test_an_answer_is_waited_for_from_when_the_request_has_left() -> None:
    """Behind thousands of others a request leaves late: until then it is not late, and it is not made anew."""
    replica = Replica(SLOT, 0, "")
    order, _ = ask(replica, 0.0)
    replica.waits_to_ask(4.9)
    assert replica.poll(9.0) == []
    replica.asked_at(order.number, 9.0)
    assert replica.deadline_s == 14.0
    assert not replica.is_late
    assert replica.error is None
    replica.asked_at(order.number + 1, 13.0)
    assert replica.deadline_s == 14.0, "another request is not this one"
    assert len(replica.poll(14.0)) == 1
    assert replica.is_late


def test_an_answer_from_before_a_link_was_lost_is_ignored() -> None:
    """It names a consumer that delivers to a subject nobody listens to any more."""
    replica = Replica(SLOT, 0, "")
    first, _ = ask(replica, 0.0)
    replica.kick(3.0)
    second, _ = ask(replica, 3.0)

    assert first.number != second.number
    assert replica.answered(first.number, "", created(), 6.0) == []
    assert replica.state is State.ASKING


def test_errors_are_kept_for_stream_info_and_retried_ever_slower() -> None:
    """A missing origin stream is no reason to ask it all the time."""
    replica = Replica(SLOT, 0, "")
    waits = []
    now_s = 0.0
    for _ in range(8):
        order, _request = ask(replica, now_s)
        replica.answered(order.number, "", refused(10059), now_s)
        waits.append(replica.deadline_s - now_s)
        now_s = replica.deadline_s

    assert replica.error == {"code": 400, "err_code": 10059, "description": "d"}
    assert waits == sorted(waits)
    assert waits[0] <= 1.0
    assert waits[-1] == 30.0


def test_a_link_that_returns_ends_every_wait() -> None:
    """kick() makes a waiting slot due at once and leaves a running one alone."""
    replica = Replica(SLOT, 0, "")
    order, _ = ask(replica, 0.0)
    replica.answered(order.number, "", refused(10059), 0.0)
    replica.kick(0.1)
    order, _ = ask(replica, 0.1)
    replica.answered(order.number, "", created(), 0.2)
    replica.kick(0.3)

    assert replica.state is State.RUNNING


def test_a_gap_restarts_behind_the_last_stored_message() -> None:
    """lost() moves to the stored sequence and is due at once."""
    replica = Replica(SLOT, 0, "")
    order, _ = ask(replica, 0.0)
    replica.answered(order.number, "", created(), 0.0)
    replica.lost(17, 1.0)
    _, request = ask(replica, 1.0)

    assert request["config"]["opt_start_seq"] == 18


def far_replica() -> Replica:
    replica = Replica(SLOT, 0, "")
    replica.by_link = replica.far = True
    return replica


def created_as(ack_policy: str, name: str = "JS_SRC_x-12345678") -> bytes:
    return json.dumps({"name": name, "config": {"ack_policy": ack_policy}, "num_pending": 7}).encode()


def span_of(orders: list[Any]) -> Any:
    (run,) = orders
    assert isinstance(run, Run)
    return run.span


def test_a_server_that_is_far_may_have_so_much_on_its_way_before_it_is_acknowledged() -> None:
    """And as much as was found to be needed the next time. One that makes another consumer of it, for a work queue, is
    acknowledged by flow control."""
    replica = far_replica()
    order, body = ask(replica, 0.0)
    assert (body["config"]["ack_policy"], body["config"]["max_ack_pending"]) == ("all", SPAN_FIRST)
    assert span_of(replica.answered(order.number, "", created_as("all"), 1.0)) == Span(SPAN_FIRST, False, "ORDERS")
    replica.learn_span(256)
    replica.lost(0, 2.0)
    order, body = ask(replica, 2.0)
    assert body["config"]["max_ack_pending"] == 256
    assert body["config"]["inactive_threshold"] == 60 * 10**9
    assert span_of(replica.answered(order.number, "", created_as("flow_control"), 3.0)) == Span(256, True, "ORDERS")


def test_a_consumer_waits_longer_for_interest_where_the_link_to_its_origin_is_not_known() -> None:
    """Interest in what it delivers comes over another server's link, which may be slow and lossy."""
    far, here = "$JS.hub.API", "$JS.leaf.API"
    for by_link, api, stays_s in ((True, far, 10), (False, far, 60), (False, here, 10), (False, "", 10)):
        replica = Replica(replace(SLOT, origin=replace(ORIGIN, api=api)), 0, "")
        replica.by_link = by_link
        _, body = ask(replica, 0.0)
        assert body["config"]["inactive_threshold"] == stays_s * 10**9


def test_what_is_near_or_a_leafd_or_has_another_name_is_not_bounded() -> None:
    near = Replica(SLOT, 0, "")
    near.by_link = True
    _, body = ask(near, 0.0)
    assert body["config"]["ack_policy"] == "none"
    assert "max_ack_pending" not in body["config"]
    assert body["config"]["inactive_threshold"] == 10 * 10**9
    for ack_policy, name in (("none", "JS_SRC_x-1"), ("all", "worker")):
        replica = far_replica()
        order, _ = ask(replica, 0.0)
        assert span_of(replica.answered(order.number, "", created_as(ack_policy, name), 1.0)) == NO_SPAN
        replica.learn_span(0)  # of a consumer without one
        assert replica.span == SPAN_FIRST


def test_a_server_that_refuses_the_bound_is_asked_without_until_its_link_is_back() -> None:
    replica = far_replica()
    order, _ = ask(replica, 0.0)
    assert replica.answered(order.number, "", refused(10121), 1.0) == []
    order, body = ask(replica, 1.0)
    assert body["config"]["ack_policy"] == "none"
    assert span_of(replica.answered(order.number, "", created_as("none"), 2.0)) == NO_SPAN
    replica.lost(0, 3.0)
    assert replica.span == 0
    replica.kick(4.0)
    assert replica.span == SPAN_FIRST
