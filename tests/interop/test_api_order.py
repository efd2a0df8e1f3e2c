"""What is looked at first: each API subject, of what is there and what is not, with each kind of wrong body, on both
servers, from an account with JetStream, one without, and the system account.

Who asks for what is wrong twice is told one of the faults, and which one follows from the order of checks. Answers are
compared with their texts; of those that say yes only the kind. Not here: the answers to requests that
are right (test_api_parity.py).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Iterator

import pytest

from tests.rig.raw import RawClient
from tests.servers import LEAFD, REFERENCE, Server, running

CONFIGURATION = """
listen: 127.0.0.1:{port}
server_name: order
jetstream { store_dir: "{store}", max_mem: 64M, max_file: 1G, domain: edge }
accounts {
  A: { jetstream: enabled, users: [ { user: with, password: p } ] }
  B: { users: [ { user: without, password: p } ] }
  SYS: { users: [ { user: system, password: p } ] }
}
system_account: SYS
"""

SUBJECTS = (
    "INFO",
    "STREAM.CREATE.{s}",
    "STREAM.UPDATE.{s}",
    "STREAM.NAMES",
    "STREAM.LIST",
    "STREAM.INFO.{s}",
    "STREAM.DELETE.{s}",
    "STREAM.PURGE.{s}",
    "STREAM.SNAPSHOT.{s}",
    "STREAM.RESTORE.{s}",
    "STREAM.MSG.DELETE.{s}",
    "STREAM.MSG.GET.{s}",
    "STREAM.PEER.REMOVE.{s}",
    "STREAM.LEADER.STEPDOWN.{s}",
    "STREAM.TEMPLATE.NAMES",
    "STREAM.TEMPLATE.INFO.T",
    "STREAM.TEMPLATE.DELETE.T",
    "DIRECT.GET.{s}",
    "CONSUMER.CREATE.{s}",
    "CONSUMER.CREATE.{s}.{c}",
    "CONSUMER.CREATE.{s}.{c}.f",
    "CONSUMER.DURABLE.CREATE.{s}.{c}",
    "CONSUMER.NAMES.{s}",
    "CONSUMER.LIST.{s}",
    "CONSUMER.INFO.{s}.{c}",
    "CONSUMER.DELETE.{s}.{c}",
    "CONSUMER.PAUSE.{s}.{c}",
    "CONSUMER.RESET.{s}.{c}",
    "CONSUMER.UNPIN.{s}.{c}",
    "CONSUMER.LEADER.STEPDOWN.{s}.{c}",
    "CONSUMER.MSG.NEXT.{s}.{c}",
    "META.LEADER.STEPDOWN",
    "SERVER.REMOVE",
    "ACCOUNT.PURGE.A",
    "ACCOUNT.STREAM.MOVE.A.{s}",
    "ACCOUNT.STREAM.CANCEL_MOVE.A.{s}",
    "NOTHING",
    "STREAM.INFO",
    "CONSUMER.INFO.{s}",
    "STREAM.INFO.{s}.x",
)
MEMBERS = (
    *("action", "batch", "chunk_size", "config", "deliver_subject", "filter", "group", "keep", "last_by_subj", "name"),
    *("offset", "pause_until", "peer", "placement", "seq", "server", "stream_name", "subject", "subjects_filter"),
)
VALUES: tuple[object, ...] = (1, "x", [], {}, 1.5)
WRONG_TYPES = tuple(json.dumps(dict.fromkeys(MEMBERS, value)) for value in VALUES)
BODIES = (
    *("", "{}", " ", " {} ", "{", "x", "null", "[]", "[1]", '"a"', "1", "true", '{"a":1}', '{"x":1', "{}x", "{} {}"),
    *WRONG_TYPES,
)
TOO_HIGH = b"NATS/1.0\r\nNats-Required-Api-Level: 99\r\n\r\n"
Request = tuple[str, bytes, str]
SILENCE_S = 0.5
ANSWER_S = 5.0

UNLIKE = ("STREAM.TEMPLATE.CREATE",)
"""Templates are differences of their own (differences.md)."""
UNLIKE_OF_SYSTEM = ("DIRECT.GET.", "CONSUMER.MSG.NEXT.")
"""The plane answers these, and knows no account that is the system's: 503 without a body, as in any other account."""


def requests(template: str) -> list[Request]:
    """Of one subject: what is there and what is not, with each body, and with a level that no server has."""
    streams, consumers = (
        (("NONE", "S") if "{s}" in template else ("",)),
        (("none", "c") if "{c}" in template else ("",)),
    )
    found = [
        ("$JS.API." + template.format(s=stream, c=consumer), header, body)
        for stream, consumer, header, body in itertools.product(streams, consumers, (b"", TOO_HIGH), BODIES)
        if not header or body in BODIES[:5]
    ]
    if template.startswith("STREAM.RESTORE"):  # two of one stream at a time are refused here, and are not there
        found = [(one[0].replace("NONE", f"NONE{number}"), *one[1:]) for number, one in enumerate(found)]
    return found


class Asker(RawClient):
    """A client that sends many requests and sorts what comes."""

    def __init__(self, server: Server, user: str) -> None:
        super().__init__(server, user, says={"no_responders": True, "pass": "p"})
        self._number = 0
        self.say("SUB _I.* answers")

    def answers(self, asked: list[Request], *, surely: bool) -> list[str]:
        """What is answered to each of them; surely: all of them are."""
        first = self._number
        for subject, header, body in asked:
            self.publish(subject, body, header, f"_I.{self._number}")
            self._number += 1
        found: dict[int, str] = {}
        deadline = time.monotonic() + (ANSWER_S if surely else SILENCE_S)
        with contextlib.suppress(TimeoutError):
            while len(found) < len(asked):
                message = self.message(max(0.01, deadline - time.monotonic()))
                number = int(message.subject.split(".")[1]) - first
                if number >= 0:
                    found[number] = found.get(number, "") + shown(message.header, message.payload)
        return [found.get(number, "silence") for number in range(len(asked))]


def shown(header: bytes, body: bytes) -> str:
    """An answer without what differs from run to run."""
    if not body:
        return header.split(b"\r\n")[0].decode()
    members = json.loads(body)
    if "error" not in members:
        return f"{members.get('type')} yes"
    return f"{members['type']} {json.dumps(members['error'])} {sorted(members)}"


MAKE: list[Request] = [
    ("$JS.API.STREAM.CREATE.S", b"", '{"name":"S","subjects":["s"],"allow_direct":true}'),
    ("$JS.API.CONSUMER.CREATE.S.c", b"", '{"stream_name":"S","config":{"durable_name":"c","ack_policy":"explicit"}}'),
]
CHANGING = ("DELETE", "CREATE", "UPDATE", "PURGE", "RESTORE", "RESET", "PAUSE")
ALONE = ("STREAM.DELETE", "CONSUMER.DELETE")
"""What takes away what the next request is asked of."""


def answers(server: Server, user: str, theirs: dict[Request, str] | None) -> dict[Request, str]:
    """To all requests; theirs: of the reference, whose silences tell where not to wait long."""
    found: dict[Request, str] = {}
    asker = Asker(server, user)
    try:
        for template in SUBJECTS:
            for together in groups(template):
                if user == "with" and any(word in template for word in CHANGING):
                    asker.answers(MAKE, surely=True)
                surely = theirs is not None and all(theirs[one] != "silence" for one in together)
                found |= dict(zip(together, asker.answers(together, surely=surely), strict=True))
    finally:
        asker.close()
    return found


def groups(template: str) -> Iterator[list[Request]]:
    """What may be asked at once."""
    asked = requests(template)
    if template.startswith(ALONE):
        yield from ([one] for one in asked)
    else:
        yield asked


@pytest.mark.parametrize("user", ["with", "without", "system"])
def test_what_is_wrong_twice_is_told_like_the_reference(user: str) -> None:
    """Of several faults of a request both servers name the same one, in the same words."""
    with running(REFERENCE, CONFIGURATION) as reference:
        theirs = answers(reference, user, None)
    with running(LEAFD, CONFIGURATION) as ours:
        real = answers(ours, user, theirs)
    unlike = UNLIKE_OF_SYSTEM if user == "system" else UNLIKE
    differences = [
        f"{one}\n    theirs {theirs[one]}\n    ours   {real[one]}"
        for one in theirs
        if theirs[one] != real[one] and not one[0].removeprefix("$JS.API.").startswith(unlike)
    ]
    assert [] == differences, "\n".join(differences)
