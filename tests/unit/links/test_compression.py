"""What the two ends of a leaf link agree upon about compression, and who says which INFO when (tests/wire/leaf.md)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from leafd.config.schema.leafnodes import LeafNodes
from leafd.config.schema.section import Invalid
from leafd.links import leaf
from leafd.links.compression import TERSE_ALONE, UNCOMPRESSED, Compression
from leafd.links.leaf_info import Advertised
from leafd.native_types import LineKind

AUTO = Compression("s2_auto", (10_000_000, 50_000_000, 100_000_000))
IDENTITY = leaf.Identity("NHUB", "hub1", "2.15.1")
INFO = {"server_id": "N", "server_name": "s", "client_id": 6, "nonce": "n", "info_on_connect": True}
MS = 1_000_000


@pytest.mark.parametrize(
    ("ours", "theirs", "agreed"),
    [
        ("s2_auto", "s2_auto", "s2_auto"),
        ("s2_auto", "accept", "s2_auto"),
        ("s2_auto", "s2_best", "s2_auto"),
        ("s2_best", "s2_fast", "s2_best"),
        ("s2_fast", "off", "off"),
        ("s2_fast", "", "not supported"),
        ("s2_fast", "not supported", "not supported"),
        ("accept", "accept", "off"),
        ("accept", "s2_auto", "s2_fast"),
        ("accept", "s2_uncompressed", "s2_uncompressed"),
        ("accept", "s2_better", "s2_better"),
        ("accept", "off", "off"),
        ("off", "s2_fast", "off"),
        ("off", "", "not supported"),
        ("not supported", "s2_fast", "not supported"),
    ],
)
def test_the_mode_is_that_of_nats_server(ours: str, theirs: str, agreed: str) -> None:
    """Each end has its own, unless it only accepts, or the other one does not compress."""
    assert agreed == Compression(ours).agreed(theirs)


@pytest.mark.parametrize(
    ("bounds", "round_trip_ms", "level"),
    [
        ((10, 50, 100), 10, 0),
        ((10, 50, 100), 11, 1),
        ((10, 50, 100), 51, 2),
        ((10, 50, 100), 101, 3),
        ((10,), 500, 0),
        ((0, 10), 1, 1),
        ((0, 10), 500, 1),
        ((0, 0, 20), 1, 2),
        ((0, 0, 20), 21, 3),
    ],
)
def test_the_first_level_follows_from_the_time_until_the_info(
    bounds: tuple[int, ...], round_trip_ms: int, level: int
) -> None:
    """A bound of 0 leaves its level out; above the last bound it is best, if there are three."""
    how = Compression("s2_auto", tuple(bound * MS for bound in bounds)).at("s2_auto", round_trip_ms * MS)

    assert how.level == level
    assert how.bounds == len(bounds)


def said(frame: bytes, verb: bytes) -> dict[str, Any]:
    assert frame.startswith(verb + b" {")
    assert frame.endswith(b"\r\n")
    return dict(json.loads(frame[len(verb) :]))


def acceptor(compression: Compression) -> leaf.Acceptor:
    told = Advertised("127.0.0.1", 7422, ("127.0.0.1:7422",))
    return leaf.Acceptor(IDENTITY, 6, "NONCE", told, compression, lambda: 60 * MS)


def test_who_listens_answers_with_its_info_behind_the_change() -> None:
    """With the same nonce, and the mode that is configured where that is s2_auto; then CONNECT as ever."""
    machine = acceptor(AUTO)
    (first,) = machine.opened()
    compress, resume = machine.line(LineKind.INFO, b'{"client_id":6,"compression":"s2_fast"}', lambda *_: None)

    assert isinstance(first, leaf.Send)
    assert isinstance(compress, leaf.Compress)
    assert isinstance(resume, leaf.Resume)
    assert said(first.frame, b"INFO")["compression"] == "s2_auto"
    assert said(compress.behind, b"INFO") == said(first.frame, b"INFO")
    assert (compress.how.level, compress.before) == (2, b"")


def test_who_only_accepts_says_what_it_took() -> None:
    """The second INFO names the other end's mode."""
    compress, _ = acceptor(Compression("accept")).line(LineKind.INFO, b'{"compression":"s2_better"}', lambda *_: None)

    assert isinstance(compress, leaf.Compress)
    assert said(compress.behind, b"INFO")["compression"] == "s2_better"


@pytest.mark.parametrize("theirs", ["off", "", "not supported"])
def test_without_agreement_the_next_line_is_connect(theirs: str) -> None:
    """Nothing is sent; a second INFO is one too many."""
    machine = acceptor(AUTO)
    (resume,) = machine.line(LineKind.INFO, json.dumps({"compression": theirs}).encode(), lambda *_: None)
    (close,) = machine.line(LineKind.INFO, b"{}", lambda *_: None)

    assert isinstance(resume, leaf.Resume)
    assert isinstance(close, leaf.Close)
    assert close.text == "Authorization Violation"


def test_a_mode_that_nobody_knows_ends_the_link() -> None:
    """In nats-server's words, at both ends."""
    line = json.dumps(INFO | {"compression": "zip"}).encode()
    closes = [
        *acceptor(AUTO).line(LineKind.INFO, line, lambda *_: None),
        *solicitor(AUTO).line(LineKind.INFO, line),
    ]

    for close in closes:
        assert isinstance(close, leaf.Close)
        assert close.text == 'unsupported route compression mode "zip"'
    assert len(closes) == 2


def solicitor(compression: Compression, **more: Any) -> leaf.Solicitor:
    return leaf.Solicitor(IDENTITY, leaf.Remote((), 1, "A", compression=compression, **more), "a", "a", lambda: 5 * MS)


def test_who_dials_says_its_info_before_the_change_and_connects_after_the_next() -> None:
    """TLS comes before that, once; CONNECT says the level."""
    machine = solicitor(AUTO, tls=True)
    first = json.dumps(INFO | {"compression": "s2_best"}).encode()
    handshake, compress, resume = machine.line(LineKind.INFO, first)
    connect, resumed = machine.line(LineKind.INFO, first)

    assert isinstance(handshake, leaf.Handshake)
    assert isinstance(resume, leaf.Resume)
    assert isinstance(compress, leaf.Compress)
    assert compress.behind == b""
    own = said(compress.before, b"INFO")
    assert (own["compression"], own["client_id"]) == ("s2_auto", 6)
    assert isinstance(connect, leaf.Send)
    assert isinstance(resumed, leaf.Resume)
    assert said(connect.frame, b"CONNECT")["compress_mode"] == "s2_uncompressed"


@pytest.mark.parametrize(
    ("ours", "theirs", "mode"), [("s2_auto", "off", "off"), ("off", "s2_auto", "off"), ("s2_fast", "", "not supported")]
)
def test_without_agreement_who_dials_connects_at_once(ours: str, theirs: str, mode: str) -> None:
    """No INFO of ours goes out."""
    connect, _ = solicitor(Compression(ours)).line(LineKind.INFO, json.dumps(INFO | {"compression": theirs}).encode())

    assert isinstance(connect, leaf.Send)
    assert said(connect.frame, b"CONNECT")["compress_mode"] == mode


# Which lines are terse, between two leafd of today, one of today and one of before, and with others.


def dialled_far(compression: Compression, theirs: str, *, version: int, age_ms: int = 60) -> leaf.Action:
    """What comes behind INFO of a hub that is leafd of that version; 0: of another kind."""
    remote = leaf.Remote((), 1, "A", compression=compression)
    machine = leaf.Solicitor(IDENTITY, remote, "a", "a", lambda: age_ms * MS)
    more = {"compression": theirs} | ({"leafd": version} if version else {})
    return machine.line(LineKind.INFO, json.dumps(INFO | more).encode())[0]


@pytest.mark.parametrize(("version", "terse"), [(3, True), (2, False), (1, False), (0, False)])
def test_who_dials_says_terse_lines_only_to_who_knows_them(version: int, terse: bool) -> None:
    """Compressed as ever beside that, to a hub of before and to a nats-server."""
    compress = dialled_far(AUTO, "s2_auto", version=version)

    assert isinstance(compress, leaf.Compress)
    assert (compress.how.terse, compress.how.level) == (terse, 2)


@pytest.mark.parametrize(("version", "terse"), [(3, True), (2, False), (1, False), (0, False)])
def test_who_listens_says_terse_lines_only_to_who_knows_them(version: int, terse: bool) -> None:
    """The CONNECT of a leafd tells; another kind of leaf compresses by its INFO."""
    told = {"leafd": version, "compression": "s2_auto"}
    machine = acceptor(AUTO)
    if version:
        compress = machine.line(LineKind.CONNECT, json.dumps(told).encode(), lambda *_: leaf.Login(1, "A"))[0]
    else:
        compress = machine.line(LineKind.INFO, b'{"compression":"s2_auto"}', lambda *_: None)[0]

    assert isinstance(compress, leaf.Compress)
    assert compress.how.terse == terse


def test_lines_are_terse_where_nothing_is_to_be_compressed() -> None:
    """CONNECT asks for it, its mode is off as ever, and both ends make the change behind it."""
    asks = dialled_far(Compression("off"), "off", version=3)
    assert isinstance(asks, leaf.Compress)
    connect = said(asks.before, b"CONNECT")
    takes = acceptor(Compression("off")).line(
        LineKind.CONNECT, json.dumps(connect).encode(), lambda *_: leaf.Login(1, "A")
    )[0]

    assert isinstance(takes, leaf.Compress)
    assert takes.how == asks.how == TERSE_ALONE
    assert (takes.before, takes.behind, asks.behind) == (b"", b"", b"")
    assert connect["compress_mode"] == "off"
    assert "compression" not in connect


@pytest.mark.parametrize(
    ("compression", "theirs", "version", "age_ms"),
    [
        (Compression("off"), "off", 2, 60),
        (Compression("off"), "off", 0, 60),
        (Compression("off"), "off", 3, 5),
        (Compression("off"), "", 3, 60),
        (Compression("not supported"), "off", 3, 60),
        (UNCOMPRESSED, "off", 3, 60),
    ],
)
def test_a_link_is_plain_text(compression: Compression, theirs: str, version: int, age_ms: int) -> None:
    """Of a hub that knows no terse lines, one that is near, an end that supports no such stream, and over WebSocket."""
    connect = dialled_far(compression, theirs, version=version, age_ms=age_ms)

    assert isinstance(connect, leaf.Send)
    assert "leafd_terse" not in said(connect.frame, b"CONNECT")


DEFAULT = ("s2_auto", (10 * MS, 50 * MS, 100 * MS))


@pytest.mark.parametrize(
    ("value", "mode"),
    [
        (True, DEFAULT),
        (False, ("off", ())),
        ("on", DEFAULT),
        ("Enabled", DEFAULT),
        ("", DEFAULT),
        ("disabled", ("off", ())),
        ("not_supported", ("not supported", ())),
        ("S2_FAST", ("s2_fast", ())),
        ("best", ("s2_best", ())),
        ({}, DEFAULT),
        ({"mode": "better"}, ("s2_better", ())),
        ({"rtt": ["1ms", "-5s", "2ms", "0", "0"]}, ("s2_auto", (MS, 0, 2 * MS))),
        ({"Mode": "auto", "thresholds": []}, DEFAULT),
    ],
)
def test_spellings(value: Any, mode: tuple[str, tuple[int, ...]]) -> None:
    """All that nats-server takes."""
    assert mode == LeafNodes(compression=value).compression


@pytest.mark.parametrize(
    "value",
    [
        "s2_uncompressed",
        "zip",
        5,
        ["s2_fast"],
        {"level": 1},
        {"mode": True},
        {"rtt": "10ms"},
        {"rtt": [10]},
        {"rtt": ["2ms", "1ms"]},
        {"rtt": ["0", "0"]},
        {"rtt": ["1ms", "2ms", "3ms", "4ms", "5ms"]},
    ],
)
def test_what_nats_server_does_not_start_with_is_refused(value: Any) -> None:
    """s2_uncompressed is a level and no mode of a configuration."""
    with pytest.raises(Invalid):
        LeafNodes(compression=value)
