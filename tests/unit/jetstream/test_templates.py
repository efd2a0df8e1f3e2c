"""Stream templates: a stream for each subject that a message comes for. What clients see of it: tests/interop."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.lowlevel
from leafd import native_types as t
from leafd.jetstream.catalogue import JetStreamLimits
from leafd.jetstream.subjects import subset

from tests.unit.jetstream.conftest import Bench
from tests.unit.jetstream.fake_backup import BackupPlane

MakeBench = Callable[..., Bench]
FULL = {"code": 400, "err_code": 10027, "description": "maximum number of streams reached"}


class StoringPlane(BackupPlane):
    """Stores what is published to its streams, and says how many of them took it."""

    async def publish_counted(
        self,
        account: int,
        subject: str,
        payload: bytes,
        *,
        reply: str = "",
        header: bytes = b"",
        flags: int = 0,
        link: int = 0,
    ) -> int:
        """As PUBLISH_STREAMS does."""
        takers = [one.name for one in self.streams.values() if any(subset(subject, own) for own in one.subjects)]
        for name in takers:
            self.store(name, subject, payload, header)
        return len(takers)


@pytest.fixture
def bench() -> Bench:
    """A fresh JetStream whose plane stores."""
    return Bench(StoringPlane())


def restarted(bench: Bench) -> Bench:
    """A new service over what the plane has stored."""
    again = Bench(bench.plane)
    again.service.read_records()
    trio.run(again.service.load)
    return again


def template(bench: Bench, name: str = "CLIENTS", *subjects: str, most: int = 10, **config: Any) -> dict[str, Any]:
    """Asks for a template."""
    wanted = {"name": name, "config": {"subjects": subjects or ("CLIENT.*",)} | config, "max_streams": most}
    return bench.asked(f"STREAM.TEMPLATE.CREATE.{name}", wanted)


def message(bench: Bench, subject: str, payload: bytes = b"hello", reply: str = "_I") -> None:
    """What no stream takes, as the plane hands it over; returns when its publisher may go on."""
    (handler,) = {handler for pattern, handler in bench.plane.heard.items() if subset(subject, pattern)}
    one = t.Message(0, 1, 5, 1, subject, reply, b"", payload, 1, 77)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(bench.service.run)
            assert handler(one)
            with trio.fail_after(10):
                while 77 not in bench.plane.repaid:
                    await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

    bench.plane.repaid.clear()
    trio.run(main)


def stored(bench: Bench) -> dict[str, list[tuple[str, bytes]]]:
    """Each stream's messages."""
    return {one.name: [(m.subject, m.payload) for m in one.messages] for one in bench.plane.streams.values()}


def test_a_message_makes_its_stream_and_is_in_it(bench: Bench) -> None:
    """The stream has the template's configuration, the message's subject, and a name made of both."""
    assert [] == template(bench, max_msg_size=2048, max_age=10**18)["streams"]
    message(bench, "CLIENT.acme")
    assert {"CLIENTS_acme": [("CLIENT.acme", b"hello")]} == stored(bench)
    config = bench.asked("STREAM.INFO.CLIENTS_acme")["config"]
    assert (["CLIENT.acme"], 2048, 10**18) == tuple(config[key] for key in ("subjects", "max_msg_size", "max_age"))
    message(bench, "CLIENT.acme", b"again")  # which came before the stream was there
    assert {"CLIENTS_acme": [("CLIENT.acme", b"hello"), ("CLIENT.acme", b"again")]} == stored(bench)
    assert ["CLIENTS_acme"] == bench.asked("STREAM.TEMPLATE.INFO.CLIENTS")["streams"]


@pytest.mark.parametrize(
    ("pattern", "subject", "name"),
    [
        ("CLIENT.*", "CLIENT.acme", "T_acme"),
        ("a.*.b.*", "a.1.b.2", "T_1_2"),
        ("a.>", "a.b.c", "T_b_c"),
        ("a.*.>", "a.1.2.3", "T_1_2_3"),
        ("one", "one", "T"),
        ("a.*", "a.b/c\\d", "T_b_c_d"),
    ],
)
def test_a_stream_is_named_by_what_stands_for_the_wildcards(
    bench: Bench, pattern: str, subject: str, name: str
) -> None:
    """What a name may not have becomes an underscore."""
    template(bench, "T", pattern)
    message(bench, subject)
    assert [name] == list(stored(bench))


def test_no_two_subjects_share_a_stream(bench: Bench) -> None:
    """Where a name is taken, a number follows it."""
    template(bench, "T", "a.>", "b.*")
    bench.stream("T_2")
    for subject in ("a.x.y", "a.x_y", "b.x_y", "a.2"):
        message(bench, subject)
    subjects = {name: [one[0] for one in held] for name, held in stored(bench).items()}
    assert {"T_2": [], "T_x_y": ["a.x.y"], "T_x_y_2": ["a.x_y"], "T_x_y_3": ["b.x_y"], "T_2_2": ["a.2"]} == subjects


def test_beyond_its_number_of_streams_the_publisher_is_told(bench: Bench) -> None:
    """Also where it is the account's; with room again it goes on. The log says it once."""
    template(bench, most=1)
    for subject in ("CLIENT.a", "CLIENT.b", "CLIENT.b"):
        message(bench, subject)
    answers = [(subject, json.loads(body)) for _, subject, _, body in bench.plane.published if subject == "_I"]
    assert [("_I", {"error": FULL, "stream": "", "seq": 0})] * 2 == answers
    assert ["CLIENTS_a"] == list(stored(bench))
    assert 1 == len(bench.log.texts)
    assert 0 == bench.code("STREAM.DELETE.CLIENTS_a")
    message(bench, "CLIENT.b")
    assert ["CLIENTS_b"] == list(stored(bench))


def test_the_accounts_limits_hold(make_bench: MakeBench) -> None:
    """A template makes no stream that its account may not have."""
    bench = make_bench(StoringPlane(), JetStreamLimits(max_streams=1))
    template(bench)
    message(bench, "CLIENT.a")
    message(bench, "CLIENT.b")
    assert ["CLIENTS_a"] == list(stored(bench))


def test_without_acknowledgements_nobody_is_told(bench: Bench) -> None:
    """Streams with no_ack answer nothing, nor does their template."""
    template(bench, most=1, no_ack=True)
    message(bench, "CLIENT.a")
    message(bench, "CLIENT.b")
    assert [] == [subject for _, subject, _, _ in bench.plane.published if subject == "_I"]


def test_a_template_goes_with_its_streams(bench: Bench) -> None:
    """And with no others, whatever they are called; what it took is taken by nobody."""
    bench.stream("CLIENTS_own")
    template(bench)
    template(bench, "T", "t.*")
    message(bench, "CLIENT.a")
    message(bench, "t.a")
    assert {"success": True} == {k: v for k, v in bench.asked("STREAM.TEMPLATE.DELETE.CLIENTS").items() if k != "type"}
    assert {"CLIENTS_own", "T_a"} == set(stored(bench))
    assert {"t.*"} == set(bench.plane.heard)
    assert ["T"] == bench.asked("STREAM.TEMPLATE.NAMES")["streams"]
    assert 10068 == bench.code("STREAM.TEMPLATE.DELETE.CLIENTS") == bench.code("STREAM.TEMPLATE.INFO.CLIENTS")


def test_a_delete_that_failed_can_be_repeated(bench: Bench) -> None:
    """What the disk refused leaves a template that still works."""
    template(bench)
    message(bench, "CLIENT.a")
    bench.plane.fail = t.PlaneError(-4, "input/output error")
    assert 10067 == bench.code("STREAM.TEMPLATE.DELETE.CLIENTS")
    message(bench, "CLIENT.b")
    assert 0 == bench.code("STREAM.TEMPLATE.DELETE.CLIENTS")
    assert ({}, {}) == (bench.plane.controls, bench.plane.streams)


def test_templates_outlive_a_restart(bench: Bench) -> None:
    """With their streams, limits and the right to delete these; also through an update of a stream."""
    template(bench, most=2)
    message(bench, "CLIENT.a")
    assert 0 == bench.code("STREAM.UPDATE.CLIENTS_a", {"name": "CLIENTS_a", "subjects": ["CLIENT.a"], "max_msgs": 5})
    before = bench.asked("STREAM.TEMPLATE.INFO.CLIENTS")
    bench.plane.heard.clear()
    again = restarted(bench)
    assert before == again.asked("STREAM.TEMPLATE.INFO.CLIENTS")
    for subject in ("CLIENT.b", "CLIENT.c"):
        message(again, subject)
    assert {"CLIENTS_a", "CLIENTS_b"} == set(stored(again))
    assert 0 == again.code("STREAM.TEMPLATE.DELETE.CLIENTS")
    assert {} == stored(restarted(again))


def test_a_template_that_cannot_be_read_is_told_of(bench: Bench) -> None:
    """It keeps its record; everything else is served."""
    template(bench)
    (key,) = bench.plane.controls
    bench.plane.controls[key] = b'{"account":"A","template":{"name":"CLIENTS"}}'
    bench.stream("S")
    again = restarted(bench)
    assert 'a stream template of account "A" stays on disk unserved' in again.log.texts[0]
    assert 0 == again.code("STREAM.INFO.S")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"name": "OTHER"}, 10073),
        ({"max_streams": 0}, 10066),
        ({"config": {"subjects": ["x.*"], "name": "N"}}, 10066),
        ({"config": None}, 10066),
        ({"config": {"subjects": []}}, 10066),
        ({"config": {"subjects": ["CLIENT.a"], "sources": [{"name": "S"}]}}, 10066),
        ({"config": {"subjects": [">"], "no_ack": True}}, 10052),
        ({"config": {"subjects": ["$JS.API.>"]}}, 10052),
        ({"config": {"subjects": ["taken.*"]}}, 10066),
        ({"config": {"subjects": ["x"], "num_replicas": 3}}, 10074),
        ({"config": {"subjects": ["x"], "nonsense": 3}}, 10025),
    ],
)
def test_what_is_no_template_is_refused(bench: Bench, changes: dict[str, Any], code: int) -> None:
    """Nothing of it is stored."""
    template(bench, "TAKEN", "taken.*")
    wanted = {"name": "T", "config": {"subjects": ["x.*"]}, "max_streams": 1}
    assert code == bench.code("STREAM.TEMPLATE.CREATE.T", wanted | changes)
    assert 10066 == bench.code("STREAM.TEMPLATE.CREATE.TAKEN", wanted | {"name": "TAKEN"})
    assert 1 == len(bench.plane.controls)


def test_an_account_that_never_had_one_hears_nothing_of_templates(bench: Bench) -> None:
    """As with nats-server, which has none: a request for them is not answered."""
    other = bench.service.add_account(2, "B")
    template(bench)
    for request in ("NAMES", "INFO.CLIENTS", "DELETE.CLIENTS"):
        assert None is trio.run(bench.service.answer, other, f"$JS.API.STREAM.TEMPLATE.{request}", b"", b"")
    assert 1 == len(bench.plane.controls)


def test_an_order_to_purge_the_account_takes_its_templates(bench: Bench) -> None:
    """Or the next message would bring its streams back."""
    system = bench.service.add_account(3, "SYS", system=True)
    template(bench)
    message(bench, "CLIENT.a")
    trio.run(bench.service.answer, system, "$JS.API.ACCOUNT.PURGE.A", b"", b"")
    assert ({}, {}, {}) == (bench.plane.controls, bench.plane.streams, bench.plane.heard)
