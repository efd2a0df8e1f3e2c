"""Names that are not UTF-8: refused where the reference takes several that it then shows alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.rig.raw import RawClient
from tests.servers import KINDS, LEAFD, REFERENCE, Server, running

CONFIGURATION = """
listen: 127.0.0.1:{port}
server_name: n
jetstream { store_dir: {store}, max_file_store: 64MB, max_memory_store: 16MB }
"""
NO_TEXT = [b"a\xff", b"a\xfe", b"a\xc3", b"a\xed\xa0\x80"]
TEXT = ["é".encode(), b"a?", b"a\x7f", "a\u202eb".encode(), "a\ufffd".encode()]
STREAM = ("STREAM.CREATE.S", b'{"name":"S","subjects":["s"]}')


def ask(server: Server, requests: list[tuple[bytes, bytes]]) -> Iterator[Any]:
    """One answer a request: the description of the error, or of what was made what names it."""
    with RawClient(server) as client:
        client.say("SUB _I.1 answers")
        for subject, body in requests:
            client.send(b"PUB $JS.API.%s _I.1 %d\r\n%s\r\n" % (subject, len(body), body))
            answer = client.message().document
            if "error" in answer:
                yield answer["error"]["err_code"], answer["error"]["description"]
            else:
                config = answer.get("config", {})
                names = [config.get(key) for key in ("name", "durable_name", "deliver_group", "subjects")]
                yield answer.get("name"), answer.get("streams"), answer.get("consumers"), names


def conversation(name: bytes) -> list[tuple[bytes, bytes]]:
    """That name in every place that takes one, but a consumer's subject."""
    consumer = b'{"stream_name":"S","config":{%s"ack_policy":"explicit"}}'
    push = b'"name":"g","deliver_subject":"d","deliver_group":"%s",' % name
    return [
        (b"STREAM.CREATE." + name, b'{"name":"%s","subjects":["x.%s"]}' % (name, name)),
        (b"STREAM.INFO." + name, b""),
        (b"CONSUMER.DURABLE.CREATE.S." + name, consumer % (b'"durable_name":"%s",' % name)),
        (b"CONSUMER.CREATE.S.g", consumer % push),
        (b"STREAM.NAMES", b""),
        (b"STREAM.DELETE." + name, b""),
    ]


def test_names_as_the_reference_takes_them() -> None:
    """Bytes that are no UTF-8 name no stream, durable consumer or group that the reference would not have made, and
    text of any kind is a name; what was wrong with a request is said in its words."""
    told: dict[str, Any] = {}
    for kind in KINDS:
        with running(kind, CONFIGURATION) as server:
            requests = [(STREAM[0].encode(), STREAM[1])]
            for name in (*NO_TEXT, *TEXT, b"a\x01b", b"a\x00b"):
                requests += conversation(name)
            for name in TEXT:
                body = b'{"stream_name":"S","config":{"ack_policy":"explicit"}}'
                requests += [(b"CONSUMER.CREATE.S." + name, body), (b"CONSUMER.INFO.S." + name, b"")]
            told[kind] = list(zip(requests, ask(server, requests), strict=True))

    assert told[REFERENCE] == told[LEAFD]


@pytest.mark.parametrize("name", NO_TEXT)
def test_a_consumer_whose_name_is_no_text_is_refused(name: bytes) -> None:
    """The reference makes each of them and shows all alike; one name would hide the other at the next start here."""
    body = b'{"stream_name":"S","config":{"ack_policy":"explicit"}}'
    with running(LEAFD, CONFIGURATION) as server:
        requests = [(STREAM[0].encode(), STREAM[1]), (b"CONSUMER.CREATE.S." + name, body), (b"CONSUMER.NAMES.S", b"")]
        _, refused, names = ask(server, requests)

    assert (10052, "consumer name can not contain '.', '*', '>', '\\', '/'") == refused
    assert [] == names[2]
