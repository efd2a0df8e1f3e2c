"""The protocol trace shows lines, and no secrets."""

from __future__ import annotations

import pytest
from leafd.host.log import traced, traced_message
from leafd.native_types import Trace


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("PUB foo 5", "<<- [PUB foo 5]"),
        (
            'CONNECT {"user":"a","pass":"s3cret","echo":true}',
            '<<- [CONNECT {"user":"a","pass":"[REDACTED]","echo":true}]',
        ),
        ('CONNECT {"auth_token": "a\\"b","echo":1}', '<<- [CONNECT {"auth_token": "[REDACTED]","echo":1}]'),
        ('CONNECT {"jwt":"eyJ0', '<<- [CONNECT {"jwt":"[REDACTED]"]'),
        ('CONNECT {"pass":"s3cret\\', '<<- [CONNECT {"pass":"[REDACTED]"]'),
        ('connect {"PASS":"s3cret"}', '<<- [connect {"PASS":"[REDACTED]"}]'),
        ('CONNECT {"p\\u0061ss":"s3cret"}', '<<- [CONNECT {"p\\u0061ss":"[REDACTED]"}]'),
        ('CONNECT {"pass":73184,"echo":true}', '<<- [CONNECT {"pass":"[REDACTED]","echo":true}]'),
        ("CONNECT {'pass':'s3cret'}", "<<- [CONNECT {[REDACTED]]"),
        ('CONNECT {"user":"a" "pass":"s3cret"}', "<<- [CONNECT {[REDACTED]]"),
        ('CONNECT {"user":["s3cret"],"pass":"x"}', "<<- [CONNECT {[REDACTED]]"),
        ("CONNECT s3cret", "<<- [CONNECT [REDACTED]]"),
        ('CONNECT {"nkey":"UABC","sig":"x"}', '<<- [CONNECT {"nkey":"UABC","sig":"[REDACTED]"}]'),
        ('CONNECT {"nkey":"SUABC"}', '<<- [CONNECT {"nkey":"[REDACTED]"}]'),
        ("CONNECT {}", "<<- [CONNECT {}]"),
    ],
)
def test_a_traced_line_keeps_its_secrets(line: str, shown: str) -> None:
    """Passwords, tokens, JWTs and signatures are blotted out, also where the line was cut within one."""
    assert shown == traced(Trace(7, line))


HEADER = b"NATS/1.0\r\nA: b\r\n\r\n"


@pytest.mark.parametrize(("size_max", "headers_only", "event", "shown"), [
    (99, False, Trace(7, "", HEADER, b"x", 18, 1), r"NATS/1.0\r\nA: b\r\n\r\nx"),
    (99, True, Trace(7, "", HEADER, b"x", 18, 1), r"NATS/1.0\r\nA: b"),
    (10, False, Trace(7, "", b"", b"0123456789", 0, 10), "0123456789"),
    (10, False, Trace(7, "", b"", b"0123456789", 0, 11), "0123456789..."),
    (10, True, Trace(7, "", HEADER[:10], b"", 18, 5), r"NATS/1.0\r\n..."),
    (99, False, Trace(7, "", b"", b'"\\\xff\x00', 0, 4), r'\"\\\xff\x00'),
])  # fmt: skip
def test_a_traced_message_is_one_line(size_max: int, headers_only: bool, event: Trace, shown: str) -> None:
    """As nats-server quotes it, up to what is asked for."""
    assert f'<<- MSG_PAYLOAD: ["{shown}"]' == traced_message(event, size_max, headers_only=headers_only)


def test_of_a_message_without_headers_no_headers_are_shown() -> None:
    """With trace_headers it is no line of the log."""
    assert "" == traced_message(Trace(7, "", b"", b"x", 0, 1), 99, headers_only=True)
