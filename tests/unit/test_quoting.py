"""What comes from outside cannot write lines into the log, steer a terminal that shows it, or fill the disk with it."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest
from leafd.host import log as log_room
from leafd.host.log import Log
from leafd.quoting import LINE_MAX, VALUE_MAX, printable, quoted

HOSTILE = {
    "a second line": 'x\n[1] [INF] Server is ready\r\n"',
    "a terminal's escape": "\x1b[2J\x1b]0;owned\x07\x9b31m",
    "writing from the right": "user\u202e\u2066nimda\u2069\u200f",
    "lines of Unicode": "a\u2028b\u2029c\x85d\x0b\x0ce",
    "invisible": "ad\u200bmin\ufeff\u00ad\x00",
    "no UTF-8": b"\xff\xc0\x80\xed\xa0\x80".decode("utf-8", "surrogateescape"),
    "half a pair": "\ud800",
    "long": "a" * 100_000,
    "long and hostile": "\x1b" * 100_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_line_of_the_log_is_one_line_of_plain_text(text: str, tmp_path: Path) -> None:
    """Whatever is logged, by whichever level, is one bounded line of UTF-8 a call, without what does not print."""
    path = tmp_path / "log"
    log = Log(str(path), debug=True, trace=True)
    levels = (log.info, log.warning, log.error, log.fatal, log.debug, log.trace)
    for level in levels:
        level(f"before {text} behind")
    log.close()
    written = path.read_text(encoding="utf-8").removesuffix("\n")

    assert len(levels) == len(written.split("\n"))
    assert {"\n"} >= {one for one in written if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")}
    assert len(written) < len(levels) * (10 * LINE_MAX + 100)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_quoted_value_ends_where_its_quotes_end(text: str) -> None:
    """A value from outside is between two quotes, with none of its own that is not escaped, and short."""
    shown = quoted(text)

    assert re.fullmatch(r'"(?:[^"\\]|\\.)*"(?:\.\.\. \(\d+ more characters\))?', shown)
    assert shown.isprintable()
    assert len(shown) < 12 * VALUE_MAX


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", '"plain"'),
        ("Zoë 電", '"Zoë 電"'),
        ('a"b\\c', r'"a\"b\\c"'),
        ("a\nb\tc\rd", r'"a\nb\tc\rd"'),
        ("\x1b\x7f", r'"\x1b\x7f"'),
        ("\u202e\U000e0001", r'"\u202e\U000e0001"'),
        (b"a\xffb", r'"a\xffb"'),
        (17, '"17"'),
    ],
)
def test_quoted_as_go_quotes(value: object, shown: str) -> None:
    """Names look as in nats-server's lines, which come out of Go's %q."""
    assert shown == quoted(value)


def test_what_is_cut_says_so() -> None:
    """A line that was too long says how much is missing."""
    assert "aaa... (7 more characters)" == printable("a" * 10, 3)
    assert '"aaa"... (7 more characters)' == quoted("a" * 10, 3)


def test_a_flood_from_one_place_leaves_room_for_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place in the code that writes without end is cut to its rate; the lines of other places are written in full."""
    now_s = [0.0]
    monkeypatch.setattr("leafd.host.log.time.monotonic", lambda: now_s[0])
    path = tmp_path / "log"
    log = Log(str(path), times=False)
    for turn in range(log_room.BURST + 500):
        log.error(f"flood {turn}")
        if turn % 500 == 0:
            log.info("another place")
    now_s[0] = 10.0
    for _ in range(100):
        log.error("another flood")
    log.close()
    written = path.read_text().splitlines()
    floods = [line for line in written if "] flood" in line]

    assert log_room.BURST == len(floods)
    assert 3 == sum("another place" in line for line in written)
    assert 100 == sum("another flood" in line for line in written)


def test_what_was_left_out_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a place may write again, its first line tells how many of its lines are missing."""
    now_s = [0.0]
    monkeypatch.setattr("leafd.host.log.time.monotonic", lambda: now_s[0])
    path = tmp_path / "log"
    log = Log(str(path), times=False)
    for turn in range(log_room.BURST + 8):
        now_s[0] += 1000.0 * (turn == log_room.BURST + 7)
        log.warning(f"line {turn}")
    log.close()
    *_, told, last = path.read_text().splitlines()

    assert told.endswith("[WRN] 7 lines like the next one were left out")
    assert last.endswith(f"[WRN] line {log_room.BURST + 7}")


def test_an_unexpected_error_is_told_with_its_place(tmp_path: Path) -> None:
    """A traceback is as many lines as it has, each one a line of the log, and a recursion's is short."""

    def deeper(depth: int) -> None:
        if depth == 0:
            raise ValueError("evil\nline \x1b[2J")
        deeper(depth - 1)

    path = tmp_path / "log"
    log = Log(str(path), times=False)
    try:
        deeper(200)
    except ValueError as error:
        log.exception("request \x1b failed", error)
    log.close()
    written = path.read_text()
    lines = written.splitlines()

    assert "\x1b" not in written
    assert all(re.match(r"\[\d+\] \[ERR\] ", line) for line in lines)
    assert lines[0].endswith(r"request \x1b failed")
    assert "raise ValueError" in written
    assert 8 < len(lines) < 80
