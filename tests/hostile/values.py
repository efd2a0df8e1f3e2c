"""Values that nobody sends who means well, as raw JSON, as text for headers, subjects and URLs, and as protocol lines.

Not here: where they are sent (fields.py).
"""

from __future__ import annotations

import random
from typing import Final

_TIMES: Final = (
    b'"2300-01-01T00:00:00Z"',
    b'"1600-01-01T00:00:00Z"',
    b'"0000-00-00T00:00:00Z"',
    b'"0001-01-01T00:00:00+23:59"',
    b'"9999-12-31T23:59:59.999999999-23:59"',
    b'"2026-13-01T00:00:00Z"',
    b'"2026-01-01T00:00:00+99:99"',
    b'"2026-01-01T00:00:00.' + b"9" * 5000 + b'Z"',
    '"٢٠٢٦-01-01T00:00:00Z"'.encode(),
)
_NUMBERS: Final = (
    b"-1",
    b"-0",
    b"1.5",
    b"1e3",
    b"1e400",
    b"-1e400",
    b"1E-400",
    b"2147483648",
    b"4294967296",
    b"-2147483649",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775809",
    b"18446744073709551615",
    b"18446744073709551616",
    b"9" * 5000,
    b"-" + b"9" * 5000,
    b"0." + b"1" * 5000,
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"01",
    b"+1",
    b"0x10",
    b"1_0",
)
_TEXTS: Final = (
    b'""',
    b'"x"',
    b'" "',
    b'"a b"',
    b'"a..b"',
    b'"."',
    b'".a"',
    b'"a."',
    b'">"',
    b'"*"',
    b'"a.*.>"',
    b'"a.>.b"',
    b'"\\u0000"',
    b'"\\ud800"',
    b'"\\udc80x"',
    b'"\\udfff\\ud800"',
    b'"\xff\xfe"',
    b'"\x00"',
    b'"a\nb"',
    b'"\\r\\nPUB x 1\\r\\n"',
    b'"$JS.API.>"',
    b'"$JS.API.STREAM.DELETE.KEEP"',
    b'"$SYS.>"',
    b'"_INBOX.>"',
    b'"../../x"',
    b'"a/b"',
    b'"{{wildcard(' + b"9" * 3000 + b')}}"',
    b'"{{partition(0,1)}}"',
    b'"{{split(1,x y)}}"',
    b'"$' + b"9" * 3000 + b'"',
    b'"' + b"{{wildcard(" * 300 + b'"',
    b'"' + b"a." * 1000 + b'a"',
    b'"' + b"x" * 300 + b'"',
    b'"' + b"y" * 100_000 + b'"',
    b'"' + b"\\ud83d\\ude00" * 500 + b'"',
    b'"all"',
    b'"explicit"',
    b'"by_start_time"',
    b'"workqueue"',
    b'"memory"',
    b'"' + b"9" * 5000 + b'%"',
)
_SHAPES: Final = (
    b"null",
    b"true",
    b"false",
    b"[]",
    b"{}",
    b"[null]",
    b'{"":null}',
    b"[[]]",
    b'{"a":{"a":{"a":1}}}',
    b"[1,2,3]",
    b"7",
    b"[" * 90 + b"]" * 90,
    b"[" * 101 + b"]" * 101,
    b"[" * 600 + b"]" * 600,
    b"[" * 30_000,
    b'{"a":' * 600 + b"1" + b"}" * 600,
    b'{"a":' * 5000,
    b"[" + b"null," * 500 + b"null]",
    b'["' + b'x","' * 500 + b'x"]',
    b'{"a":1,"a":2,"A":3}',
    b'"',
    b"{",
    b"[",
    b'{"a"',
    b"tru",
    b"\\",
    b"'x'",
    b"",
    b"1 2",
    b"{} {}",
    b"[\xff]",
)
JSON: Final = (*_TIMES, *_NUMBERS, *_TEXTS, *_SHAPES)

TEXTS: Final = (
    b"",
    b" ",
    b"x",
    b"-1",
    b"0",
    b"1.5",
    b"1e400",
    b"NaN",
    b"9" * 19,
    b"9" * 20,
    b"9" * 6000,
    b"-" + b"9" * 6000,
    b"+5",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\x00",
    b"\x7f",
    "٣".encode(),
    "é".encode(),
    b"a b",
    b"a..b",
    b">",
    b"*",
    b"x" * 3000,
    b"true",
    b"null",
    b"2300-01-01T00:00:00Z",
    b"1h",
    b"9" * 30 + b"s",
    b"-1ns",
    b"@at 9999-12-31T23:59:59Z",
    b"@every 1ns",
    b"* * * * * *",
    b"{{wildcard(1)}}",
    b"[" * 1000,
    b"%",
    b"%00",
    b"%ff",
    b"%zz",
    b"//[",
    b"[::1",
    b"..",
    b"&=&",
    b"all",
    b"sub",
)

_CLIENT_LINES: Final = (
    b"PING",
    b"PONG",
    b"INFO {}",
    b"+OK",
    b"-ERR 'x'",
    b"CONNECT {}",
    b"SUB a 1",
    b"SUB a q 1",
    b"SUB  a\t1 ",
    b"UNSUB 1",
    b"UNSUB 1 5",
    b"PUB a 2\r\nhi",
    b"PUB a r 2\r\nhi",
    b"HPUB a 12 14\r\nNATS/1.0\r\n\r\nhi",
    b"HPUB keep.x in.1 30 30\r\nNATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n\r\n",
    b"MSG a 1 2\r\nhi",
    b"SUB $JS.API.> 9",
    b"PUB $JS.API.INFO in.1 0\r\n",
)
_LEAF_LINES: Final = (
    b"PING",
    b"PONG",
    b"LS+ a",
    b"LS+ a q 1",
    b"LS+ a q 999999999",
    b"LS+ a q 99999999999999999999",
    b"LS- a",
    b"LS- a q",
    b"LS+ $LDS.x",
    b"LS+ >",
    b"LMSG a 2\r\nhi",
    b"LMSG a r 2\r\nhi",
    b"LMSG a + r q 2\r\nhi",
    b"LMSG a | q q2 2\r\nhi",
    b"HMSG a 12 14\r\nNATS/1.0\r\n\r\nhi",
    b"LMSG $JS.edge.API.INFO r 0\r\n",
    b'INFO {"connect_info":true}',
    b"-ERR 'x'",
    b"+OK",
    b"CONNECT {}",
    b"LMSG keep.x 1\r\nz",
)
_CUTS: Final = (b"\r\n", b"\n", b"\r", b"", b"\x00", b" \r\n", b"\r\n\r\n")


def line(rng: random.Random, *, leaf: bool) -> bytes:
    """Some protocol lines, most of them with a few bytes changed, doubled, dropped or cut."""
    out = bytearray()
    for _ in range(rng.randint(1, 6)):
        one = bytearray(rng.choice(_LEAF_LINES if leaf else _CLIENT_LINES))
        for _ in range(rng.choice((0, 0, 1, 1, 2, 5))):
            at = rng.randrange(len(one) + 1)
            change = rng.randrange(5)
            if change == 0:
                one[at:at] = rng.choice(TEXTS)[:4000]
            elif change == 1:
                one[at : at + 1] = bytes([rng.randrange(256)])
            elif change == 2:
                del one[at : at + rng.randint(1, 8)]
            elif change == 3:
                one[at:at] = bytes([rng.randrange(256)]) * rng.choice((1, 2, 9, 70, 5000))
            else:
                one[at:at] = one[: rng.randint(1, 40)]
        out += one + rng.choice(_CUTS[:1] * 6 + _CUTS)
    return bytes(out)
