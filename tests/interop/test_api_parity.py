"""Every JetStream API reply against nats-server's: the same requests to both, equal after masking what cannot be.

The conversations (api_conversations.py) are lists of steps, each talked through with a server started empty; masked are
times, names that a server draws at random, and nothing else. Member order counts, since the reference's is fixed. What
is refused on purpose here (features that do not exist yet) is not in the table but in tests/unit/jetstream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.interop.api_conversations import CONVERSATIONS, Step
from tests.rig.raw import RawClient
from tests.servers import LEAFD, REFERENCE, running

CONFIGURATION = """
listen: 127.0.0.1:{port}
server_name: parity
jetstream {
    store_dir: "{store}", max_mem: 1G, max_file: 1G, domain: edge
    limits { max_request_batch: 200, duplicate_window: "1m" }
}
"""

QUIET_S = 0.4
ANSWER_S = 5.0


# ---- masks -----------------------------------------------------------------------------------------------------------

_TIME = re.compile(r'"\d{4}-\d\d-\d\dT[0-9:.]+Z"')
_UNMASKED_TIMES = re.compile(r'"(?:0001-01-01T00:00:00Z|2[01]20-[^"]*)"')
_DRAWN_NAME = re.compile(r'^( *(?:"name": )?")(JS_SRC_abc-)?[0-9A-Za-z]{8}(",?)$', re.MULTILINE)


def masked(reply: bytes | None) -> str:
    """The reply with times, drawn names, identities and remaining pauses made equal; member order stays."""
    if reply is None:
        return "no answer"
    members = json.loads(reply)
    # How far a mirror or source has come in asking its origin is a matter of milliseconds.
    for source in (members.get("mirror", {}), *members.get("sources", [])):
        source.pop("error", None)
    for told in (members, members.get("mirror", {}), *members.get("sources", [])):
        told.pop("leafd", None)  # what is told beside: packaging/doc/differences.md
    # The reference lists the sources of an info in the order of a Go map.
    members.get("sources", []).sort(key=json.dumps)
    text = json.dumps(members, indent=1, ensure_ascii=False)
    text = _TIME.sub(lambda found: found[0] if _UNMASKED_TIMES.fullmatch(found[0]) else '"TIME"', text)
    text = _DRAWN_NAME.sub(r"\1\2DRAWN\3", text)
    text = re.sub(r"does not match: [0-9A-Za-z]{8}", "does not match: DRAWN", text)
    # The reference lists them in the order of a Go map.
    text = re.sub(
        r"(violates consumers: )([^\"]*)", lambda found: found[1] + ", ".join(sorted(found[2].split(", "))), text
    )
    return re.sub(r'"(pause_remaining|active)": \d+', r'"\1": 0', text)


# ---- a client of a few lines -----------------------------------------------------------------------------------------


class Client(RawClient):
    """Shows what came without making anything of it."""

    def __init__(self, port: int) -> None:
        super().__init__(port, patience_s=ANSWER_S, says={"no_responders": True, "echo": True})

    def request(self, step: Step) -> tuple[bytes, bytes] | None:
        """Header block and body of the answer, or None when nobody answers."""
        subject = step.subject if step.publish else f"$JS.API.{step.subject}"
        lines = "".join(f"{k}: {v}\r\n" for k, v in step.header.items())
        header = f"NATS/1.0\r\n{lines}\r\n".encode() if lines else b""
        try:
            found = self.replied(subject, step.body, header=header, seconds=QUIET_S if step.silent else ANSWER_S)
        except TimeoutError:
            return None
        return found.header, found.payload


def talk(port: int, steps: list[Step]) -> Iterator[tuple[Step, str, bool]]:
    """Each request with its masked answer, and whether the answer had a header; publishes only happen."""
    client = Client(port)
    try:
        for step in steps:
            answer = client.request(step)
            if step.publish:
                assert answer is not None, f"{step}: {answer}"
                assert b'"error"' not in answer[1], f"{step}: {answer}"
                continue
            yield step, masked(answer[1] if answer else None), bool(answer and answer[0])
    finally:
        client.close()


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_answers_like_the_reference(name: str) -> None:
    """Every request of the conversation gets the reference's answer, member for member."""
    steps = CONVERSATIONS[name]
    with running(REFERENCE, CONFIGURATION) as reference:
        expected = list(talk(reference.port, steps))
    with running(LEAFD, CONFIGURATION) as ours:
        real = list(talk(ours.port, steps))
    differences = [
        f"--- {step}\nexpected {wanted} header={wanted_header}\nreal     {got} header={got_header}"
        for (step, wanted, wanted_header), (_, got, got_header) in zip(expected, real, strict=True)
        if (wanted, wanted_header) != (got, got_header)
    ]
    assert [] == differences, "\n".join(differences)
