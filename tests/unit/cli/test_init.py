"""`leafd init` as root, on a box with the package: the service has to be able to read what it writes.

Not here: what is written (tests/interop/test_commands.py).
"""

from __future__ import annotations

import grp
import os
import stat
from pathlib import Path

import pytest
from leafd.cli.init import SERVICE, Plan, planned, write
from leafd.config.bind import load_text
from leafd.errors import UsageError


@pytest.mark.parametrize(("user", "there", "mode"), [(0, True, 0o640), (0, False, 0o600), (1000, True, 0o600)])
def test_a_key_that_root_makes_is_readable_for_the_service_and_for_nobody_else(
    user: int, there: bool, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its group, where the package has made one. Who is not root writes for themselves alone."""
    given: list[int] = []

    def group(name: str) -> grp.struct_group:
        if not there or name != SERVICE:
            raise KeyError(name)
        return grp.struct_group((name, "x", 4711, []))

    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(grp, "getgrnam", group)
    monkeypatch.setattr(os, "fchown", lambda _descriptor, _user, to: given.append(to))
    plan = Plan(role="leaf", name="box-1", directory=tmp_path, store="/var/lib/leafd", hub="hub.example.org")
    write(planned(plan), overwrite=False)
    assert mode == stat.S_IMODE((tmp_path / "box-1.nk").stat().st_mode)
    assert 0o644 == stat.S_IMODE((tmp_path / "leafd.conf").stat().st_mode)
    assert given == ([4711] if mode == 0o640 else [])


@pytest.mark.parametrize(
    ("hub", "url"),
    [
        ("hub.example.org", "nats-leaf://hub.example.org:7422"),
        ("hub.example.org:7000", "nats-leaf://hub.example.org:7000"),
        ("tls://box:secret@hub.example.org", "tls://box:secret@hub.example.org:7422"),
        ("nats-leaf://[::1]", "nats-leaf://[::1]:7422"),
        ("wss://hub.example.org", "wss://hub.example.org:443"),
        ("wss://hub.example.org/fleet", "wss://hub.example.org:443/fleet"),
        ("ws://hub.example.org", "ws://hub.example.org:80"),
        ("ws://hub.example.org:8080", "ws://hub.example.org:8080"),
    ],
)
def test_the_hub_s_address_gets_the_port_that_its_kind_has(hub: str, url: str, tmp_path: Path) -> None:
    """That for leaves, and of WebSocket those of web servers; in the file it stands in full."""
    made = planned(Plan(role="leaf", name="box-1", directory=tmp_path, store="/var/lib/leafd", hub=hub))
    assert f'url: "{url}"' in made.files[tmp_path / "leafd.conf"][0]


@pytest.mark.parametrize(
    ("link", "hub", "compression", "web", "dial_s", "told"),
    [
        ("", "hub.example.org", "s2_auto", False, 0, False),
        ("lan", "hub.example.org", "off", False, 0, False),
        ("cell", "hub.example.org", "s2_best", False, 0, True),
        ("cell", "wss://hub.example.org", "s2_best", True, 0, True),
        ("satellite", "hub.example.org", "s2_best", False, 30, True),
    ],
)
def test_the_kind_of_link_decides_what_is_written(
    link: str, hub: str, compression: str, web: bool, dial_s: int, told: bool, tmp_path: Path
) -> None:
    """The file's own reader finds it in the remote; and where a nats-server would be too quick for it, the hub's
    operator is told."""
    made = planned(Plan("leaf", "box-1", tmp_path, "/var/lib/leafd", hub, link=link))
    loaded = load_text(made.files[tmp_path / "leafd.conf"][0])
    assert loaded.warnings == ()
    assert loaded.server.leafnodes is not None
    (remote,) = loaded.server.leafnodes.remotes
    assert remote.compression[0] == compression
    assert (remote.ws_compression, remote.dial_timeout) == (web, dial_s * 1_000_000_000)
    assert ("timeout: 60" in made.advice) == told


def test_a_kind_of_link_that_is_not_known_is_named_with_those_that_are(tmp_path: Path) -> None:
    """Nothing is written by guess; and a hub has many links, of which init knows none."""
    for role, link in (("leaf", "pigeon"), ("hub", "cell")):
        with pytest.raises(UsageError, match="expected lan, cell, satellite"):
            planned(Plan(role, "box-1", tmp_path, "/var/lib/leafd", "hub.example.org", link=link))


@pytest.mark.parametrize(
    ("budget", "day", "month"),
    [
        ("500MB/month", 500_000_000 // 31, 500_000_000),
        ("1.5 GB/month", 1_500_000_000 // 31, 1_500_000_000),
        ("20m/day", 20_000_000, 0),
    ],
)
def test_a_budget_is_written_as_the_provider_counts(budget: str, day: int, month: int, tmp_path: Path) -> None:
    """In powers of 1,000, and a month spread over its days."""
    made = planned(Plan("leaf", "box-1", tmp_path, "/var/lib/leafd", "hub.example.org", link="cell", budget=budget))
    leafnodes = load_text(made.files[tmp_path / "leafd.conf"][0]).server.leafnodes
    assert leafnodes is not None
    limits = leafnodes.remotes[0].limits
    assert limits is not None
    assert (limits.bytes_per_day, limits.bytes_per_month) == (day, month)
    assert leafnodes.remotes[0].compression[0] == "s2_best"


@pytest.mark.parametrize(
    ("role", "budget"),
    [("leaf", "500"), ("leaf", "500MB"), ("leaf", "500MB/year"), ("leaf", "0MB/day"), ("hub", "1GB/day")],
)
def test_what_is_no_budget_of_a_leaf_is_refused(role: str, budget: str, tmp_path: Path) -> None:
    """And nothing is written."""
    with pytest.raises(UsageError, match="--budget"):
        planned(Plan(role, "box-1", tmp_path, "/var/lib/leafd", "hub.example.org", budget=budget))
