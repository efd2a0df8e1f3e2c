"""What the service promises beyond single replies: durability first, restarts, silence, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from leafd import native_types as t
from leafd.gotime import format_time
from leafd.jetstream.catalogue import JetStreamLimits
from leafd.jetstream.ports import Alone
from leafd.jetstream.rules.versioning import hash8, stream_identity
from leafd.jetstream.service import JetStream

from tests.unit.jetstream.conftest import Bench

MakeBench = Callable[..., Bench]


def restarted(bench: Bench) -> Bench:
    """A new service over what the plane has stored."""
    again = Bench(bench.plane)
    again.service.read_records()
    trio.run(again.service.load)
    return again


def test_nothing_exists_before_it_is_durable(bench: Bench) -> None:
    """A stream whose definition could not be stored is refused and leaves no trace in the catalogue."""
    bench.plane.fail = t.PlaneError(-10, "no space left")
    assert 10047 == bench.code("STREAM.CREATE.S", {"name": "S"})
    assert 10059 == bench.code("STREAM.INFO.S")
    bench.stream("S")
    bench.plane.fail = t.PlaneError(-4, "input/output error")
    assert 10104 == bench.code("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": {}})
    assert [] == bench.asked("CONSUMER.NAMES.S")["consumers"]


def test_a_number_that_something_is_stored_under_is_not_given_out(bench: Bench) -> None:
    """A stream that lost its definition by damage keeps its messages: the new one gets the next number."""
    bench.plane.fail = t.PlaneError(t.Status.EXISTS, "exists")
    bench.stream("S")
    assert [2] == list(bench.plane.streams)


def test_a_failed_update_changes_nothing(bench: Bench) -> None:
    """Configurations stay as they were when the plane refuses the new ones."""
    bench.stream("S", max_msgs=5)
    bench.consumer("S", "c", durable_name="c", description="old")
    bench.plane.fail = t.PlaneError(-4, "input/output error")
    assert 10069 == bench.code("STREAM.UPDATE.S", {"name": "S", "max_msgs": 6})
    assert 5 == bench.asked("STREAM.INFO.S")["config"]["max_msgs"]
    bench.plane.fail = t.PlaneError(-4, "input/output error")
    changed = {"stream_name": "S", "config": {"durable_name": "c", "description": "new"}}
    assert 10104 == bench.code("CONSUMER.CREATE.S.c", changed)
    assert "old" == bench.asked("CONSUMER.INFO.S.c")["config"]["description"]


def test_what_cannot_be_read_is_never_said_to_be_missing(bench: Bench) -> None:
    """A list in which one state is not known, and a message that cannot be read, are errors of the server; a page is
    not shorter for them, and the message is not "not found"."""
    bench.stream("S", subjects=["s"])
    bench.plane.store("S", "s", b"x")
    for request, body in (("STREAM.LIST", {}), ("STREAM.MSG.GET.S", {"seq": 1})):
        bench.plane.fail = t.PlaneError(t.Status.IO, "input/output error")
        assert 10051 == bench.code(request, body)
        assert 0 == bench.code(request, body)


def test_a_restart_keeps_everything(bench: Bench) -> None:
    """Streams and consumers come back from their definitions with the same configuration, time of creation and ids."""
    bench.stream("S", subjects=["s.>"], metadata={"k": "v"}, max_age=3_600_000_000_000)
    bench.consumer("S", "c", durable_name="c", ack_policy="explicit", filter_subject="s.1", backoff=[1, 2])
    again = restarted(bench)
    for request in ("STREAM.INFO.S", "CONSUMER.INFO.S.c"):
        before, after = bench.asked(request), again.asked(request)
        del before["ts"], after["ts"]
        assert before == after
    again.stream("T")
    again.consumer("T", "d")
    assert len(set(again.plane.streams)) == 2
    assert len({consumer for _, consumer in again.plane.consumers}) == 2


def test_a_stream_of_an_unknown_account_stays_on_disk(bench: Bench) -> None:
    """What the configuration no longer names is complained about, not removed, and its id is not given out again."""
    bench.stream("S")
    (only,) = bench.plane.streams
    bench.plane.streams[only].definition = bench.plane.streams[only].definition.replace(b'"A"', b'"GONE"')
    again = restarted(bench)
    assert "GONE" in again.log.texts[0]
    again.stream("S")
    assert only in again.plane.streams
    assert 2 == len(again.plane.streams)


def test_an_ephemeral_that_the_plane_removed_is_gone(bench: Bench) -> None:
    """EVENT_CONSUMER_GONE ends the consumer in every list and is told as an advisory."""
    bench.stream("S")
    bench.consumer("S", "c")
    ((stream, consumer),) = bench.plane.consumers
    bench.service.consumer_gone(t.ConsumerGone(stream, consumer))
    assert 10014 == bench.code("CONSUMER.INFO.S.c")
    assert "$JS.EVENT.ADVISORY.CONSUMER.DELETED.S.c" == bench.plane.published[-1][1]


def test_an_ephemeral_that_is_gone_before_its_creation_is_answered_is_not_kept(bench: Bench) -> None:
    """The plane's word that it is gone may be read before that it is there; it is told as made and as gone."""
    bench.stream("S")
    there = bench.plane.consumer_put

    async def there_and_gone(stream: int, consumer: int, *args: Any, **more: Any) -> t.ConsumerState:
        state = await there(stream, consumer, *args, **more)
        bench.service.consumer_gone(t.ConsumerGone(stream, consumer))
        return state

    bench.plane.consumer_put = there_and_gone  # type: ignore[method-assign]
    bench.consumer("S", "c")
    assert 10014 == bench.code("CONSUMER.INFO.S.c")
    assert "$JS.EVENT.ADVISORY.CONSUMER.DELETED.S.c" in [subject for _, subject, *_ in bench.plane.published]


def test_damage_in_a_stream_is_told_as_an_advisory(bench: Bench) -> None:
    """Who listens hears which message of which stream is damaged; other alarms are the log's."""
    bench.stream("S")
    (stream,) = bench.plane.streams
    before = len(bench.plane.published)
    bench.service.alarm(t.Alarm(2, stream, 0, "full"))
    bench.service.alarm(t.Alarm(1, 0, 0, "the journal is damaged"))
    bench.service.alarm(t.Alarm(1, stream + 77, 5, "gone"))
    assert before == len(bench.plane.published)
    bench.service.alarm(t.Alarm(1, stream, 5, "a message fails its checksum"))
    _, subject, _, body = bench.plane.published[-1]
    assert "$JS.EVENT.ADVISORY.STREAM.DAMAGED.S" == subject
    event = json.loads(body)
    assert ("io.nats.jetstream.advisory.v1.stream_damaged", "S", 5) == (event["type"], event["stream"], event["seq"])


def test_unknown_subjects_are_not_answered(bench: Bench) -> None:
    """A client that asks for what nobody serves times out, as with the reference."""
    for subject in ("FOO", "STREAM.TEMPLATE.NAMES", "STREAM.CREATE", "STREAM.INFO.a.b", "CONSUMER.RESET.S.none"):
        assert None is trio.run(bench.ask, subject)


def test_account_info_asks_the_plane_once_for_each_storage_kind(bench: Bench) -> None:
    """However many streams there are: clients ask for it before each stream that they make."""
    for number in range(20):
        bench.stream(f"S{number}", subjects=[f"s.{number}"], storage="memory" if number % 2 else "file")
        bench.plane.store(f"S{number}", f"s.{number}", bytes(number))
    states = [bench.asked(f"STREAM.INFO.S{number}")["state"]["bytes"] for number in range(20)]
    bench.plane.calls.clear()

    usage = bench.asked("INFO")

    assert ["streams_bytes"] * 2 == bench.plane.calls
    assert (sum(states[::2]), sum(states[1::2]), 20) == (usage["storage"], usage["memory"], usage["streams"])


def test_accounts_without_jetstream_are_told(make_bench: MakeBench) -> None:
    """10039 in the endpoint's own type; the system account gets it in a type of its own, but for INFO."""
    bench = make_bench()
    bench.service.add_account(1, "A", enabled=False)
    reply = bench.asked("STREAM.NAMES")
    assert ("io.nats.jetstream.api.v1.stream_names_response", 10039) == (reply["type"], reply["error"]["err_code"])
    system = bench.service.add_account(2, "SYS", system=True)
    answered = trio.run(bench.service.answer, system, "$JS.API.STREAM.NAMES", b"", b"")
    assert answered is not None
    assert "io.nats.jetstream.api.v1.system_response" == answered.members["type"]
    answered = trio.run(bench.service.answer, system, "$JS.API.INFO", b"", b"")
    assert answered is not None
    assert "io.nats.jetstream.api.v1.account_info_response" == answered.members["type"]


@pytest.mark.parametrize(
    ("limits", "config", "code"),
    [
        (JetStreamLimits(max_streams=0), {}, 0),
        (JetStreamLimits(max_streams=1), {}, 10027),
        (JetStreamLimits(max_bytes_required=True), {}, 10113),
        (JetStreamLimits(store_max_stream_bytes=100), {"max_bytes": 101}, 10122),
        (JetStreamLimits(memory_max_stream_bytes=100), {"max_bytes": 101}, 0),
        (JetStreamLimits(max_store=1000), {"max_bytes": 901}, 10047),
        (JetStreamLimits(max_memory=1000), {"max_bytes": 1001, "storage": "memory"}, 10028),
        (JetStreamLimits(max_store=1000), {"max_bytes": 900}, 0),
        (JetStreamLimits(max_consumers=1), {"max_consumers": 2}, 10026),
    ],
)
def test_account_limits_on_streams(
    make_bench: MakeBench, limits: JetStreamLimits, config: dict[str, Any], code: int
) -> None:
    """Each limit of an account refuses with its own code, counting what the first stream has reserved."""
    bench = make_bench(limits=JetStreamLimits(max_store=1000))
    bench.stream("FIRST", max_bytes=100)
    bench.account.limits = limits
    assert code == bench.code("STREAM.CREATE.S", {"name": "S"} | config)


def test_an_update_needs_room_only_for_what_it_adds(make_bench: MakeBench) -> None:
    """max_bytes may go up to the account's limit and not beyond it."""
    bench = make_bench(limits=JetStreamLimits(max_store=1000))
    bench.stream("S", max_bytes=900)
    assert 0 == bench.code("STREAM.UPDATE.S", {"name": "S", "max_bytes": 1000})
    assert 10047 == bench.code("STREAM.UPDATE.S", {"name": "S", "max_bytes": 1001})


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"sources": [{"name": "X", "subject_transforms": [{"src": "a" * 2048, "dest": "b"}]}]}, 10052),
    ],
)
def test_features_that_are_missing_are_refused(bench: Bench, config: dict[str, Any], code: int) -> None:
    """What would be stored and not done is refused, so that no client relies on it."""
    assert code == bench.code("STREAM.CREATE.S", {"name": "S"} | config)
    assert 0 == len(bench.plane.streams)


def test_the_owner_of_a_stream_grants_its_subjects_to_schedules(bench: Bench) -> None:
    """By a word in the metadata, which an update takes back."""
    bench.stream("S", metadata={"leafd.schedules": "any"})
    assert t.StreamFlag.GRANTS_SCHEDULES & bench.plane.streams[1].config.flags
    assert 0 == bench.code("STREAM.UPDATE.S", {"name": "S", "metadata": {"leafd.schedules": "some"}})
    assert not t.StreamFlag.GRANTS_SCHEDULES & bench.plane.streams[1].config.flags


def test_the_plane_is_told_of_transform_and_republish(bench: Bench) -> None:
    """Both go along with every change, as they were checked: without a source it is everything."""
    republish = {"dest": "again.>", "headers_only": True}
    bench.stream("S", subjects=["a.*"], subject_transform={"src": "a.*", "dest": "b.$1"}, republish=republish)
    held = bench.plane.streams[1]
    assert (("a.*", "b.$1"), (">", "again.>")) == (held.transform, held.republish)
    assert 1024 == held.config.flags & 1024

    assert 0 == bench.code("STREAM.UPDATE.S", {"name": "S", "subjects": ["a.*"]})
    held = bench.plane.streams[1]
    assert (("", ""), ("", ""), 0) == (held.transform, held.republish, held.config.flags & 1024)


def test_the_plane_is_told_of_batches_and_counters(bench: Bench) -> None:
    """It is the plane that keeps both."""
    assert 0 == bench.code("STREAM.CREATE.S", {"name": "S", "allow_atomic": True, "allow_msg_counter": True})
    flags = t.StreamFlag.ALLOW_ATOMIC | t.StreamFlag.COUNTER
    assert flags == bench.plane.streams[1].config.flags & flags


def test_a_batch_that_was_dropped_is_told_of(bench: Bench) -> None:
    """The plane says which one and why; clients hear of it under the stream's name."""
    bench.stream("S", allow_atomic=True)
    (stream,) = bench.plane.streams
    bench.service.advisory(
        t.Advisory(t.AdvisoryCode.BATCH_ABANDONED, stream, t.Abandoned.TIMEOUT, 0, 0, 0, 0, "b"),
    )
    _, subject, _, body = bench.plane.published[-1]
    assert "$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S" == subject
    assert ("b", "timeout") == (json.loads(body)["batch"], json.loads(body)["reason"])


def test_a_default_bounds_the_consumers_of_streams_that_set_no_limit() -> None:
    """What is there can be changed at the limit; a stream's own limit counts in place of the default."""
    bench = Bench(default_max_consumers=1)
    bench.stream("S", subjects=["s"])
    bench.stream("T", subjects=["t"], max_consumers=2)
    a, b = ({"stream_name": stream, "config": {"ack_policy": "explicit"}} for stream in "ST")
    assert 0 == bench.code("CONSUMER.CREATE.S.one", a)
    assert 0 == bench.code("CONSUMER.CREATE.S.one", a | {"config": {"ack_policy": "explicit", "max_deliver": 5}})
    assert 10026 == bench.code("CONSUMER.CREATE.S.two", a)
    assert [0, 0, 10026] == [bench.code(f"CONSUMER.CREATE.T.{name}", b) for name in ("one", "two", "three")]


def test_pullers_get_a_hidden_consumer_of_their_own(bench: Bench) -> None:
    """A hub's direct consumer is renamed, in no list and no count, and is told which stream it has."""
    reply = bench.stream("S", max_consumers=2)
    config = {"name": "JS_SRC_x", "deliver_subject": "$JS.S.1", "direct": True, "sourcing": True, "max_deliver": 1}
    first, second = (bench.asked("CONSUMER.CREATE.S", {"stream_name": "S", "config": config}) for _ in range(2))
    assert first["name"].startswith("JS_SRC_x-")
    assert len(first["name"]) == len("JS_SRC_x-") + 8
    assert first["name"] != second["name"]
    assert 0 == bench.asked("CONSUMER.NAMES.S")["total"]
    assert 0 == bench.asked("STREAM.INFO.S")["state"]["consumer_count"]
    assert 0 == bench.code("CONSUMER.CREATE.S.own", {"stream_name": "S", "config": {}})
    wrong = b"NATS/1.0\r\nNats-Stream-Identity: 00000000\r\n\r\n"
    assert 10225 == bench.code("CONSUMER.CREATE.S", {"stream_name": "S", "config": config}, wrong)
    right = hash8(reply["created"]).encode()
    good = b"NATS/1.0\r\nNats-Stream-Identity: " + right + b"\r\n\r\n"
    assert 0 == bench.code("CONSUMER.CREATE.S", {"stream_name": "S", "config": config}, good)


def test_a_copy_that_asks_again_is_given_the_consumer_that_it_has(bench: Bench) -> None:
    """Over a slow link the first answer is under way when it asks again, with the same deliver subject: two consumers
    would send it each message twice, until all is sent. With another subject it begins anew."""
    bench.stream("S")
    copy = {"_nats.src.stream": "COPY", "_nats.src.acc": "A"}
    config = {"name": "JS_SRC_x", "deliver_subject": "$JS.S.1", "direct": True, "sourcing": True, "metadata": copy}
    request = {"stream_name": "S", "config": config}
    far = b"NATS/1.0\r\nLeafd-Heartbeat: 300\r\n\r\n"
    first = bench.asked("CONSUMER.CREATE.S", request, far)
    begun = [call for call in bench.plane.calls if call in ("consumer_put", "consumer_reset")]
    again = bench.asked("CONSUMER.CREATE.S", request, far)
    assert first == again | {"ts": first["ts"]}
    assert begun == [call for call in bench.plane.calls if call in ("consumer_put", "consumer_reset")]

    changes: list[dict[str, Any]] = [
        {"deliver_subject": "$JS.S.2"},
        {"opt_start_seq": 2, "deliver_policy": "by_start_sequence"},
    ]
    changes.append({"metadata": copy | {"_nats.src.stream": "OTHER"}})
    others = [bench.asked("CONSUMER.CREATE.S", {"stream_name": "S", "config": config | one}) for one in changes]
    assert 4 == len({first["name"], *(one["name"] for one in others)})


def test_pullers_of_interest_streams_get_a_durable(bench: Bench) -> None:
    """Where messages wait for consumers, a hub's consumer becomes one that they can wait for."""
    bench.stream("S", retention="interest")
    config = {"name": "JS_SRC_x", "deliver_subject": "$JS.S.1", "direct": True, "sourcing": True, "ack_wait": 5}
    made = bench.asked("CONSUMER.CREATE.S", {"stream_name": "S", "config": config})
    assert ("JS_SRC_x", "flow_control") == (made["config"]["durable_name"], made["config"]["ack_policy"])
    assert "direct" not in made["config"]
    again = bench.asked("CONSUMER.CREATE.S", {"stream_name": "S", "config": config | {"deliver_policy": "new"}})
    assert "all" == again["config"]["deliver_policy"]
    assert "consumer_reset" == bench.plane.calls[-1]


def test_deleting_a_stream_tells_of_its_consumers_first(bench: Bench) -> None:
    """Advisories in the reference's order."""
    bench.stream("S")
    bench.consumer("S", "c")
    bench.asked("STREAM.DELETE.S")
    subjects = [subject for _, subject, _, _ in bench.plane.published]
    assert [
        "$JS.EVENT.ADVISORY.STREAM.CREATED.S",
        "$JS.EVENT.ADVISORY.CONSUMER.CREATED.S.c",
        "$JS.EVENT.ADVISORY.CONSUMER.DELETED.S.c",
        "$JS.EVENT.ADVISORY.STREAM.DELETED.S",
    ] == subjects


def test_requests_run_side_by_side_and_reply(bench: Bench) -> None:
    """Requests from the pump are answered to their reply subjects, and counted once each."""

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(bench.service.run)
            for number in range(10):
                body = json.dumps({"name": f"S{number}"}).encode()
                subject = f"$JS.API.STREAM.CREATE.S{number}"
                bench.service.message(t.Message(1, 1, 7, 1, subject, f"_INBOX.{number}", b"", body))
            bench.service.message(t.Message(1, 1, 7, 1, "$JS.API.STREAM.CREATE.x", "_INBOX.x", b"", b"{"))
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    trio.run(run)
    replies = {subject: payload for _, subject, _, payload in bench.plane.published if subject.startswith("_INBOX")}
    assert 11 == len(replies)
    assert (11, 1) == (bench.account.api_total, bench.account.api_errors)
    audits = [subject for _, subject, _, _ in bench.plane.published if subject.endswith("ADVISORY.API")]
    assert 11 == len(audits)


def test_a_request_of_which_nobody_hears_is_one_message_for_the_plane(bench: Bench) -> None:
    """The reply, and neither of its two advisories; whoever listens gets them from the next request on."""

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(bench.service.run)
            for number, bench.plane.listened in enumerate((False, True)):
                body = json.dumps({"name": f"S{number}"}).encode()
                subject = f"$JS.API.STREAM.CREATE.S{number}"
                bench.service.message(t.Message(1, 1, 7, 1, subject, f"_INBOX.{number}", b"", body))
                await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    trio.run(run)
    subjects = [subject for _, subject, *_ in bench.plane.published]
    created, audit = "$JS.EVENT.ADVISORY.STREAM.CREATED.S1", "$JS.EVENT.ADVISORY.API"
    assert ["_INBOX.0", created, "_INBOX.1", audit] == subjects


def test_two_creates_of_one_name_make_one_stream(bench: Bench) -> None:
    """Side by side the second one waits for the first and finds its stream there."""

    async def slow_put(*args: Any, **kwargs: Any) -> t.StreamState:
        await trio.sleep(0.01)
        return await original(*args, **kwargs)

    async def both() -> list[dict[str, Any] | None]:
        found: list[dict[str, Any] | None] = []

        async def one(body: str) -> None:
            found.append(await bench.ask("STREAM.CREATE.S", body))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, '{"name":"S"}')
            nursery.start_soon(one, '{"name":"S","max_msgs":5}')
        return found

    original = bench.plane.stream_put
    bench.plane.stream_put = slow_put  # type: ignore[method-assign]
    replies = trio.run(both)
    assert [True, 10058] == sorted(
        (reply["did_create"] if "error" not in reply else reply["error"]["err_code"]) for reply in replies if reply
    )
    assert 1 == len(bench.plane.streams)


def test_the_identity_is_the_hash_of_the_creation_time() -> None:
    """Hash8 as the reference's sheet gives it for known texts."""
    assert "szMpdrwD" == hash8("$G")
    assert "n1VdnVvB" == hash8("$JS.edge.API")
    assert stream_identity(1_700_000_000_000_000_001) == hash8(format_time(1_700_000_000_000_000_001))


def test_neighbours_hear_of_streams(bench: Bench) -> None:
    """Mirrors and sources are run by another room, which is told of each change."""
    heard: list[str] = []

    class Ears(Alone):
        lag, active_ns, sequence, error, known, told_ns = 3, 5, 9, None, True, 7
        level_ns, newest_ts, mean_size, held = 2_000_000_000, 0, 200.5, "normal"
        put_back_ns = -1
        pace: float | None = 0.5

        def stream_changed(self, stream: Any, last_sequence: int) -> None:
            heard.append(f"changed {stream.name} {last_sequence}")

        def stream_removed(self, stream: Any) -> None:
            heard.append(f"removed {stream.name}")

        async def source_statuses(self, stream: int, slots: Any) -> Any:
            return [self] * len(slots)

        def has_leafs(self, account: int) -> bool:
            return True

    bench.service = JetStream(bench.plane, bench.service._context.settings, bench.log, Ears())
    bench.account = bench.service.add_account(1, "A")
    bench.stream("S", sources=[{"name": "X", "filter_subject": "x.>"}])
    (source,) = bench.asked("STREAM.INFO.S")["sources"]
    far = source.pop("leafd")
    assert {"name": "X", "lag": 3, "seq": 9, "active": 5, "filter_subject": "x.>"} == source
    assert far == {
        "behind": 3, "behind_bytes": 601, "told": 7, "level": 2_000_000_000, "oldest": 2_000_000_000,
        "level_in": 6_000_000_000, "pace": 0.5, "held": "normal",
    }  # fmt: skip
    Ears.known, Ears.told_ns, Ears.pace, Ears.held = False, -1, None, ""
    far = bench.asked("STREAM.INFO.S")["sources"][0]["leafd"]
    unknown = dict.fromkeys(("behind", "behind_bytes", "told", "oldest", "level_in", "pace", "held"))
    assert far == unknown | {"level": 2_000_000_000}
    bench.asked("STREAM.UPDATE.S", {"name": "S"})
    bench.asked("STREAM.DELETE.S")
    assert ["changed S 0", "changed S 0", "removed S"] == heard
    bench.account.enabled = False
    assert None is trio.run(bench.ask, "STREAM.NAMES")


def test_a_definition_that_cannot_be_read_stops_nobody_else(bench: Bench) -> None:
    """A damaged record is complained about; the other streams are served, and its data stays."""
    bench.stream("S")
    bench.stream("T")
    first = min(bench.plane.streams)
    bench.plane.streams[first].definition = b'{"account":"A","created":"never","config":{}}'
    again = restarted(bench)
    assert ["T"] == again.asked("STREAM.NAMES")["streams"]
    assert f'stream "unreadable-{first}" of account "A" stays on disk' in again.log.texts[0]
    assert first in again.plane.streams


def test_a_stream_of_several_servers_is_kept_apart_where_there_is_no_group(bench: Bench) -> None:
    """meta_size was taken out of the configuration, say: it is offline, nobody takes its name, and its data stays."""
    bench.stream("S")
    (only,) = bench.plane.streams
    stored = bench.plane.streams[only].definition
    bench.plane.streams[only].definition = stored[:-1] + b',"group":{"name":7,"members":[[1,2],[3,4],[5,6]]}}'
    again = restarted(bench)
    assert "in no group of servers" in again.log.texts[0]
    assert [10194] * 2 == [again.code("STREAM.INFO.S", {}), again.code("STREAM.CREATE.S", {"name": "S"})]
    assert only in again.plane.streams


def test_a_start_asks_the_plane_for_many_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """200 streams and 200 consumers are taken up in a few rounds, not one after the other; who fails fails alone."""
    for number in range(200):
        bench.stream(f"S{number}")
        bench.consumer(f"S{number}", "c", durable_name="c")
    rounds = 0
    waiting = trio.Event()

    async def main(again: Bench) -> None:
        nonlocal rounds, waiting
        async with trio.open_nursery() as nursery:

            async def answer() -> None:
                nonlocal rounds, waiting
                while True:
                    await trio.testing.wait_all_tasks_blocked()
                    rounds += 1
                    waiting.set()
                    waiting = trio.Event()

            nursery.start_soon(answer)
            await again.service.load()
            nursery.cancel_scope.cancel()

    def late(put: Any) -> Any:
        async def later(*numbers: int, **config: Any) -> Any:
            await waiting.wait()
            if numbers[0] == 7:
                raise t.PlaneError(t.Status.CORRUPT, "corrupt")
            return await put(*numbers, **config)

        return later

    again = Bench(bench.plane)
    again.service.read_records()
    monkeypatch.setattr(bench.plane, "stream_put", late(bench.plane.stream_put))
    monkeypatch.setattr(bench.plane, "consumer_put", late(bench.plane.consumer_put))
    trio.run(main, again)
    assert rounds <= 10
    assert (199, 199) == (len(again.account.streams), again.account.consumers)
    assert 'stream "S6" of account "A" stays on disk unserved: ' in again.log.texts[0]


def test_backup_requests_are_judged(bench: Bench) -> None:
    """What a snapshot or a restore needs is asked for before anything is begun."""
    bench.stream("S")
    assert 10003 == bench.code("STREAM.SNAPSHOT.S")
    assert 10059 == bench.code("STREAM.SNAPSHOT.T", {"deliver_subject": "a"})
    assert 10015 == bench.code("STREAM.SNAPSHOT.S", {"deliver_subject": "a.*"})
    assert 10130 == bench.code("STREAM.RESTORE.S", {"config": {"name": "S"}, "state": {}})
    assert 10056 == bench.code("STREAM.RESTORE.T", {"config": {"name": "S"}, "state": {}})
    assert 10052 == bench.code("STREAM.RESTORE.T", {"config": {"name": "T", "subjects": [".."]}, "state": {}})
