"""The cluster block: what it takes, what it refuses, and what follows from it."""

from __future__ import annotations

import pytest
from leafd.accounts.graph import Numbers, compile_graph
from leafd.config.bind import load_text
from leafd.config.differences import changed_settings, differences, settings
from leafd.config.schema.cluster import Cluster, group_size, pinned_accounts
from leafd.config.schema.section import Takes
from leafd.errors import ConfigError

BLOCK = "cluster { name: C, listen: 127.0.0.1:6222 %s }"


def block(more: str = "") -> Cluster:
    found = load_text(BLOCK % more).server.cluster
    assert found is not None
    return found


def test_a_cluster_and_jetstream_need_a_group_in_one_clear_line() -> None:
    """Nobody would know where a stream is. A block without a port is no cluster."""
    with pytest.raises(ConfigError) as refused:
        load_text("jetstream: enabled\n" + BLOCK % "")
    assert "cluster and jetstream need meta_size" in str(refused.value)
    assert "\n" not in str(refused.value)
    load_text("jetstream: enabled\ncluster { name: C }")
    load_text("jetstream: disabled\n" + BLOCK % "")


OWN = '"nats://127.0.0.1:6222"'
GATEWAY = 'gateway { name: C, port: 7222, gateways: [ { name: C, url: "c:1" }, { name: D, urls: [d:1, d:2] }%s ] }'


@pytest.mark.parametrize(
    ("routes", "more", "size"),
    [
        ("h:1, i:2, j:3", "", 3),
        ("h:1, h:1, i", "", 3),  # two others
        (f"h:1, {OWN}", "", 2),
        (f"h:1, i, {OWN}, k:9", "", 4),
        (OWN, GATEWAY % "", 3),
        (OWN, GATEWAY % ', { name: E, url: "e:1" }', 4),
        ("h:1, i:2, j:3", GATEWAY % "", 5),
    ],
)
def test_who_founds_the_group_is_counted_from_routes_and_gateways(routes: str, more: str, size: int) -> None:
    """Seed 003 names its servers nowhere else. A size that is given counts, whatever they say."""
    text = BLOCK % f", routes: [ {routes} ]" + "\n" + more + "\njetstream"
    assert group_size(load_text(f"{text}: enabled").server) == size
    assert group_size(load_text(f"{text} {{ meta_size: 7 }}").server) == 7
    assert group_size(load_text(f"{text}: disabled").server) == 0


@pytest.mark.parametrize("routes", ["h:1", OWN, ", ".join(f"h:{port}" for port in range(1, 12))])
def test_where_the_count_says_too_little_a_size_has_to_be_given(routes: str) -> None:
    """One address may be that of one of many; a group has nine members at the most."""
    with pytest.raises(ConfigError, match="meta_size"):
        load_text("jetstream: enabled\n" + BLOCK % f", routes: [ {routes} ]")


def test_jetstream_with_a_size_for_the_group_of_servers_goes_beside_a_cluster() -> None:
    """It is within bounds."""
    assert group_size(load_text("jetstream { meta_size: 3 }\n" + BLOCK % "").server) == 3
    assert group_size(load_text("jetstream: enabled").server) == 0
    with pytest.raises(ConfigError):
        load_text("jetstream { meta_size: 10 }\n" + BLOCK % "")


def test_a_reload_changes_all_but_what_the_server_is_and_listens_on() -> None:
    """Routes, accounts, the pool, the login and what goes over routes are taken up; another name, address or port
    refuses the reload."""
    old = load_text(BLOCK % "").server
    for more in ("routes: [nats://h:1]", "pool_size: 5", "no_advertise: true", "ping_interval: 3s", "compression: on"):
        new = load_text(BLOCK % f", {more}").server
        _, found = differences(old, new)
        assert {one.takes for one in found} == {Takes.LIVE}, more
        assert found[0].path[:1] == ("cluster",)
        assert changed_settings(settings(old), new)
    for before, after in (("name: C", "name: D"), ("6222", "6223"), ("127.0.0.1", "127.0.0.2")):
        _, found = differences(old, load_text((BLOCK % "").replace(before, after)).server)
        assert {one.takes for one in found} == {Takes.RESTART}, after


def test_what_has_no_effect_is_told_and_what_would_weaken_is_refused(tmp_path: object) -> None:
    """As everywhere in a configuration."""
    loaded = load_text(BLOCK % ", ping_max: 3, write_deadline: 5s")
    assert sum("that of the server counts" in line for line in loaded.warnings) == 2
    for wrong in ("write_timeout: retry", "tls { verify_cert_and_check_known_urls: true }"):
        with pytest.raises(ConfigError):
            block(f", {wrong}")


def test_routes_need_a_listener() -> None:
    """In nats-server's words, which its command line has for it."""
    with pytest.raises(ConfigError, match="solicited routes require cluster capabilities"):
        load_text("cluster { routes: [nats://h:1] }")


@pytest.mark.parametrize("url", ["nats-route://", "ftp://h:1", "h:0", "h:70000", "nats-route://a..b:1"])
def test_a_route_that_cannot_be_dialled_is_refused_at_once(url: str) -> None:
    """And not told again each second."""
    with pytest.raises(ConfigError, match="no address of a server"):
        block(f', routes: ["{url}"]')


def test_the_system_account_has_routes_of_its_own_unless_there_are_no_pools() -> None:
    """Events and reports are not held up by what others send."""
    accounts = "accounts { A { }, B { } }\n"
    for text, pinned in (
        (accounts + BLOCK % ", accounts: [A]", ("A", "$SYS")),
        (accounts + "system_account: B\n" + BLOCK % "", ("B",)),
        (BLOCK % ", pool_size: -1", ()),
        ("no_system_account: true\n" + BLOCK % "", ()),
        ("cluster { name: C }", ()),
    ):
        server = load_text(text).server
        assert pinned_accounts(server.cluster, compile_graph(server, Numbers()).system_name) == pinned
    with pytest.raises(ConfigError, match="which is not defined"):
        block(", accounts: [X]")


def test_what_is_shown_of_the_block_has_no_login() -> None:
    """Neither in the settings of a running daemon, nor in a complaint."""
    text = BLOCK % ', authorization { user: u, password: hidden }, routes: ["nats://u:hidden@h:1"]'
    assert "hidden" not in str(settings(load_text(text).server))
    with pytest.raises(ConfigError) as refused:
        block(', routes: ["nats://u:hidden@h:0"]')
    assert "hidden" not in str(refused.value)


def test_pings_on_routes_come_every_half_minute_at_least() -> None:
    """What compression is chosen by, and a dead peer noticed, is how long they take."""
    assert block().ping_ns == 30_000_000_000
    assert block(", ping_interval: 2m").ping_ns == 30_000_000_000
    assert block(", ping_interval: 5s").ping_ns == 5_000_000_000


def test_compression_is_accepted_unless_something_is_said() -> None:
    """Switched on it is fast and not chosen by the round trip, as on leaf links."""
    assert block().compression == ("accept", ())
    assert block(", compression: true").compression == ("s2_fast", ())
    assert block(', compression: { mode: "on" }').compression == ("s2_fast", ())
    assert block(", compression: s2_auto").compression[0] == "s2_auto"
