"""The protocol trace shows lines, and no secrets."""

from __future__ import annotations

import pytest
from leafd.daemon.log import traced
from leafd.native_types import Trace


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("PUB foo 5", "cid:7 - <<- [PUB foo 5]"),
        (
            'CONNECT {"user":"a","pass":"s3cret","echo":true}',
            'cid:7 - <<- [CONNECT {"user":"a","pass":"[REDACTED]","echo":true}]',
        ),
        ('CONNECT {"auth_token": "a\\"b","echo":1}', 'cid:7 - <<- [CONNECT {"auth_token": "[REDACTED]","echo":1}]'),
        ('CONNECT {"jwt":"eyJ0', 'cid:7 - <<- [CONNECT {"jwt":"[REDACTED]"]'),
        ('CONNECT {"pass":"s3cret\\', 'cid:7 - <<- [CONNECT {"pass":"[REDACTED]"]'),
        ('connect {"PASS":"s3cret"}', 'cid:7 - <<- [connect {"PASS":"[REDACTED]"}]'),
        ('CONNECT {"p\\u0061ss":"s3cret"}', 'cid:7 - <<- [CONNECT {"p\\u0061ss":"[REDACTED]"}]'),
        ('CONNECT {"pass":73184,"echo":true}', 'cid:7 - <<- [CONNECT {"pass":"[REDACTED]","echo":true}]'),
        ("CONNECT {'pass':'s3cret'}", "cid:7 - <<- [CONNECT {[REDACTED]]"),
        ('CONNECT {"user":"a" "pass":"s3cret"}', "cid:7 - <<- [CONNECT {[REDACTED]]"),
        ('CONNECT {"user":["s3cret"],"pass":"x"}', "cid:7 - <<- [CONNECT {[REDACTED]]"),
        ("CONNECT s3cret", "cid:7 - <<- [CONNECT [REDACTED]]"),
        ('CONNECT {"nkey":"UABC","sig":"x"}', 'cid:7 - <<- [CONNECT {"nkey":"UABC","sig":"[REDACTED]"}]'),
        ('CONNECT {"nkey":"SUABC"}', 'cid:7 - <<- [CONNECT {"nkey":"[REDACTED]"}]'),
        ("CONNECT {}", "cid:7 - <<- [CONNECT {}]"),
    ],
)
def test_a_traced_line_keeps_its_secrets(line: str, shown: str) -> None:
    """Passwords, tokens, JWTs and signatures are blotted out, also where the line was cut within one."""
    assert shown == traced(Trace(7, line))
