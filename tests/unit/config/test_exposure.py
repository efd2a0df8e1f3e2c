"""Listeners that others reach and that ask nobody to log in: found in a configuration, wherever it says so.

Not here: who is let in (tests/unit/auth).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from leafd.config.bind import load_text
from leafd.config.exposure import open_listeners
from leafd.config.flags import Flags
from leafd.config.load import load

USER = "{ user: a, password: b }"
KEY = "UCDPTGKN2LVJI5NOVLRTFVEU2WHJHVLAZIYGXNPVRQMF4XVQZVEYWTYI"


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("", ["clients at 0.0.0.0:4222"]),
        ("port: 4223", ["clients at 0.0.0.0:4223"]),
        ("host: localhost", []),
        ("listen: 127.0.0.1:4222", []),
        ('listen: "[::1]:4222"', []),
        ("listen: 192.0.2.7:4222", ["clients at 192.0.2.7:4222"]),
        ("listen: 127.0.0.1:4222, leafnodes { port: 7422 }", ["leaf nodes at 0.0.0.0:7422"]),
        ("listen: 127.0.0.1:4222, leafnodes { listen: 127.0.0.1:7422 }", []),
        (f"leafnodes {{ port: 7422 }}, authorization {{ users: [ {USER} ] }}", []),
        ("leafnodes { port: 7422 }, authorization { token: s3cret }", []),
        (f"leafnodes {{ port: 7422 }}, accounts {{ A {{ users: [ {USER} ] }} }}", []),
        ("leafnodes { port: 7422 }, accounts { A { jetstream: enabled } }", ["clients at", "leaf nodes at"]),
        ("listen: 127.0.0.1:1, leafnodes { port: 2, authorization { user: a, password: b } }", []),
        (f"listen: 127.0.0.1:1, leafnodes {{ port: 2, authorization {{ nkey: {KEY} }} }}", []),
        ("listen: 127.0.0.1:1, leafnodes { port: 2 }, accounts { B {} }, enrol { account: B }", []),
        ("listen: 127.0.0.1:1, websocket { port: 443, no_tls: true }", ["WebSocket clients at 0.0.0.0:443"]),
        ("listen: 127.0.0.1:1, websocket { port: 2, no_tls: true, authorization { token: s } }", []),
        ("listen: 127.0.0.1:1, leafnodes { remotes: [ { url: nats-leaf://hub } ] }", []),
        ("listen: 127.0.0.1:1, cluster { port: 6222 }", ["servers of a cluster at 0.0.0.0:6222"]),
        (f"authorization {{ users: [ {USER} ] }}, cluster {{ port: 6222 }}", ["servers of a cluster at 0.0.0.0:6222"]),
        ("listen: 127.0.0.1:1, cluster { port: 6222, authorization { user: r, password: s } }", []),
        ("listen: 127.0.0.1:1, cluster { listen: 127.0.0.1:6222 }", []),
        ("listen: 127.0.0.1:1, cluster { name: C }", []),
    ],
)
def test_a_listener_that_takes_anybody_is_found_and_no_other(text: str, kinds: list[str]) -> None:
    """On loopback there are only this machine's programs; one user, token or enrolment is enough to be asked."""
    found = [one.text for one in open_listeners(load_text(text).server)]
    assert len(kinds) == len(found), found
    assert all(one.startswith(kind) for one, kind in zip(found, kinds, strict=True))


def test_the_warning_names_the_line(tmp_path: Path) -> None:
    """As every complaint about a configuration does."""
    file = tmp_path / "leafd.conf"
    file.write_text("listen: 127.0.0.1:4222\nleafnodes { port: 7422 }\n")
    (line,) = load(Flags(config=str(file))).warnings
    assert line.startswith(f"{file}:2")
    assert "ANYBODY IS LET IN: leaf nodes at 0.0.0.0:7422" in line
