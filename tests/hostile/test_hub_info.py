"""A hub whose INFO is wrong: the box's log says which field and whose, and the box links when it is right.

Not here: other servers that a hub tells of (test_hub_gossip.py), every value of every field (test_draw.py).
"""

from __future__ import annotations

import contextlib

import pytest

from tests.hostile.test_hub_gossip import INFO, played
from tests.interop.test_hub_servers import hub_of
from tests.rig.waiting import eventually

WRONG: list[tuple[str, object, str]] = [
    ("max_payload", 1 << 63, "cannot unmarshal number 9223372036854775808"),
    ("jetstream", "yes", "cannot unmarshal string"),
    ("domain", ["a"], "cannot unmarshal array"),
    ("leafnode_urls", "10.0.0.1:7422", "cannot unmarshal string"),
    ("client_id", -1, "cannot unmarshal number -1"),
]


@pytest.mark.parametrize(("field", "value", "words"), WRONG, ids=[field for field, _, _ in WRONG])
def test_what_is_wrong_with_the_info_is_said(field: str, value: object, words: str) -> None:
    with played() as (liar, box):
        connection, _ = liar.listener.accept()
        with connection:
            liar.say(connection, INFO | {field: value})
            connection.settimeout(10)
            with contextlib.suppress(ConnectionError):
                assert connection.recv(1000) == b"", "the link is ended, and nothing of a login is said"

        def told() -> bool:
            return any(
                words in line and field in line and "the hub's \"INFO cannot be read" in line and str(liar.port) in line
                for line in box.log.splitlines()
            )

        eventually(told, lambda: box.log[-3000:])
        liar.link([])
        eventually(lambda: hub_of(box)["connected"], lambda: box.log[-3000:])
