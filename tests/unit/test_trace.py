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
        ('CONNECT {"auth_token": "a\\"b","x":1}', 'cid:7 - <<- [CONNECT {"auth_token": "[REDACTED]","x":1}]'),
        ('CONNECT {"jwt":"eyJ0', 'cid:7 - <<- [CONNECT {"jwt":"[REDACTED]"]'),
    ],
)
def test_a_traced_line_keeps_its_secrets(line: str, shown: str) -> None:
    """Passwords, tokens, JWTs and signatures are blotted out, also where the line was cut within one."""
    assert shown == traced(Trace(7, line))
