"""What a configuration declares: how it is read, what it takes to bring it about, and what is never done unasked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import trio
from leafd.accounts.graph import Numbers, compile_graph
from leafd.config.bind import load_text
from leafd.declared.assets import Declared
from leafd.declared.plan import NOT_ASKED, plan
from leafd.declared.provision import Bringer
from leafd.declared.read import read
from leafd.declared.steps import Action, Present, PresentStream, Step
from leafd.errors import ConfigError
from leafd.gotime import SECOND

from tests.rig.logs import KeptLog
from tests.unit.jetstream.conftest import Bench


@pytest.fixture
def bench() -> Bench:
    """A fresh JetStream with the account A."""
    return Bench()


def read_whole(text: str) -> Declared:
    loaded = load_text(text, "box.conf")
    return read(loaded, compile_graph(loaded.server, Numbers()))


def declared(text: str) -> Declared:
    """What the account A declares by that text, which begins in line 3."""
    return read_whole(f"jetstream: enabled\naccounts {{ A {{ jetstream: enabled\n{text}\n}} }}")


def wrong(text: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        declared(text)
    return str(error.value).splitlines()


def brought(bench: Bench, text: str, before: str | None = None) -> list[tuple[str, str]]:
    """What is said when it is brought about, after `before` was declared."""
    said, coming = KeptLog(), declared(text)
    new = coming.since(declared(before) if before is not None else None)
    trio.run(Bringer(bench.service, said).bring_about, coming, new)
    return said.lines


def step(bench: Bench, text: str) -> Step:
    """What it takes to bring about the one thing that is declared."""
    (found,) = trio.run(Bringer(bench.service, KeptLog()).planned, declared(text))
    return found


def config(bench: Bench, stream: str) -> dict[str, Any]:
    found = bench.asked(f"STREAM.INFO.{stream}")
    assert "error" not in found, found
    return dict(found["config"])


# ---- reading


def test_values_are_those_of_the_command_lines_files() -> None:
    """A number for a time is nanoseconds, as in JSON; "24h" and sizes with a unit mean what they mean elsewhere in the
    language, and keys are known whatever their case."""
    (one,) = declared(
        """streams { S { subjects: ["s.>"], max_age: "24h", Max_Bytes: 1GB, max_msg_size: "1K",
        duplicate_window: 5000000000,
        mirror { name: O, external { api: "$JS.hub.API" }, opt_start_time: 2026-01-02T03:04:05Z } } }"""
    ).streams
    found = one.config
    assert found is not None
    assert found.mirror is not None
    assert found.mirror.external is not None
    assert (24 * 3600 * SECOND, 1 << 30, 1024) == (found.max_age, found.max_bytes, found.max_msg_size)
    assert (5 * SECOND, "$JS.hub.API") == (found.duplicate_window, found.mirror.external.api)
    assert 1_767_323_045 * SECOND == found.mirror.opt_start_time


def test_json_of_the_command_line_is_taken_as_it_is() -> None:
    """Go writes > as \\u003e, also in a key of metadata; null is no value; and what `nats stream info --json` shows has
    the configuration beside the state."""
    config = r"""{ "name": "S", "description": "\ud83d\ude00 \/ \u00e9", "subjects": ["s.\u003e", "t"], "mirror": null,
        "max_age": 1000, "metadata": { "a.\u003e": "\u003cb\u003e" } }"""
    info = f'{{ "config": {config}, "created": "2026-01-02T03:04:05Z", "state": {{ "messages": 3 }} }}'
    (plain,), (shown,) = (declared(f"streams {{ S {one} }}").streams for one in (config, info))
    assert plain == shown
    assert plain.config is not None
    assert (("s.>", "t"), None, "\U0001f600 / \u00e9") == (
        plain.config.subjects,
        plain.config.mirror,
        plain.config.description,
    )
    assert {"a.>": "<b>"} == plain.config.metadata
    (worker,) = declared(
        'streams { S {} }\nconsumers { S { c { "config": { "durable_name": "c", "ack_wait": 5 } } } }'
    ).consumers
    assert worker.config is not None
    assert 5 == worker.config.ack_wait
    assert ["box.conf:3:25: name: the stream is called 'S' by its block: remove one of them"] == wrong(
        "streams { S { config: { name: T } } }"
    )
    for text, said in ((r'"\u12"', r"\u needs four hexadecimal digits, not"), (r'"\q"', r"\q is no escape")):
        assert said in wrong(f"streams {{ S {{ description: {text} }} }}")[0]


def test_each_mistake_has_its_place() -> None:
    """Unknown keys, wrong types and values out of range are told at once, each with file, line and column."""
    assert [
        "box.conf:8:1: allow_data_loss: true or false is expected, not 'yes please'",
        "box.conf:3:15: unknown field 'max_mgs': did you mean 'max_msgs'?",
        'box.conf:4:1: max_age: \'soon\' is no duration: write it like "500ms", "10s", "2m" or "1h30m"',
        "box.conf:5:1: storage: file or memory is expected, not 'disk'",
        "box.conf:6:15: 1: a string is expected, not 5: put quotes around it",
        "box.conf:7:11: unknown field 'nam': did you mean 'name'?",
    ] == wrong(
        "streams { S { max_mgs: 5\nmax_age: soon\nstorage: disk\nsubjects: [a, 5]\nmirror: { nam: x }\n"
        'allow_data_loss: "yes please" } }'
    )
    assert ["box.conf:3:10: history must be between 1 and 64, not 65"] == wrong("kv { B { history: 65 } }")
    endless = f'streams {{ S {{ max_age: "{"9" * 400}h" }} }}'
    assert [" is too much"] == [line[-12:] for line in wrong(endless)]
    assert ["box.conf:3:11: S: a map in braces is expected here, not a number"] == wrong("streams { S: 5 }")
    assert ["box.conf:3:15: name: the stream is called 'S' by its block: remove one of them"] == wrong(
        "streams { S { name: T } }"
    )
    assert 'bucket "B" is the stream "KV_B" at box.conf:3:11: keep one' in wrong("streams { KV_B {} }\nkv { B {} }")[0]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("streams { S {} }", "box.conf:1:1: there is no JetStream: add jetstream: enabled at the top"),
        (
            "jetstream: enabled\nstreams { S {} }\naccounts { A { users: [{user: a, password: a}] } }",
            "box.conf:2:1: the account $G has no JetStream where there are accounts: declare this in one of them",
        ),
        (
            "jetstream: enabled\naccounts { A { kv { B {} } } }",
            "box.conf:2:16: the account A has no JetStream: add jetstream: enabled to it",
        ),
    ],
)
def test_what_nobody_would_serve_is_refused(text: str, complaint: str) -> None:
    """An account without JetStream declares nothing."""
    with pytest.raises(ConfigError) as error:
        read_whole(text)
    assert complaint == str(error.value)


def test_a_constant_among_the_keys_is_none_of_them() -> None:
    """People name their values beside where they use them."""
    (one,) = declared('streams { keep: "1h"\nS { age: $keep, max_age: $age } }').streams
    assert one.config is not None
    assert 3600 * SECOND == one.config.max_age


# ---- bringing it about


def test_what_is_declared_is_made_once(bench: Bench) -> None:
    """Streams, consumers and buckets come to be; the same words again change nothing, wherever they stand."""
    text = (
        "streams { S { subjects: [s] } }\nconsumers { S { c { ack_policy: explicit } } }\nkv { B {} }\nobjects { O {} }"
    )
    assert 4 == len(brought(bench, text))
    assert ["KV_B", "OBJ_O", "S"] == bench.asked("STREAM.NAMES")["streams"]
    assert "c" == bench.asked("CONSUMER.INFO.S.c")["config"]["durable_name"]
    assert [] == brought(bench, "\n\n" + text, text)


def test_what_somebody_changed_is_as_declared_again(bench: Bench) -> None:
    """A change by the API ends at the next reload, and the log says which; a change of the file is no such thing."""
    text = "streams { S { max_msgs: 5 } }"
    brought(bench, text)
    bench.asked("STREAM.UPDATE.S", {"name": "S", "max_msgs": 4})
    assert [
        (
            "warning",
            'box.conf:3:11: stream "S" of account A was changed and is as declared again: max_msgs 4, now 5',
        )
    ] == brought(bench, text, text)
    ((level, line),) = brought(bench, "streams { S { max_msgs: 6 } }", text)
    assert ("info", 6) == (level, config(bench, "S")["max_msgs"]), line


def test_what_is_not_declared_is_left_alone(bench: Bench) -> None:
    """A stream that left the file stays until the file says that it is to go."""
    brought(bench, "streams { S {} }")
    bench.stream("T")
    assert [] == brought(bench, "streams { U { remove: true } }", "streams { S {} }")
    assert ["S", "T"] == bench.asked("STREAM.NAMES")["streams"]
    brought(bench, "streams { S { remove: true } }")
    assert ["T"] == bench.asked("STREAM.NAMES")["streams"]


@pytest.mark.parametrize(
    ("before", "after", "loss"),
    [
        ("max_msgs: 9", "max_msgs: 2", "max_msgs evicts 1 of 3 messages"),
        ("", "max_bytes: 10", "max_bytes evicts messages"),
        ("", 'max_age: "100ms"', "max_age removes messages"),
        ("", "max_msgs_per_subject: 1", "max_msgs_per_subject may evict messages"),
        ('subjects: ["s", "t.>"]', "subjects: [s]", "messages to t.> would not be stored any more"),
        ("", "retention: interest", "retention interest removes"),
        ("", "retention: workqueue", "made anew, it would lose 3 messages"),
        ("", "storage: memory", "made anew, it would lose 3 messages"),
        ("", "remove: true", "it has 3 messages"),
        ("deny_purge: true", "", "made anew, it would lose 3 messages"),
    ],
)
def test_what_would_lose_messages_is_not_done_unasked(bench: Bench, before: str, after: str, loss: str) -> None:
    """The step says what would be lost and leaves the stream; allow_data_loss has it done."""
    subjects = "" if "subjects" in before else "subjects: [s], "
    brought(bench, f"streams {{ S {{ {subjects}{before} }} }}")
    for _ in range(3):
        bench.plane.store("S", "s", b"payload")
    was = config(bench, "S")
    text = f"streams {{ S {{ {subjects if 'subjects' not in after else ''}{after} }} }}"
    assert loss in step(bench, text).refused
    ((level, line),) = brought(bench, text)
    assert ("error", True, was) == (level, loss in line, config(bench, "S"))
    allowed = text.replace("S { ", "S { allow_data_loss: true, ")
    assert "" == step(bench, allowed).refused
    ((level, line),) = brought(bench, allowed)
    assert "info" == level, line
    assert "" == step(bench, allowed).refused
    assert "nothing" == step(bench, allowed).action


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("max_msgs: 9", "max_msgs: 3"),
        ("max_msgs: 9", ""),
        ("max_bytes: 1M", "max_bytes: 2M"),
        ("", "max_msgs_per_subject: 3"),
        ("retention: interest", "retention: limits"),
        ("", "description: text"),
    ],
)
def test_what_loses_nothing_is_done(bench: Bench, before: str, after: str) -> None:
    """Larger limits, and smaller ones that nothing exceeds."""
    brought(bench, f"streams {{ S {{ subjects: [s], {before} }} }}")
    for _ in range(3):
        bench.plane.store("S", "s", b"payload")
    ((level, line),) = brought(bench, f"streams {{ S {{ subjects: [s], {after} }} }}")
    assert "info" == level, line


def test_a_subject_moves_from_one_stream_to_another(bench: Bench) -> None:
    """What another declared stream takes over is not lost, in whichever order they are written."""
    before = "streams { A { subjects: [a] }, B { subjects: [b, c] } }"
    brought(bench, before)
    lines = brought(bench, "streams { A { subjects: [a, c] }, B { subjects: [b] } }", before)
    assert ["info", "info"] == [level for level, _ in lines], lines
    assert ["a", "c"] == config(bench, "A")["subjects"]


def test_a_consumer_keeps_its_position(bench: Bench) -> None:
    """What no update can change is made anew only where the file allows it."""
    text = "streams { S {} }\nconsumers { S { c { ack_policy: explicit } } }"
    brought(bench, text)
    ((level, line),) = brought(bench, text.replace("explicit", "explicit, deliver_policy: new"))
    assert ("error", True) == (level, "would lose its position" in line), line
    ((level, line),) = brought(bench, text.replace("explicit", "explicit, deliver_policy: new, allow_data_loss: true"))
    assert ("info", "new") == (level, bench.asked("CONSUMER.INFO.S.c")["config"]["deliver_policy"]), line
    brought(bench, "consumers { S { c { remove: true } } }")
    assert [] == bench.asked("CONSUMER.NAMES.S")["consumers"]


def test_a_pause_is_no_change_of_the_declaration(bench: Bench) -> None:
    """An operator pauses a consumer by the API; a reload does not end that."""
    text = "streams { S {} }\nconsumers { S { c { ack_policy: explicit } } }"
    brought(bench, text)
    bench.asked("CONSUMER.PAUSE.S.c", {"pause_until": "2100-01-01T00:00:00Z"})
    assert [] == brought(bench, text, text)


def test_what_the_api_would_refuse_is_told_beforehand(bench: Bench) -> None:
    """The rules are the API's own, and their words."""
    assert "max age needs to be >= 100ms" == step(bench, "streams { S { max_age: 5 } }").refused
    assert 'there is no stream "S", and none is made' == step(bench, "consumers { S { c {} } }").refused
    assert (
        "replicas > 1 not supported in non-clustered mode" == step(bench, "streams { S { num_replicas: 3 } }").refused
    )


def test_several_replicas_are_planned_where_servers_share_their_streams() -> None:
    """Of streams, buckets and consumers."""
    bench = Bench(shared=True)
    for text in "streams { S { num_replicas: 3 } }", "kv { K { replicas: 3 } }":
        assert (step(bench, text).refused, step(bench, text).action) == ("", Action.CREATE)
    text = "streams { S { num_replicas: 3 } }\nconsumers { S { c { num_replicas: 3 } } }"
    steps = trio.run(Bringer(bench.service, KeptLog()).planned, declared(text))
    assert [one.refused for one in steps] == ["", ""]


def test_what_cannot_be_asked_of_other_servers_is_left_alone(bench: Bench) -> None:
    """What they have of it might be lost. Where nothing differs there is nothing to be asked."""
    assert "error" not in bench.asked("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    there = PresentStream(bench.account.streams["S"].config, asked=False)
    for text, refused in {
        "streams { S { subjects: [s] } }": [""],
        'streams { S { subjects: [s], max_age: "1h" } }': [NOT_ASKED],
        "streams { S { remove: true } }": [NOT_ASKED],
        "streams { S { subjects: [s] } }\nconsumers { S { c {} } }": ["", NOT_ASKED],
    }.items():
        steps = plan(declared(text), lambda _: Present({"S": there}, bench.service.settings))
        assert [one.refused for one in steps] == refused, text


TOGETHER = {
    "subjects of two streams": ('streams { A { subjects: ["x.>"] }\nB { subjects: ["x.y"] } }', {"B": "overlap"}),
    "subjects that others have": ('streams { A { subjects: ["old.x"] } }', {"A": "overlap"}),
    "subjects that one gives up": (
        "streams { A { subjects: [old] }\nOLD { subjects: [new], allow_data_loss: true } }",
        {},
    ),
    "subjects in a circle": (
        "streams { OLD { subjects: [other], allow_data_loss: true }\nOTHER { subjects: [old] } }",
        {"OLD": "overlap", "OTHER": "overlap"},
    ),
    "room for one": ("streams { A { max_bytes: 500MB }\nB { max_bytes: 500MB } }", {"B": "insufficient storage"}),
    "room after one gives way": (
        "streams { A { max_bytes: 900MB }\nBIG { max_bytes: 1MB, subjects: [big] } }",
        {},
    ),
    "sealed": ("streams { A { sealed: true } }", {"A": "create can not be sealed"}),
    "consumers of a workqueue": (
        "streams { A { retention: workqueue } }\n"
        "consumers { A { c { ack_policy: explicit }\nd { ack_policy: explicit } } }",
        {"d": "multiple non-filtered"},
    ),
    "consumers of a workqueue that share": (
        'streams { A { subjects: ["a.>"], retention: workqueue } }\nconsumers { A { '
        'c { ack_policy: explicit, filter_subject: "a.*" }\nd { ack_policy: explicit, filter_subject: "a.b" } } }',
        {"d": "not unique"},
    ),
    "more consumers than a stream takes": (
        "streams { A { max_consumers: 1 } }\nconsumers { A { c { }\nd { } } }",
        {"d": "maximum consumers"},
    ),
    "a consumer of what is removed": (
        "streams { OTHER { remove: true } }\nconsumers { OTHER { c { } } }",
        {"c": 'there is no stream "OTHER"'},
    ),
    "made anew where there is no room": (
        "streams { OLD { storage: memory, max_bytes: 500MB, subjects: [old] } }",
        {"OLD": "insufficient memory"},
    ),
}


@pytest.mark.parametrize(("text", "refused"), TOGETHER.values(), ids=TOGETHER)
def test_what_does_not_fit_together_is_refused_beforehand(text: str, refused: dict[str, str], bench: Bench) -> None:
    """The plan refuses what the API would refuse once the steps before it are done, and nothing else: then all that is
    not refused happens, and nothing is removed that could not be made anew."""
    bench.service.set_settings(replace(bench.service.settings, max_store=1 << 30, max_memory=64 << 20))
    before = 'streams { OLD { subjects: ["old", "old.>"] }\nOTHER { subjects: [other] }\n'
    before += "BIG { subjects: [big], max_bytes: 500MB } }"
    assert [] == [line for line in brought(bench, before) if line[0] == "error"]
    planned = trio.run(Bringer(bench.service, KeptLog()).planned, declared(text))
    assert {one.asset.key[-1] for one in planned if one.refused} == set(refused)
    said = brought(bench, text, before)
    assert len(refused) == sum(level == "error" for level, _ in said)
    for name, why in refused.items():
        assert any(f'"{name}"' in line and why in line for level, line in said if level == "error"), said
    assert "config" in bench.asked("STREAM.INFO.OLD")


def test_a_client_that_is_in_between_is_no_match(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that a client removes between the plan and its update is there afterwards, and nothing is complained
    of."""
    brought(bench, "streams { S { max_msgs: 5 } }")
    answer = bench.service.answer
    removed: list[Any] = []

    async def meddle(account: Any, subject: str, header: bytes, body: bytes, *asker: Any) -> Any:
        if subject.endswith("STREAM.UPDATE.S") and not removed:
            removed.append(await answer(account, "$JS.API.STREAM.DELETE.S", b"", b"", *asker))
        return await answer(account, subject, header, body, *asker)

    monkeypatch.setattr(bench.service, "answer", meddle)
    said = brought(bench, "streams { S { max_msgs: 6 } }")
    assert [("info", 'stream "S" of account A created, as declared')] == said
    assert (1, 6) == (len(removed), config(bench, "S")["max_msgs"])
