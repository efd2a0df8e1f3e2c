"""The gateway block: what it takes, what it refuses, and what follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from leafd.config.bind import load_text
from leafd.config.differences import differences, settings
from leafd.config.exposure import open_listeners
from leafd.config.schema.gateway import Gateway, cluster_name, gateway_address
from leafd.config.schema.section import Takes
from leafd.errors import ConfigError

from tests.certificates import Authority

BLOCK = "gateway { name: A, listen: 127.0.0.1:7222 %s }"


def block(more: str = "") -> Gateway:
    found = load_text(BLOCK % more).server.gateway
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("gateway { listen: 127.0.0.1:7222 }", "gateway has no name"),
        ('gateway { name: "a b", port: -1 }', "gateway name cannot contain spaces"),
        ("gateway { name: A }", 'gateway "A" has no port specified'),
        (BLOCK % ', gateways: [ { url: "nats://h:1" } ]', "gateway in the list 0 has no name"),
        (BLOCK % ", gateways: [ { name: B } ]", 'gateway "B" has no URL'),
        ("cluster { name: C }\n" + BLOCK % "", "cluster name conflicts between cluster and gateway definitions"),
        (BLOCK % ", authorization { users: [ { user: u, password: p } ] }", "does not allow multiple users"),
        (BLOCK % ", authorization { token: t }", "does not support tokens"),
    ],
)
def test_what_does_not_fit_is_refused_in_nats_servers_words(text: str, why: str) -> None:
    """At a start, and not when another cluster comes."""
    with pytest.raises(ConfigError) as refused:
        load_text(text)
    assert why in str(refused.value)


@pytest.mark.parametrize("jetstream", ["jetstream: enabled", "jetstream { meta_size: 3 }"])
def test_a_gateway_and_jetstream_need_a_cluster_and_its_group(jetstream: str) -> None:
    """One clear line says so."""
    with pytest.raises(ConfigError) as refused:
        load_text(f"{jetstream}\n" + BLOCK % "")
    assert "gateway and jetstream need a cluster block" in str(refused.value)
    assert "\n" not in str(refused.value)
    load_text("jetstream: disabled\n" + BLOCK % "")
    load_text("jetstream { meta_size: 3 }\ncluster { name: A, port: 6222 }\n" + BLOCK % "")
    load_text("jetstream: enabled\ngateway { }")


def test_one_list_of_clusters_serves_them_all() -> None:
    """The own name in it is passed over; one address may stand alone."""
    found = block(
        ', gateways: [ { name: A, url: "nats://a:1" }, { name: B, url: "nats-route://b:1" },'
        " { name: C, urls: [c:1, c:2] } ]"
    )
    assert [(one.name, one.urls) for one in found.remotes] == [("B", ("nats-route://b:1",)), ("C", ("c:1", "c:2"))]


@pytest.mark.parametrize("url", ["nats://", "ftp://h:1", "nats://h", "h:0", "h:70000", "nats://a..b:1"])
def test_an_address_that_cannot_be_dialled_is_refused_at_once(url: str) -> None:
    """And not told again each second."""
    with pytest.raises(ConfigError, match="no address of a gateway"):
        block(f', gateways: [ {{ name: B, urls: ["{url}"] }} ]')


def test_the_cluster_has_the_gateways_name() -> None:
    """Where it has none of its own."""
    for text, name in (
        (BLOCK % "", "A"),
        ("cluster { listen: 127.0.0.1:1 }\n" + BLOCK % "", "A"),
        ("cluster { name: A, listen: 127.0.0.1:1 }\n" + BLOCK % "", "A"),
        ("cluster { name: C, listen: 127.0.0.1:1 }", "C"),
        ("", ""),
    ):
        assert cluster_name(load_text(text).server) == name
    assert gateway_address(load_text(BLOCK % "").server) == ("127.0.0.1", 7222)
    assert gateway_address(load_text("").server) is None


def test_a_change_of_the_block_waits_for_a_restart() -> None:
    """Each key of it: a reload is refused as a whole, and names the key."""
    old = load_text(BLOCK % "").server
    for more in (
        "reject_unknown_cluster: true",
        "connect_retries: 5",
        "advertise: h:1",
        "gateways: [{name: B, url: h:1}]",
    ):
        _, found = differences(old, load_text(BLOCK % f", {more}").server)
        assert {one.takes for one in found} == {Takes.RESTART}, more
        assert found[0].path[:1] == ("gateway",)


def test_a_gateway_that_anybody_may_use_is_told_of() -> None:
    """Whoever reaches it reaches every account."""
    for more, told in (("", True), (", authorization { user: u, password: p }", False)):
        text = "authorization { user: u, password: p }\nlisten: 127.0.0.1:1\ngateway { name: A, listen: 0.0.0.0:1 %s }"
        found = [one.text for one in open_listeners(load_text(text % more).server)]
        assert any("servers of other clusters" in one for one in found) == told
    assert not [one for one in open_listeners(load_text(BLOCK % "").server) if "clusters" in one.text]


def test_what_is_shown_of_the_block_has_no_login() -> None:
    """Neither in the settings of a running daemon, nor in a complaint."""
    text = (
        BLOCK % ', authorization { user: u, password: hidden }, gateways: [ { name: B, url: "nats://u:hidden@h:1" } ]'
    )
    assert "hidden" not in str(settings(load_text(text).server))
    with pytest.raises(ConfigError) as refused:
        block(', gateways: [ { name: B, url: "nats://u:hidden@h:0" } ]')
    assert "hidden" not in str(refused.value)


def test_what_has_no_effect_is_told_and_what_would_weaken_is_refused() -> None:
    """As everywhere in a configuration."""
    loaded = load_text(BLOCK % ", write_deadline: 5s")
    assert sum("that of the server counts" in line for line in loaded.warnings) == 1
    for wrong in ("write_timeout: retry", "tls { verify_cert_and_check_known_urls: true }", "tls { verify: true }"):
        with pytest.raises(ConfigError):
            block(f", {wrong}")


def test_certificates_are_renewed_by_a_reload(tmp_path: Path) -> None:
    """That of the block, and that of a cluster that is dialled with another one: their files are read again."""
    authority = Authority(tmp_path)
    first, second = authority.issue("first"), authority.issue("second")
    certificate, key = tmp_path / "used.pem", tmp_path / "used.key"
    tls = f'tls {{ cert_file: "{certificate}", key_file: "{key}", ca_file: "{authority.certificate}" }}'
    text = f"gateway {{ name: A, port: 7222, {tls}, gateways: [ {{ name: B, url: 'nats://h:1', {tls} }} ] }}"
    read = []
    for issued in (first, second):
        certificate.write_bytes(issued.certificate.read_bytes())
        key.write_bytes(issued.key.read_bytes())
        read.append(load_text(text).server)
    old, new = read
    taken, found = differences(old, new)
    assert not found
    assert old.gateway is not None
    assert old.gateway != new.gateway == taken.gateway
    assert taken.gateway is not None
    assert taken.gateway.remotes[0].tls != old.gateway.remotes[0].tls
    _, found = differences(old, load_text(text.replace("h:1", "h:2")).server)
    assert {one.takes for one in found} == {Takes.RESTART}
