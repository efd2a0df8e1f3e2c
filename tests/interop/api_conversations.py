"""The requests that test_api_parity.py sends to both servers, as conversations of steps; each begins empty.

Not here: servers, the client, the comparison.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Step:
    """One request below $JS.API, or with publish=True a message that is only stored."""

    subject: str
    body: str = ""
    header: dict[str, str] = field(default_factory=dict)
    publish: bool = False
    silent: bool = False

    def __str__(self) -> str:
        return f"{self.subject} {self.body} {self.header or ''}".strip()


def ask(subject: str, body: Any = "", **header: str) -> Step:
    """A request that is answered. Header names are written with _ for -."""
    text = body if isinstance(body, str) else json.dumps(body)
    return Step(subject, text, {name.replace("_", "-"): value for name, value in header.items()})


def silent(subject: str, body: str = "") -> Step:
    """A request that nobody answers."""
    return Step(subject, body, silent=True)


def publish(subject: str, payload: str = "", **header: str) -> Step:
    """A message for a stream, acknowledged before the next step."""
    return Step(subject, payload, {name.replace("_", "-"): value for name, value in header.items()}, publish=True)


def stream(name: str, **config: Any) -> Step:
    """STREAM.CREATE."""
    return ask(f"STREAM.CREATE.{name}", {"name": name} | config)


def update(name: str, **config: Any) -> Step:
    """STREAM.UPDATE."""
    return ask(f"STREAM.UPDATE.{name}", {"name": name} | config)


def consumer(stream_name: str, name: str, action: str = "", **config: Any) -> Step:
    """CONSUMER.CREATE in today's form."""
    return ask(
        f"CONSUMER.CREATE.{stream_name}.{name}", {"stream_name": stream_name, "config": config, "action": action}
    )


def durable(stream_name: str, name: str, action: str = "", **config: Any) -> Step:
    """CONSUMER.CREATE in today's form with a durable name."""
    return consumer(stream_name, name, action, durable_name=name, **config)


def legacy(stream_name: str, **config: Any) -> Step:
    """CONSUMER.CREATE without a name in the subject."""
    return ask(f"CONSUMER.CREATE.{stream_name}", {"stream_name": stream_name, "config": config})


JSON_STEPS = [
    *(
        ask("STREAM.CREATE.A", body)
        for body in (
            '{"name":"A","max_msgs":"x"}',
            '{"name":1}',
            '{"name":"A","subjects":"x"}',
            '{"name":"A","subjects":[1]}',
            '{"name":"A","max_msgs":1.5}',
            '{"name":"A","max_msg_size":99999999999}',
            '{"name":"A","retention":"foo"}',
            '{"name":"A","retention":null}',
            '{"name":"A","compression":"x"}',
            '{"name":"A","storage":""}',
            '{"name":"A","foo":1}',
            '{"name":"A","max_msgs":"x","foo":1}',
            '{"name":"A","mirror":{"name":"x","opt_start_time":"zz"}}',
            '{"name":"A","mirror":{"name":"x","opt_start_time":3}}',
            '{"name":"A","mirror":[]}',
            '{"name":"A","sources":[{"name":"x","external":{"api":1}}]}',
            '{"name":"A","metadata":{"a":1}}',
            '{"name":"A"',
            "",
            "x",
            "[]",
            '"a"',
            "null",
            '{"name":"A",}',
            '{"name":"A"} x',
            '{"name" "A"}',
            '{"name":"A","max_msgs":tru}',
            '{"name":"A","first_seq":-1}',
            '{"name":"A","max_age":"1s"}',
            '{"name":"A","max_msgs":1e3}',
            '{"name":"A","allow_direct":1}',
            '{"name":"A","template_owner":""}',
        )
    ),
    ask("STREAM.CREATE.A", '{"NAME":"A","Max_Msgs":3,"consumer_limits":null,"sources":null,"description":null}'),
    ask("STREAM.CREATE.A", '{"name":"A","max_msgs":3}'),
    ask("STREAM.INFO.A", '{"offset":"x"}'),
    ask("STREAM.INFO.A", "[]"),
    ask("STREAM.INFO.A", "nonsense"),
    ask("STREAM.NAMES", '{"subject":1}'),
    ask("STREAM.LIST", '{"foo":1}'),
    ask("STREAM.PURGE.A", '{"seq":-1}'),
    ask("STREAM.MSG.GET.A", '{"start_time":"x"}'),
    ask("STREAM.MSG.DELETE.A", '{"seq":"x"}'),
    ask("CONSUMER.NAMES.A", '{"offset":"x"}'),
    ask("CONSUMER.PAUSE.A.c", '{"pause_until":"x"}'),
    ask("CONSUMER.UNPIN.A.c", ""),
    ask("CONSUMER.UNPIN.A.c", "{}"),
    *(
        ask("CONSUMER.CREATE.A", '{"stream_name":"A",' + rest + "}")
        for rest in (
            '"config":{"ack_policy":""}',
            '"config":{"ack_wait":"1s"}',
            '"config":{"backoff":["x"]}',
            '"action":"foo"',
            '"config":{"priority_policy":"x"}',
            '"config":{"pause_until":"2020-13-01T00:00:00Z"}',
            '"config":{"opt_start_time":"2020-01-01"}',
            '"config":{"pause_until":null,"foo":1}',
            '"config":[]',
            '"config":{"deliver_policy":"z"}',
            '"config":{"max_deliver":"z"}',
        )
    ),
]

STREAM_STEPS = [
    ask("INFO"),
    ask("STREAM.NAMES"),
    ask("STREAM.LIST"),
    stream("AX", subjects=["ax.>"], allow_direct=True),
    stream("AX", subjects=["ax.>"], allow_direct=True),
    stream("AX", subjects=["ax.>"], allow_direct=True, max_msgs=0, metadata={"_nats.ver": "1"}),
    stream("AX", subjects=["ax.>"]),
    stream("D"),
    stream("D", subjects=["D"], max_bytes=-1),
    stream("OV", subjects=["ax.1"]),
    ask("STREAM.CREATE.AX", {"name": "BX"}),
    ask("STREAM.CREATE.a/b", {"name": "a/b"}),
    stream("S1", sealed=True),
    stream("S1", mirror_direct=True),
    stream("S1", num_replicas=3),
    stream("S1", num_replicas=6),
    stream("S1", num_replicas=-1),
    stream("S1", max_age=-1),
    stream("S1", max_age=5),
    stream("S1", max_age=1_000_000_000),
    update("S1", max_age=1_000_000_000, duplicate_window=2_000_000_000),
    ask("STREAM.DELETE.S1"),
    stream("S1", duplicate_window=-5),
    stream("S1", duplicate_window=5),
    stream("S1", duplicate_window=120_000_000_000),
    stream("S1", deny_purge=True, allow_rollup_hdrs=True),
    stream("S1", discard_new_per_subject=True),
    stream("S1", discard_new_per_subject=True, discard="new"),
    stream("S1", description="x" * 4097),
    stream("S1", metadata={"k": "v" * 131_072}),
    stream("S1", subjects=["a b"]),
    stream("S1", subjects=["a..b"]),
    stream("S1", subjects=["a", "a"]),
    stream("S1", subjects=["a.>", "a.b"]),
    stream("S1", subjects=[">"]),
    stream("S1", subjects=["$JS.>"]),
    stream("S1", subjects=["$JS.API.x"]),
    stream("S1", subjects=["$SYS.x"]),
    stream("EV", subjects=["$JS.EVENT.ADVISORY.STREAM.X.>"]),
    ask("STREAM.DELETE.EV"),
    stream("S1", placement={"preferred": "x"}),
    stream("S1", subject_transform={"src": "a b", "dest": "x"}),
    stream("S1", subject_transform={"src": "a.*", "dest": "x.$2"}),
    stream("S1", subject_transform={"src": "a.*", "dest": "x.{{foo(1)}}"}),
    stream("S1", republish={"dest": "S1"}),
    stream("S1", subject_delete_marker_ttl=5),
    stream("S1", subject_delete_marker_ttl=-5),
    stream("S1", allow_msg_counter=True, discard="new"),
    stream("S1", persist_mode="async", storage="memory"),
    ask("STREAM.CREATE.S1", {"name": "S1", "max_msgs": -5, "pedantic": True}),
    ask("STREAM.CREATE.S1", {"name": "S1", "pedantic": True}),
    stream("BIG", max_bytes=2_000_000_000),
    stream("FS", first_seq=100),
    ask("STREAM.INFO.FS"),
    stream("ALL", description="d", subjects=["all.*"], retention="interest", max_consumers=5, max_msgs=10,
           max_bytes=100_000, max_age=60_000_000_000, max_msgs_per_subject=3, max_msg_size=1000, discard="new",
           storage="memory", duplicate_window=30_000_000_000, placement={}, compression="s2", deny_delete=True,
           allow_rollup_hdrs=True, consumer_limits={"inactive_threshold": 30_000_000_000, "max_ack_pending": 10},
           metadata={"b": "2", "a": "1"}, discard_new_per_subject=True),
    ask("STREAM.INFO.ALL"),
    update("ALL", subjects=["all.*"], storage="memory"),
    update("ALL", subjects=["all.*"], storage="file", deny_delete=True),
    update("ALL", subjects=["all.*"], storage="memory", deny_delete=True, retention="workqueue"),
    update("ALL", subjects=["ax.2"], storage="memory", deny_delete=True),
    update("ALL", storage="memory", deny_delete=True, retention="interest"),
    update("NONE"),
    ask("STREAM.UPDATE.ALL", {"name": "AX"}),
    ask("STREAM.NAMES"),
    ask("STREAM.NAMES", {"offset": 2}),
    ask("STREAM.NAMES", {"offset": 99}),
    ask("STREAM.NAMES", {"offset": -1, "subject": "ax.*"}),
    ask("STREAM.NAMES", {"subject": "zz"}),
    ask("STREAM.LIST", {"subject": ">", "offset": 1}),
    ask("STREAM.INFO.NONE"),
    ask("STREAM.DELETE.NONE"),
    ask("STREAM.DELETE.AX", '{"a":1}'),
    ask("STREAM.DELETE.ALL", " {} "),
    ask("STREAM.INFO.AX", "", Nats_Required_Api_Level="5"),
    ask("STREAM.INFO.AX", "", Nats_Required_Api_Level="6"),
    ask("STREAM.INFO.AX", "", Nats_Required_Api_Level="x"),
    update("AX", subjects=["ax.>"], sealed=True),
    update("AX", subjects=["ax.>"]),
    ask("STREAM.PURGE.AX"),
    ask("STREAM.MSG.DELETE.AX", {"seq": 1}),
    silent("FOO"),
    silent("STREAM.TEMPLATE.NAMES"),
    silent("STREAM.INFO.AX.more"),
    ask("STREAM.LEADER.STEPDOWN.AX"),
    ask("STREAM.PEER.REMOVE.AX", '{"peer":"a"}'),
    ask("STREAM.PEER.EVACUATE.AX"),
    ask("STREAM.CANCEL_MOVE.AX"),
    ask("CONSUMER.LEADER.STEPDOWN.AX.c"),
    ask("CONSUMER.PEER.REMOVE.AX.c"),
    ask("CONSUMER.PEER.EVACUATE.AX.c"),
    ask("INFO"),
]  # fmt: skip

SOURCE_STEPS = [
    stream("O", subjects=["o.>"], max_msg_size=1000, allow_direct=True),
    stream("M", mirror={"name": "O"}, subjects=["m"]),
    stream("M", mirror={"name": "O"}, sources=[{"name": "O"}]),
    stream("M", mirror={"name": "O"}, first_seq=5),
    stream("M", mirror={"name": "O"}, allow_atomic=True),
    stream("M", mirror={"name": "O"}, allow_msg_schedules=True),
    stream("M", mirror={"name": "O"}, subject_delete_marker_ttl=2_000_000_000),
    stream("M", mirror={"name": "O"}, max_msg_size=10),
    stream("M", mirror={"name": "O", "filter_subject": "o.1", "subject_transforms": [{"src": "o.2", "dest": ""}]}),
    stream("M", mirror={"name": "O", "subject_transforms": [{"src": "o.*", "dest": ""}, {"src": "o.2", "dest": ""}]}),
    stream("M", mirror={"name": ""}),
    stream("M", mirror={"name": "M"}),
    stream("M", mirror={"name": "X", "filter_subject": "a b"}),
    stream("M", mirror={"name": "X", "consumer": {"name": "c"}}),
    stream("M", mirror={"name": "X", "external": {"api": "$JS.API", "deliver": ""}}),
    stream("M", mirror={"name": "X", "external": {"api": "$JS.*.API", "deliver": ""}}),
    stream("M", mirror={"name": "X", "external": {"api": "$JS.hub.API", "deliver": "d.*"}}),
    stream("S", sources=[{"name": "O"}, {"name": "O"}]),
    stream("S", sources=[{"name": "a.b"}]),
    stream("S", sources=[None]),
    stream("S", sources=[{"name": "O"}], max_msg_size=10),
    stream("S", sources=[{"name": "O"}], allow_msg_schedules=True),
    stream("S", sources=[{"name": "O", "filter_subject": "o.1", "subject_transforms": [{"src": "a", "dest": ""}]}]),
    stream("S", sources=[{"name": "O", "subject_transforms": [{"src": "o.>", "dest": ""}, {"src": "o.1", "dest": ""}]}],
           max_msgs=5),
    stream("S", sources=[{"name": "O", "subject_transforms": [{"src": "o.*", "dest": "x.$3"}]}]),
    stream("S", sources=[{"name": "S"}]),
    stream("S", sources=[{"name": "O"}], subjects=["o.1"]),
    stream("MX", mirror={"name": "X", "external": {"api": "$JS.hub.API", "deliver": "d.hub"}, "filter_subject": "x.>"}),
    stream("MX", mirror={"name": "X", "external": {"api": "$JS.hub.API", "deliver": "d.hub"}, "filter_subject": "x.>"}),
    update("MX", mirror={"name": "X", "external": {"api": "$JS.hub.API", "deliver": "d.hub"}}),
    stream("ML", mirror={"name": "O"}),
    stream("SX", subjects=["sx"], sources=[
        {"name": "X", "external": {"api": "$JS.hub.API", "deliver": ""}, "opt_start_seq": 7},
        {"name": "X", "filter_subject": "x.1", "opt_start_time": "2120-01-01T00:00:00Z"},
        {"name": "X", "subject_transforms": [{"src": "x.2", "dest": ""}]},
    ]),
    update("SX", subjects=["sx"]),
    update("MX", subjects=["promoted"]),
]  # fmt: skip

MESSAGE_STEPS = [
    stream("G", subjects=["g.>"]),
    publish("g.1", "hello", Nats_Msg_Id="m1"),
    publish("g.2", "two"),
    publish("g.1", ""),
    publish("g.3", "four"),
    ask("STREAM.INFO.G", {"subjects_filter": ">"}),
    ask("STREAM.INFO.G", {"subjects_filter": "g.1"}),
    ask("STREAM.INFO.G", {"subjects_filter": "zz", "offset": 5}),
    ask("STREAM.INFO.G", {"subjects_filter": ">", "offset": 2}),
    ask("STREAM.MSG.GET.G", {"seq": 1}),
    ask("STREAM.MSG.GET.G", {"seq": 1, "no_hdr": True}),
    ask("STREAM.MSG.GET.G", {"seq": 2}),
    ask("STREAM.MSG.GET.G", {"seq": 3}),
    ask("STREAM.MSG.GET.G", {"seq": 99}),
    ask("STREAM.MSG.GET.G", {"last_by_subj": "g.1"}),
    ask("STREAM.MSG.GET.G", {"last_by_subj": "g.*"}),
    ask("STREAM.MSG.GET.G", {"last_by_subj": "zz"}),
    ask("STREAM.MSG.GET.G", {"next_by_subj": "g.2"}),
    ask("STREAM.MSG.GET.G", {"next_by_subj": "g.1", "seq": 2}),
    ask("STREAM.MSG.GET.G", {"next_by_subj": "g.1", "seq": 9}),
    ask("STREAM.MSG.GET.G", {"start_time": "2020-01-01T00:00:00Z"}),
    ask("STREAM.MSG.GET.G", {"start_time": "2120-01-01T00:00:00Z"}),
    ask("STREAM.MSG.GET.G", {"start_time": "2020-01-01T00:00:00Z", "next_by_subj": "g.2"}),
    ask("STREAM.MSG.GET.G", {"seq": 1, "last_by_subj": "g.1"}),
    ask("STREAM.MSG.GET.G", {"seq": 1, "batch": 2}),
    ask("STREAM.MSG.GET.G", {"multi_last": ["g.>"]}),
    ask("STREAM.MSG.GET.G", ""),
    ask("STREAM.MSG.GET.NONE", {"seq": 1}),
    ask("STREAM.MSG.DELETE.G", {"seq": 2}),
    ask("STREAM.MSG.DELETE.G", {"seq": 2}),
    ask("STREAM.MSG.DELETE.G", {"seq": 99}),
    ask("STREAM.MSG.DELETE.G", {"seq": 3, "no_erase": True}),
    ask("STREAM.MSG.DELETE.G", ""),
    ask("STREAM.MSG.DELETE.NONE", {"seq": 1}),
    ask("STREAM.MSG.GET.G", {"seq": 2}),
    ask("STREAM.INFO.G", {"deleted_details": True}),
    ask("STREAM.INFO.G"),
    ask("STREAM.PURGE.G", {"seq": 1, "keep": 1}),
    ask("STREAM.PURGE.G", {"filter": "g.1"}),
    ask("STREAM.PURGE.G", {"seq": 1}),
    ask("STREAM.INFO.G"),
    publish("g.1", "a"),
    publish("g.1", "b"),
    publish("g.2", "c"),
    ask("STREAM.PURGE.G", {"filter": "g.1", "keep": 1}),
    ask("STREAM.PURGE.G", {"seq": 6}),
    ask("STREAM.PURGE.G", "{}"),
    ask("STREAM.INFO.G"),
    ask("STREAM.PURGE.NONE"),
    stream("MEM", subjects=["mem.>"], storage="memory"),
    publish("mem.1", "hello", Nats_Msg_Id="m1"),
    publish("mem.2", "two"),
    ask("STREAM.INFO.MEM"),
    ask("STREAM.MSG.DELETE.MEM", {"seq": 1}),
    ask("STREAM.MSG.DELETE.MEM", {"seq": 1}),
    ask("STREAM.MSG.DELETE.MEM", {"seq": 9}),
    stream("DENY", subjects=["deny"], deny_delete=True, deny_purge=True),
    ask("STREAM.MSG.DELETE.DENY", {"seq": 1}),
    ask("STREAM.PURGE.DENY"),
    update("DENY", subjects=["deny"], deny_purge=True),
    update("DENY", subjects=["deny"], deny_delete=True),
    ask("INFO"),
]

CONSUMER_STEPS = [
    stream("C", subjects=["c.>"]),
    publish("c.1", "1"),
    publish("c.2", "2"),
    publish("c.1", "3"),
    durable("C", "d"),
    durable("C", "d"),
    durable("C", "d", action="create"),
    durable("C", "d", description="new", ack_policy="none"),
    durable("C", "d", description="new", ack_policy="explicit"),
    durable("C", "d", action="create", description="other"),
    durable("C", "x", action="update"),
    durable("C", "e", ack_policy="explicit", deliver_policy="all", replay_policy="instant"),
    durable("C", "e", ack_policy="explicit", deliver_policy="new"),
    durable("C", "e", ack_policy="explicit", replay_policy="original"),
    durable("C", "e", ack_policy="explicit", deliver_subject="x"),
    durable("C", "e", ack_policy="explicit", max_waiting=7),
    durable("C", "e", ack_policy="explicit", ack_wait=5_000_000_000, max_deliver=5, backoff=[1, 2, 3],
            filter_subject="c.1", max_ack_pending=7, max_batch=10, max_expires=5_000_000_000, max_bytes=1000,
            headers_only=True, sample_freq="50%", metadata={"z": "1"}, inactive_threshold=90_000_000_000),
    ask("CONSUMER.INFO.C.e"),
    durable("C", "l", deliver_policy="last"),
    durable("C", "n", deliver_policy="new"),
    durable("C", "s", deliver_policy="by_start_sequence", opt_start_seq=2),
    durable("C", "s9", deliver_policy="by_start_sequence", opt_start_seq=9),
    durable("C", "t", deliver_policy="by_start_time", opt_start_time="2020-01-01T00:00:00Z"),
    durable("C", "p", deliver_policy="last_per_subject", filter_subject="c.*"),
    durable("C", "f2", filter_subjects=["c.1", "c.2"]),
    durable("C", "push", deliver_subject="push.x", flow_control=True, idle_heartbeat=500_000_000, ack_policy="all"),
    ask("CONSUMER.INFO.C.push"),
    durable("C", "push", deliver_subject="push.y", flow_control=True, idle_heartbeat=500_000_000, ack_policy="all"),
    durable("C", "push", ack_policy="all"),
    consumer("C", "eph"),
    consumer("C", "eph"),
    consumer("C", "eph", action="create"),
    legacy("C", durable_name="zz"),
    legacy("C", name="named"),
    ask("CONSUMER.DURABLE.CREATE.C.old", {"stream_name": "C", "config": {"durable_name": "old"}}),
    ask("CONSUMER.DURABLE.CREATE.C.old", {"stream_name": "C", "config": {}}),
    ask("CONSUMER.DURABLE.CREATE.C.old", {"stream_name": "C", "config": {"durable_name": "other"}}),
    ask("CONSUMER.CREATE.C.k", {"stream_name": "D", "config": {}}),
    ask("CONSUMER.CREATE.NO.k", {"stream_name": "NO", "config": {}}),
    ask("CONSUMER.CREATE.C.k", {"stream_name": "C", "config": {"durable_name": "j"}}),
    ask("CONSUMER.CREATE.C.k.c.1", {"stream_name": "C", "config": {"filter_subject": "c.1"}}),
    ask("CONSUMER.CREATE.C.k.c.1", {"stream_name": "C", "config": {"filter_subject": "c.2"}}),
    ask("CONSUMER.CREATE.C.k.c.1", {"stream_name": "C", "config": {"filter_subjects": ["c.2"]}}),
    ask("CONSUMER.CREATE.C.w.>", {"stream_name": "C", "config": {"filter_subject": ">"}}),
    ask("CONSUMER.CREATE.C.a/b", {"stream_name": "C", "config": {}}),
    ask("CONSUMER.CREATE.C", {"stream_name": "C", "config": {"name": "a b"}}),
    *(
        durable("C", "bad", **config)
        for config in (
            {"num_replicas": 3},
            {"num_replicas": -1},
            {"backoff": [-1]},
            {"ack_wait": -1},
            {"ack_policy": "flow_control"},
            {"backoff": [1, 2, 3], "max_deliver": 2},
            {"description": "x" * 4097},
            {"deliver_subject": "a.*"},
            {"deliver_subject": "a..b"},
            {"deliver_subject": "c.1"},
            {"deliver_subject": "x", "max_waiting": 1},
            {"deliver_subject": "x", "max_ack_pending": 1},
            {"deliver_subject": "x", "idle_heartbeat": 5},
            {"deliver_subject": "x", "flow_control": True},
            {"rate_limit_bps": 5},
            {"idle_heartbeat": 500_000_000},
            {"flow_control": True},
            {"max_expires": 5},
            {"max_batch": 500},
            {"direct": True},
            {"direct": True, "deliver_subject": "x"},
            {"filter_subject": "c.1", "filter_subjects": ["c.2"]},
            {"filter_subject": "c..1"},
            {"filter_subjects": ["c.1", ""]},
            {"filter_subjects": ["c.1", "c.1"]},
            {"filter_subjects": ["c.>", "c.1"]},
            {"opt_start_seq": 1},
            {"opt_start_time": "2020-01-01T00:00:00Z"},
            {"deliver_policy": "last", "opt_start_seq": 1},
            {"deliver_policy": "new", "opt_start_time": "2020-01-01T00:00:00Z"},
            {"deliver_policy": "last_per_subject"},
            {"deliver_policy": "last_per_subject", "opt_start_seq": 1},
            {"deliver_policy": "by_start_sequence"},
            {"deliver_policy": "by_start_sequence", "opt_start_seq": 1, "opt_start_time": "2020-01-01T00:00:00Z"},
            {"deliver_policy": "by_start_time"},
            {"deliver_policy": "by_start_time", "opt_start_seq": 1, "opt_start_time": "2020-01-01T00:00:00Z"},
            {"sample_freq": "zz"},
            {"metadata": {"k": "v" * 131_072}},
            {"priority_groups": ["a"]},
            {"priority_timeout": 5},
            {"priority_policy": "overflow"},
            {"priority_policy": "overflow", "priority_groups": [""]},
            {"priority_policy": "overflow", "priority_groups": ["a b"]},
            {"priority_policy": "overflow", "priority_groups": ["a"], "deliver_subject": "x"},
        )
    ),
    ask("CONSUMER.CREATE.C.ped", {"stream_name": "C", "config": {"max_waiting": -1}, "pedantic": True}),
    ask("CONSUMER.CREATE.C.ped", {"stream_name": "C", "config": {}, "pedantic": True}),
    ask("CONSUMER.CREATE.C.lv", '{"stream_name":"C"}', Nats_Required_Api_Level="9"),
    ask("CONSUMER.NAMES.C", {"offset": 3}),
    ask("CONSUMER.LIST.C", {"offset": 99}),
    ask("CONSUMER.NAMES.NONE"),
    ask("CONSUMER.LIST.NONE"),
    ask("CONSUMER.INFO.C.none"),
    ask("CONSUMER.INFO.NONE.none"),
    ask("CONSUMER.INFO.C.d", '{"a":1}'),
    ask("CONSUMER.PAUSE.C.d", {"pause_until": "2020-01-01T00:00:00Z"}),
    ask("CONSUMER.PAUSE.C.d", {"pause_until": "2120-01-01T00:00:00Z"}),
    ask("CONSUMER.INFO.C.d"),
    durable("C", "d", pause_until="0001-01-01T00:00:00Z", description="still paused"),
    ask("CONSUMER.PAUSE.C.d"),
    ask("CONSUMER.PAUSE.C.none"),
    durable("C", "zero", pause_until="0001-01-01T00:00:00Z"),
    ask("CONSUMER.UNPIN.C.d", {"group": "a"}),
    ask("CONSUMER.UNPIN.C.d", {"group": "a b"}),
    ask("CONSUMER.UNPIN.C.none", {"group": "a"}),
    ask("CONSUMER.RESET.C.d", {"seq": 2}),
    ask("CONSUMER.RESET.C.s", {"seq": 1}),
    ask("CONSUMER.RESET.C.l", {"seq": 1}),
    ask("CONSUMER.RESET.C.d"),
    silent("CONSUMER.RESET.C.none"),
    ask("CONSUMER.DELETE.C.d", "x"),
    ask("CONSUMER.DELETE.C.d"),
    ask("CONSUMER.DELETE.C.d"),
    ask("CONSUMER.DELETE.NONE.d"),
    update("C", subjects=["c.>"], consumer_limits={"max_ack_pending": 3}),
    update("C", subjects=["c.>"], consumer_limits={"inactive_threshold": 30_000_000_000}),
    stream("WQ", subjects=["wq.>"], retention="workqueue"),
    durable("WQ", "a"),
    durable("WQ", "a", ack_policy="all"),
    durable("WQ", "a", ack_policy="explicit", deliver_policy="new"),
    durable("WQ", "a", ack_policy="explicit", filter_subject="wq.1"),
    durable("WQ", "b", ack_policy="explicit"),
    durable("WQ", "b", ack_policy="explicit", filter_subject="wq.*"),
    durable("WQ", "b", ack_policy="explicit", filter_subject="wq.2"),
    durable("WQ", "b", ack_policy="explicit", filter_subject="wq.1"),
    stream("ONE", max_consumers=1),
    durable("ONE", "a"),
    durable("ONE", "b"),
    stream("LIM", consumer_limits={"inactive_threshold": 20_000_000_000, "max_ack_pending": 5}),
    durable("LIM", "a", ack_policy="explicit"),
    durable("LIM", "b", ack_policy="explicit", max_ack_pending=6),
    durable("LIM", "b", ack_policy="explicit", inactive_threshold=90_000_000_000),
    stream("INT", retention="interest"),
    durable("INT", "a", num_replicas=1),
    ask("CONSUMER.NAMES.C"),
    ask("INFO"),
]  # fmt: skip

NAMELESS_STEPS = [
    stream("N", subjects=["n.>"]),
    legacy("N"),
    legacy("N", ack_policy="explicit", inactive_threshold=60_000_000_000, mem_storage=True, num_replicas=1),
    ask("CONSUMER.CREATE.N", '{"stream_name":"N","config":null}'),
    ask("CONSUMER.NAMES.N"),
]

_DIRECT = {
    "name": "JS_SRC_abc",
    "deliver_policy": "all",
    "ack_policy": "none",
    "ack_wait": 79_200_000_000_000,
    "max_deliver": 1,
    "replay_policy": "instant",
    "flow_control": True,
    "deliver_subject": "$JS.S.abc",
    "idle_heartbeat": 1_000_000_000,
    "inactive_threshold": 60_000_000_000,
    "num_replicas": 0,
    "direct": True,
    "sourcing": True,
}

SOURCING_STEPS = [
    stream("H", subjects=["h.>"]),
    publish("h.1", "x"),
    ask("CONSUMER.CREATE.H", {"stream_name": "H", "config": _DIRECT}, Nats_Required_Api_Level="5"),
    ask("CONSUMER.CREATE.H", {"stream_name": "H", "config": _DIRECT}, Nats_Stream_Identity="zzzzzzzz"),
    ask("CONSUMER.CREATE.H.JS_SRC_abc.h.1", {"stream_name": "H", "config": _DIRECT | {"filter_subject": "h.1"}}),
    ask("CONSUMER.NAMES.H"),
    ask("CONSUMER.LIST.H"),
    ask("STREAM.INFO.H"),
]

S = 1_000_000_000
# Each value that a server fills in, clamps or changes, or refuses to: (what is there already, what is asked for).
_CHANGED_STREAMS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    *(({}, {name: -2}) for name in ("max_msgs", "max_msgs_per_subject", "max_bytes", "max_msg_size", "max_consumers")),
    *(({}, {"max_age": S, "duplicate_window": window}) for window in (0, S, 2 * S)),
    *(({}, {"duplicate_window": window}) for window in (0, -1, 61 * S)),
    *(({}, {"subject_delete_marker_ttl": S} | more) for more in ({}, {"allow_msg_ttl": True}, {"deny_purge": True})),
    *(({}, {"allow_msg_schedules": True} | more) for more in ({}, {"allow_rollup_hdrs": True}, {"discard": "new"})),
    ({}, {"republish": {"dest": "rp.>"}}),
    ({}, {"subjects": ["s.*"], "subject_transform": {"src": "s.*", "dest": "u.$1"},
          "republish": {"src": ">", "dest": ">"}}),
    ({}, {"mirror": {"name": "OD"}}),
    ({}, {"mirror": {"name": "OD"}, "mirror_direct": True}),
    ({}, {"placement": {}}),
    ({"allow_msg_counter": True}, {"allow_msg_counter": True, "subject_delete_marker_ttl": S}),
]  # fmt: skip
_CHANGED_CONSUMERS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    *(({}, {name: -2}) for name in ("max_deliver", "max_waiting", "max_ack_pending", "max_batch", "max_expires",
                                    "max_bytes", "idle_heartbeat", "inactive_threshold", "priority_timeout")),
    ({}, {"max_ack_pending": -2, "max_waiting": -2}),
    *(({}, {"ack_policy": "explicit", "backoff": [S, 2 * S]} | more) for more in ({}, {"ack_wait": S})),
    *(({}, {"ack_policy": "flow_control", "deliver_subject": "d"} | more)
      for more in ({}, {"flow_control": True, "idle_heartbeat": S, "max_ack_pending": 5, "inactive_threshold": 2 * S})),
    ({}, {"priority_policy": "pinned_client", "priority_groups": ["a"]}),
    ({}, {"sample_freq": "-1"}),
    ({"durable_name": "d"}, {}),
    ({}, {"durable_name": "d"}),
    ({"durable_name": "d"}, {"durable_name": "d", "priority_timeout": -5}),
]  # fmt: skip


def _pedantic_steps() -> list[Step]:
    """Every such value as a wish and as a change, from a client that is helped and from one that is pedantic."""
    steps = [stream("OD", subjects=["od"], allow_direct=True)]
    for number, (before, wanted) in enumerate(_CHANGED_STREAMS):
        for mode in ({}, {"pedantic": True}):
            new, old = f"SN{number}{len(mode)}", f"SO{number}{len(mode)}"
            steps += [] if before else [stream(new, **wanted, **mode), ask(f"STREAM.DELETE.{new}")]
            steps += [stream(old, **before), update(old, **wanted, **mode), ask(f"STREAM.DELETE.{old}")]
    limits = {"max_ack_pending": 5, "inactive_threshold": 2 * S}
    steps += [stream("P0"), stream("P1", consumer_limits=limits)]
    for there in ("P0", "P1"):
        for number, (before, wanted) in enumerate(_CHANGED_CONSUMERS):
            for mode in ({}, {"pedantic": True}):
                name = f"CONSUMER.CREATE.{there}.c{number}{len(mode)}"
                request = {"stream_name": there, "config": _named(wanted, name)} | mode
                if before:
                    steps.append(ask(name, {"stream_name": there, "config": _named(before, name)}))
                    steps.append(ask(name, request | {"action": "create"}))
                steps.append(ask(name, request))
    return steps


def _named(config: dict[str, Any], subject: str) -> dict[str, Any]:
    """A durable name has to be the one of the request's subject."""
    return config | ({"durable_name": subject.split(".")[-1]} if "durable_name" in config else {})


CONVERSATIONS = {
    "pedantic": _pedantic_steps(),
    "json": JSON_STEPS,
    "streams": STREAM_STEPS,
    "sources": SOURCE_STEPS,
    "messages": MESSAGE_STEPS,
    "consumers": CONSUMER_STEPS,
    "nameless": NAMELESS_STEPS,
    "sourcing": SOURCING_STEPS,
}
