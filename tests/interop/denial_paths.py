"""Every way in which a user can bring about that a message gets to a subject, or hear what is said on one.

A path is a short play for the user (u), the owner (o) of the same account, who may do everything, and the owner of
another account (x). What is denied, to the user alone, is the path's target. Run without any denial the message gets
there: so no cell is empty for want of a working path. Not here: denials (denials.py), the stage.

    u   a client, a leaf that dials the server with the user's login, or a hub that the server dials for the account
    o   hears t.>, ok.>, r.> and what is named in `ears`; its API requests are waited for
    x   hears t.> in the other account, which exports t.x, t.s, t.st and its API, and imports ex.*
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STREAM_INFO = "$JS.API.STREAM.INFO.S"
DUE = "@at soon"
"""The stage puts the time in its place."""
PURGE = "$JS.API.STREAM.PURGE.S"
ACK = "$JS.ACK.S.C.1.1.1.1.0"
MAPPINGS = {
    "map.x": "t.x",
    "wild.*": "t.{{wildcard(1)}}",
    "map.api": STREAM_INFO,
    "map.in": "in.x",
    "map.ack": ACK,
    "map.svc": "svc.x",
}
IMPORTS: list[dict[str, Any]] = [  # of the cell's account
    {"service": {"account": "X", "subject": "t.x"}, "to": "svc.x"},
    {"service": {"account": "X", "subject": "t.s"}},
    {"stream": {"account": "X", "subject": "t.st"}, "prefix": "imp"},
    {"stream": {"account": "X", "subject": "t.as"}},
    {"service": {"account": "X", "subject": STREAM_INFO}, "to": "api.x"},
]
EXPORTS = [{"service": "ex.svc"}, {"stream": "ex.st"}]
OTHER_EXPORTS = [
    {"service": "t.x"},
    {"service": "t.s"},
    {"stream": "t.st"},
    {"stream": "t.as"},
    {"service": STREAM_INFO},
]
OTHER_IMPORTS: list[dict[str, Any]] = [
    {"service": {"account": "C", "subject": "ex.svc"}},
    {"stream": {"account": "C", "subject": "ex.st"}},
]


@dataclass(frozen=True)
class Step:
    """One thing that somebody does."""

    who: str
    verb: str
    subject: str = ""
    more: str = ""
    data: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Path:
    """The play, and which subject it leads to. imports: it needs the other account. settle_s: JetStream is
    in it, so that what comes of it comes that much later. looks: requests of the owner whose answers tell what has
    happened."""

    steps: tuple[Step, ...]
    target: str = "t.x"
    ears: tuple[str, ...] = ()
    imports: bool = False
    looks: tuple[str, ...] = ()
    settle_s: float = 0.0

    @property
    def stored(self) -> bool:
        """Whether JetStream is in it."""
        return self.settle_s > 0

    @property
    def mappings(self) -> dict[str, str]:
        """Those of MAPPINGS that it needs."""
        first = {one.subject.split(".")[0] for one in self.steps}
        return {source: target for source, target in MAPPINGS.items() if source.split(".")[0] in first}

    def subjects(self, verb: str) -> list[str]:
        """What the user publishes to, or subscribes to."""
        return list(dict.fromkeys(one.subject for one in self.steps if (one.who, one.verb) == ("u", verb)))


def pub(who: str, subject: str, reply: str = "", data: str = "p", **headers: str) -> Step:
    """A message; the headers are those of NATS: schedule_target is Nats-Schedule-Target."""
    named = {"Nats-" + name.replace("_", "-").title(): value for name, value in headers.items()}
    return Step(who, "pub", subject, reply, data, named)


def sub(who: str, subject: str, queue: str = "") -> Step:
    """A subscription."""
    return Step(who, "sub", subject, queue)


def ask(who: str, endpoint: str, **body: Any) -> Step:
    """An API request. The answer to the user's comes to the owner."""
    return Step(who, "ask" if who != "u" else "pub", f"$JS.API.{endpoint}", "r.u", json.dumps(body) if body else "")


def answer(who: str) -> Step:
    """To the reply of the last message that came."""
    return Step(who, "answer")


def wait(seconds: float) -> Step:
    """Time passes."""
    return Step("", "wait", data=str(seconds))


def stream(name: str = "S", subjects: tuple[str, ...] = ("in.>",), **more: Any) -> Step:
    """The owner's stream."""
    config = {"name": name, "storage": "memory", "allow_direct": True} | more
    return ask("o", f"STREAM.CREATE.{name}", **config, **({"subjects": subjects} if subjects else {}))


def consumer(who: str = "o", of: str = "S", **more: Any) -> Step:
    """A durable consumer C."""
    config = {"durable_name": "C", "ack_policy": "explicit"} | more
    return ask(who, f"CONSUMER.DURABLE.CREATE.{of}.C", stream_name=of, config=config)


def scheduled(subject: str, **more: str) -> Step:
    """A message that is due in a second."""
    return pub("u", subject, schedule=DUE, **more)


def until(who: str, subject: str) -> Step:
    """Until something has come there, or the user was told that it may not."""
    return Step(who, "until", subject)


STATE = ("STREAM.INFO.S",)
HOLD = ("STREAM.INFO.S", "CONSUMER.INFO.S.C")
IN = Step("o", "ask", "in.x", data="p")
"""Stored, and acknowledged."""
HEARD = sub("o", "ok.d")
"""A consumer delivers where somebody listens to the very subject."""
ELSEWHERE = {"src": "in.>", "dest": "t.>"}
REQUEST = pub("o", "ok.ask", "t.x")
LAST_T = ("STREAM.MSG.GET.S",)

CORE = {
    "publish": Path((pub("u", "t.x"),)),
    "publish with headers": Path((pub("u", "t.x", expected_stream="S"),)),
    "mapping": Path((pub("u", "map.x"),)),
    "mapping, wildcard": Path((pub("u", "wild.x"),)),
    "mapping, named": Path((pub("u", "map.x"),), target="map.x"),
    "reply of a request": Path((pub("u", "ok.ask", "t.x"), answer("o"))),
    "answer": Path((sub("u", "ok.ask"), REQUEST, pub("u", "t.x"))),
    "answer of a group": Path((sub("u", "ok.ask", "grp"), REQUEST, pub("u", "t.x"))),
    "three answers": Path((sub("u", "ok.ask"), REQUEST, pub("u", "t.x"), pub("u", "t.x"), pub("u", "t.x"))),
    "answer too late": Path((sub("u", "ok.ask"), REQUEST, wait(1.6), pub("u", "t.x"))),
    "answer mapped": Path((sub("u", "ok.ask"), REQUEST, pub("u", "map.x"))),
    "reply _R_": Path((pub("u", "ok.ask", "_R_.abcdef.ghijkl"),), target="_R_.abcdef.ghijkl"),
    "reply _GR_": Path((pub("u", "ok.ask", "_GR_.abcdef.ghijkl"),), target="_GR_.abcdef.ghijkl"),
    "reply $JS.ACK": Path((pub("u", "ok.ask", ACK),), target=ACK),
    "publish _R_": Path((pub("u", "_R_.abcdef.x"),), target="_R_.abcdef.x", ears=("_R_.>",)),
    "publish $GR": Path((pub("u", "$GR.a.x"),), target="$GR.a.x", ears=("$GR.>",)),
    "publish $SYS": Path((pub("u", "$SYS.a.x"),), target="$SYS.a.x", ears=("$SYS.a.>",)),
    "publish _INBOX": Path((pub("u", "_INBOX.a.x"),), target="_INBOX.a.x", ears=("_INBOX.>",)),
    "subscribe": Path((sub("u", "t.x"), pub("o", "t.x"))),
    "subscribe, group": Path((sub("u", "t.x", "grp"), pub("o", "t.x"))),
    "subscribe, other group": Path((sub("u", "t.x", "other"), pub("o", "t.x"))),
    "subscribe to more": Path((sub("u", "t.>"), pub("o", "t.x"), pub("o", "t.y"))),
    "subscribe to a star": Path((sub("u", "*.x"), pub("o", "t.x"), pub("o", "ok.x"))),
    "subscribe to everything": Path((sub("u", ">"), pub("o", "t.x"), pub("o", "ok.x"))),
    "subscribe to more, group": Path((sub("u", "t.>", "grp"), pub("o", "t.x"), pub("o", "t.y"))),
    "subscribe to more, other group": Path((sub("u", "t.>", "other"), pub("o", "t.x"), pub("o", "t.y"))),
    "subscribe behind a mapping": Path((sub("u", "t.x"), pub("o", "map.x"))),
    "subscribe before a mapping": Path((sub("u", "map.x"), pub("o", "map.x")), target="map.x"),
    "subscribe to inboxes": Path((sub("u", "_INBOX.>"), pub("o", "_INBOX.a.x")), target="_INBOX.a.x"),
    "subscribe $SYS": Path((sub("u", "$SYS.>"), pub("o", "$SYS.a.x")), target="$SYS.a.x"),
    "trace": Path((pub("u", "ok.y", trace_dest="t.x"),)),
    "trace only": Path((pub("u", "ok.y", trace_dest="t.x", trace_only="true"),)),
    "trace listened to": Path((sub("u", "t.x"), pub("o", "ok.y", trace_dest="t.x"))),
}
ACCOUNTS = {
    "service": Path((pub("u", "svc.x"),), target="svc.x", imports=True),
    "service, exported name": Path((pub("u", "svc.x"),), imports=True),
    "service, same name": Path((pub("u", "t.s"),), target="t.s", imports=True),
    "service mapped": Path((pub("u", "map.svc"),), target="svc.x", imports=True),
    "reply of a service": Path((pub("u", "svc.x", "t.r"), answer("x")), target="t.r", imports=True),
    "replies of services": Path(
        (sub("u", "_R_.>"), pub("o", "svc.x", "r.r"), answer("x")), target="_R_.>", imports=True
    ),
    "stream": Path((sub("u", "imp.t.st"), pub("x", "t.st")), target="imp.t.st", imports=True),
    "stream, exported name": Path((sub("u", "imp.t.st"), pub("x", "t.st")), target="t.st", imports=True),
    "stream, same name": Path((sub("u", "t.as"), pub("x", "t.as")), target="t.as", imports=True),
    "stream, group": Path((sub("u", "t.as", "grp"), pub("x", "t.as")), target="t.as", imports=True),
    "stream, more": Path((sub("u", "imp.>"), pub("x", "t.st")), target="imp.t.st", imports=True),
    "stream, everything": Path((sub("u", ">"), pub("x", "t.st")), target="imp.t.st", imports=True),
    "export of a service": Path(
        (sub("u", "ex.svc"), pub("x", "ex.svc", "t.r"), answer("u")), target="ex.svc", imports=True
    ),
    "export of a service, group": Path(
        (sub("u", "ex.svc", "grp"), pub("x", "ex.svc", "t.r"), answer("u")), target="ex.svc", imports=True
    ),
    "export of a stream": Path((sub("x", "ex.st"), pub("u", "ex.st")), target="ex.st", imports=True),
    "API of others": Path((ask("x", "STREAM.CREATE.S", name="S", storage="memory"), pub("u", "api.x", "r.u")),
                          target="api.x", imports=True, settle_s=0.5),
}  # fmt: skip
API = {
    "API": Path((stream(), ask("u", "STREAM.INFO.S")), target=STREAM_INFO),
    "API by domain": Path((stream(), pub("u", "$JS.one.API.STREAM.INFO.S", "r.u", "")), target=STREAM_INFO),
    "API by domain, named": Path(
        (stream(), pub("u", "$JS.one.API.STREAM.INFO.S", "r.u", "")), target="$JS.one.API.STREAM.INFO.S"
    ),
    "API, domain named": Path((stream(), ask("u", "STREAM.INFO.S")), target="$JS.one.API.STREAM.INFO.S"),
    "API mapped": Path((stream(), pub("u", "map.api", "r.u", "")), target=STREAM_INFO),
    "API answers": Path((stream(), pub("u", "$JS.API.INFO", "t.x", ""))),
    "API answers the API": Path((stream(), IN, pub("u", "$JS.API.INFO", PURGE, "")), target=PURGE, looks=STATE),
    "API traced": Path((stream(), IN, pub("u", "ok.y", trace_dest=PURGE)), target=PURGE, looks=STATE),
    "API as deliver subject": Path((stream(), IN, consumer("u", deliver_subject=PURGE)), target=PURGE, looks=STATE),
    "API as republish": Path(
        (ask("u", "STREAM.CREATE.S", name="S", subjects=["in.>"], storage="memory",
             republish={"src": "in.>", "dest": PURGE}), until("o", "r.u"), pub("o", "in.x")), target=PURGE, looks=STATE,
    ),
    "read": Path((stream(), IN, ask("u", "STREAM.MSG.GET.S", seq=1)), target="in.x"),
    "direct get": Path((stream(), IN, ask("u", "DIRECT.GET.S", seq=1)), target="$JS.API.DIRECT.GET.S"),
    "direct get of a subject": Path((stream(), IN, ask("u", "DIRECT.GET.S.in.x")), target="$JS.API.DIRECT.GET.S.in.x"),
    "direct get, reply": Path((stream(), IN, pub("u", "$JS.API.DIRECT.GET.S", "t.x", '{"seq":1}'))),
    "pull": Path((stream(), IN, consumer(), ask("u", "CONSUMER.MSG.NEXT.S.C")), target="$JS.API.CONSUMER.MSG.NEXT.S.C"),
    "pull, reply": Path((stream(), IN, consumer(), pub("u", "$JS.API.CONSUMER.MSG.NEXT.S.C", "t.x", ""))),
    "advisories": Path((sub("u", "$JS.EVENT.ADVISORY.API"), stream()), target="$JS.EVENT.ADVISORY.API"),
    "$SYS user": Path((pub("u", "$SYS.REQ.USER.INFO", "t.x", ""),), target="$SYS.REQ.USER.INFO"),
    "$SYS user, reply": Path((pub("u", "$SYS.REQ.USER.INFO", "t.x", ""),)),
    "$SYS account": Path((pub("u", "$SYS.REQ.ACCOUNT.PING.STATZ", "t.x", ""),), target="$SYS.REQ.ACCOUNT.PING.STATZ"),
    "$SYS server": Path((pub("u", "$SYS.REQ.SERVER.PING.VARZ", "t.x", ""),), target="$SYS.REQ.SERVER.PING.VARZ"),
}  # fmt: skip
T_STREAM = stream(subjects=("in.>", "t.>", "sch.>"), allow_msg_schedules=True)
MIRRORED = {"name": "S", "subject_transforms": [ELSEWHERE]}
PUSHED = consumer(deliver_subject="ok.d")
DELIVERED = (stream(), IN, HEARD, PUSHED, wait(0.2))
BUCKET = stream("KV_B", ("$KV.B.>",))
STORED = {
    "store": Path((stream(), pub("u", "in.x", "r.u")), target="in.x", looks=STATE),
    "store, mapped": Path((stream(), pub("u", "map.in", "r.u")), target="in.x", looks=STATE),
    "store, reply": Path((stream(), pub("u", "in.x", "t.x")), looks=STATE),
    "key": Path((BUCKET, pub("u", "$KV.B.k", "r.u")), target="$KV.B.k", looks=("STREAM.INFO.KV_B",)),
    "key by domain": Path(
        (BUCKET, pub("u", "$JS.one.API.$KV.B.k", "r.u")), target="$KV.B.k", looks=("STREAM.INFO.KV_B",)
    ),
    "key listened to": Path((BUCKET, sub("u", "$KV.B.>"), pub("o", "$KV.B.k")), target="$KV.B.k"),
    "object": Path((stream("OBJ_B", ("$O.B.>",)), pub("u", "$O.B.M.k", "r.u")), target="$O.B.M.k",
                   looks=("STREAM.INFO.OBJ_B",)),
    "republish": Path((stream(republish=ELSEWHERE), pub("u", "in.x")), looks=STATE),
    "republish listened to": Path((stream(republish=ELSEWHERE), sub("u", "t.x"), IN)),
    "republish asked for": Path(
        (ask("u", "STREAM.CREATE.S", name="S", subjects=["in.>"], storage="memory",
             republish=ELSEWHERE), until("o", "r.u"), pub("o", "in.x"))
    ),
    "deliver subject": Path((stream(), IN, sub("o", "t.x"), consumer("u", deliver_subject="t.x"))),
    "deliver subject listened to": Path((stream(), sub("u", "t.x"), consumer(deliver_subject="t.x"), IN)),
    "deliver group": Path((stream(), sub("u", "t.x", "grp"), consumer(deliver_subject="t.x", deliver_group="grp"), IN)),
    "delivered from": Path((stream(), sub("u", "ok.d"), consumer(deliver_subject="ok.d"), IN), target="in.x"),
    "transform": Path((stream(subject_transform=ELSEWHERE), sub("u", "ok.d"),
                       consumer(deliver_subject="ok.d"), pub("u", "in.x"))),
    "transform, everything": Path((stream(subject_transform=ELSEWHERE), sub("u", ">"),
                                   HEARD, PUSHED, IN)),
    "delivered to everything": Path((stream(), sub("u", ">"), HEARD, PUSHED, IN), target="in.x"),
    "delivered as denied": Path((stream(), sub("u", ">"), HEARD, PUSHED, IN), target="ok.d"),
    "mirror": Path(
        (stream(), stream("M", (), mirror=MIRRORED), sub("u", "ok.d"), consumer(of="M", deliver_subject="ok.d"),
         pub("u", "in.x")), settle_s=1.5,
    ),
    "source": Path((stream(), stream("M", (), sources=[{"name": "S"}], republish=ELSEWHERE), pub("u", "in.x")),
                   settle_s=1.5),
    "acknowledgement": Path((*DELIVERED, pub("u", ACK, "", "+ACK")),
                            target=ACK, looks=HOLD),
    "acknowledgement mapped": Path((*DELIVERED, pub("u", "map.ack", "", "+ACK")),
                                   target=ACK, looks=HOLD),
    "acknowledgement, reply": Path((*DELIVERED, pub("u", ACK, "t.x", "+ACK")),
                                   looks=HOLD),
    "acknowledgement, next": Path(
        (stream(), IN, pub("o", "in.y"), consumer(), pub("o", "$JS.API.CONSUMER.MSG.NEXT.S.C", "ok.d", ""),
         pub("u", ACK, "t.x", "+NXT")), looks=HOLD,
    ),
    "schedule": Path((T_STREAM, scheduled("sch.x", schedule_target="t.x")), looks=STATE, settle_s=2.5),
    "schedule, source": Path(
        (T_STREAM, pub("o", "t.x"), scheduled("sch.x", schedule_target="in.x", schedule_source="t.x")),
        looks=STATE, settle_s=2.5,
    ),
}  # fmt: skip
PATHS = CORE | ACCOUNTS | API | STORED
for _table in (API, STORED):
    for _name, _path in _table.items():
        if not _path.settle_s:
            PATHS[_name] = Path(_path.steps, _path.target, _path.ears, _path.imports, _path.looks, 0.4)
