"""Keys, their spellings, defaults, places in errors, and what this build refuses or ignores."""

from __future__ import annotations

from pathlib import Path

import pytest
from leafd.config.bind import inner_models, load_file, load_text
from leafd.config.reference import BLOCKS, render
from leafd.config.schema.base import SECOND, parse_duration, parse_storage_size
from leafd.config.schema.section import Support, hints
from leafd.errors import ConfigError

CONFIGS = Path(__file__).parents[3] / "configs"


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_text(text, "box.conf")
    return str(caught.value)


def test_defaults_are_the_reference_servers() -> None:
    """An empty configuration means what it means to nats-server (its varz was the source)."""
    server = load_text("").server
    assert ("", 4222) == server.client_address()
    assert 1048576 == server.max_payload
    assert 65536 == server.max_connections
    assert 4096 == server.max_control_line
    assert 67108864 == server.max_pending
    assert 120 * SECOND == server.ping_interval
    assert 2 == server.ping_max
    assert 10 * SECOND == server.write_deadline
    assert server.jetstream is None


def test_hub_and_leaf_of_the_documentation() -> None:
    """configs/hub.conf and leaf.conf load without a warning and mean what the documentation says."""
    hub, leaf = load_file(CONFIGS / "hub.conf"), load_file(CONFIGS / "leaf.conf")
    assert ((), ()) == (hub.warnings, leaf.warnings)
    assert ("", 7422) == hub.server.leaf_address()
    assert leaf.server.leaf_address() is None
    assert "hub" == (hub.server.jetstream.domain if hub.server.jetstream else None)
    remotes = leaf.server.leafnodes.remotes if leaf.server.leafnodes else ()
    assert [("SYS", ("nats://admin:admin@localhost:7422",)), ("ACC", ("nats://acc:acc@localhost:7422",))] == [
        (remote.account, remote.urls) for remote in remotes
    ]
    assert {"admin": "SYS", "acc": "ACC"} == leaf.server.known_users()
    assert leaf.server.accounts["SYS"].jetstream is None
    assert leaf.server.accounts["ACC"].jetstream is not None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("ports: 3", "box.conf:1:1: unknown field 'ports': did you mean 'port'?"),
        ("port: 1\njetstream {\n  domian: x }", "box.conf:3:3: unknown field 'domian': did you mean 'domain'?"),
        ("port: x", "box.conf:1:1: port: a whole number is expected, not 'x'"),
        ("\n  port: 70000", "box.conf:2:3: port: must be less than or equal to 65535, not 70000"),
        ("mqtt { max_keep_alive: '65536s' }", "max_keep_alive: must be less than or equal to 65535s, not 65536s"),
        ("mqtt { ack_wait: '-1m' }", "ack_wait: must be greater than or equal to 0s, not -1m"),
        ("debug: 1", "box.conf:1:1: debug: true or false is expected, not 1"),
        ("server_name: 'a b'", "box.conf:1:1: server_name must not contain blanks: use - or _"),
        ("port: 1\nlame_duck_duration: '5s'", 'box.conf:2:1: lame_duck_duration is too short: at least "30s"'),
        ("accounts { A { users: [ {user: a}\n {nkey: U} ] } }", "box.conf:2:2: users: not a public nkey of a user"),
        ("accounts { A: 3 }", "box.conf:1:12: A: a map in braces is expected here, not a number"),
        ("no_auth_user: zz", "box.conf:1:1: no_auth_user 'zz' is no user of the configuration"),
        ("system_account: Q", "box.conf:1:1: system_account 'Q' is not among the accounts"),
        ("system_account: Q, accounts { Q { jetstream: enabled } }", "the system account cannot have JetStream"),
        ("accounts { $SYS { jetstream: enabled } }", "the system account cannot have JetStream"),
        ("leafnodes { remotes: [ {url: 'nats://h:1', account: N} ] }", "the account 'N', which is not defined"),
        ("leafnodes { remotes: [ {url: 'what'} ]\n remotes_: 1 }", "box.conf:2:2: unknown field 'remotes_'"),
        ("leafnodes { remotes: [ {url: 'nats://h:99999'} ] }", "no host and port that can be dialled"),
        ("leafnodes { remotes: [ {url: 'nats://h:0'} ] }", "no host and port that can be dialled"),
        ("leafnodes { remotes: [ {url: 'nats://a..b:1'} ] }", "no host and port that can be dialled"),
        ("leafnodes { remotes: [ {url: 'nats://" + "x" * 64 + ":1'} ] }", "no host and port that can be dialled"),
        ('leafnodes { remotes: [ {url: "nats://\\xff:1"} ] }', "no host and port that can be dialled"),
        ("ping_interval: soon", "box.conf:1:1: ping_interval: 'soon' is no duration"),
        ("jetstream{enabled: true}", "put a blank before the {"),
    ],
)
def test_errors_say_where_and_what(text: str, error: str) -> None:
    """Every error of the configuration begins with its place (unless it is about the whole) and says what to do."""
    assert error in refused(text)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("auth_users: [a]", "require an issuer"),
        ("issuer: KEY", "require authorized users"),
        ("issuer: UABC, auth_users: [a]", "valid public account nkey"),
        ("issuer: KEY, auth_users: [a], xkey: KEY", "valid public xkey"),
        ("issuer: KEY, auth_users: [a], allowed_accounts: [NOPE]", 'allowed account "NOPE" not found'),
        ("issuer: KEY, auth_users: [a], other: 1", "unknown field"),
    ],
)
def test_auth_callout_is_checked(text: str, wrong: str) -> None:
    """A service that judges logins needs its keys and users, and accounts that are there."""
    key = "ABGCCNDRVXNYN7KQR4TCN6C7ASSGIGS7KZ4WLOBUKVN74NNKAVPYIO4I"
    assert wrong in refused(f"authorization {{ auth_callout {{ {text.replace('KEY', key)} }} }}")


def test_all_unknown_keys_are_told_at_once() -> None:
    """Somebody with three typing errors runs the check once, not three times."""
    assert 3 == len(refused("prt: 1\nhots: x\nserver_nam: y\n").splitlines())


def test_variables_may_be_unknown_keys() -> None:
    """A key that only serves as a variable is no error, as in the reference."""
    assert 4300 == load_text("my_port: 4300\nport: $my_port\n").server.port


def test_keys_ignore_case_and_know_aliases() -> None:
    """Upper case and every spelling of nats-server are taken."""
    server = load_text('PORT: 1\nmax_conn: 5\nsystem: S\naccounts { S {} }\nlogfile: "x"\nmonitor_port: 8').server
    assert (1, 5, "S", "x", ("", 8)) == (
        server.port,
        server.max_connections,
        server.system_account,
        server.log_file,
        server.monitor_address(),
    )


@pytest.mark.parametrize(
    "text",
    [
        "tls { ocsp_peer: true }",
        "ocsp: always",
        "cluster { port: 1 }\njetstream: enabled",
        "cluster { port: 1, write_timeout: retry }",
        "jetstream: enabled\nmqtt { port: 1883, js_domain: hub }",
        "max_sub_tokens: 8",
        "write_timeout: retry",
        "gateway { name: x, port: 1, authorization { token: t } }",
        "jetstream { tpm { keys_file: k } }",
    ],
)
def test_what_would_weaken_or_lose_is_refused(text: str) -> None:
    """A key whose neglect would weaken security or lose messages stops the start."""
    assert "not" in refused(text)


@pytest.mark.parametrize(
    "text",
    [
        "prof_block_rate: 1",
        "jetstream { max_buffered_msgs: 5 }",
    ],
)
def test_the_rest_is_ignored_with_one_line(text: str) -> None:
    """Other keys that nats-server knows give exactly one warning, with the place."""
    warnings = load_text(text, "box.conf").warnings
    assert 1 == len(warnings)
    assert warnings[0].startswith("box.conf:1:")


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("url: 'https://p:3128'", "TLS to the proxy itself is not in this build"),
        ("url: 'socks5://p:1080'", "is no address of an HTTP proxy"),
        ("url: 'http://p'", "is no address of an HTTP proxy"),
        ("url: 'http://p:3128', username: u", "must both be specified or both be empty"),
        ("url: 'http://p:3128', username: 'u:v', password: w", "a proxy's username cannot have a colon"),
        ("url: 'http://p:3128', timeout: '-1s'", "timeout"),
    ],
)
def test_a_proxy_that_cannot_be_is_refused(block: str, said: str) -> None:
    assert said in refused(f"leafnodes {{ remotes: [{{ url: 'ws://h', proxy {{ {block} }} }}] }}")


@pytest.mark.parametrize("version", ['"2.7.9"', '"two"', "2.12", '"2.12"'])
def test_a_lowest_version_that_is_none_or_too_low_is_refused(version: str) -> None:
    """As nats-server does, whose leaf nodes can be told by their version from 2.8.0 on."""
    assert "version" in refused(f"leafnodes {{ min_version: {version} }}")


def test_switched_off_is_no_request() -> None:
    """Saying no to what is missing is neither an error nor a warning."""
    assert () == load_text("proxy_protocol: false\nleafnodes { compression: off }").warnings
    assert () == load_text("ocsp: auto\nprof_port: 0\nwrite_timeout: close\nmax_sub_tokens: 0").warnings


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1s", SECOND),
        ("1h30m", 5400 * SECOND),
        ("1.5s", SECOND * 3 // 2),
        ("250ms", SECOND // 4),
        ("0", 0),
        ("-1s", -SECOND),
    ],
)
def test_durations(text: str, ns: int) -> None:
    """Go's notation."""
    assert ns == parse_duration(text)


def test_bare_numbers_are_seconds() -> None:
    """Old configurations have numbers where durations stand today."""
    assert 5 * SECOND == load_text("ping_interval: 5").server.ping_interval


@pytest.mark.parametrize("text", ["", "5", "s", "1 s", "1x", "m1"])
def test_wrong_durations(text: str) -> None:
    """A string without a unit is no duration, as in Go."""
    with pytest.raises(ValueError, match="is no duration"):
        parse_duration(text)


def test_storage_sizes() -> None:
    """Bare sizes are decimal or binary by their suffix; strings are binary, as in the reference."""
    jetstream = load_text('jetstream { max_mem: 64K, max_file: "10G" }').server.jetstream
    assert jetstream is not None
    assert (64000, 10 << 30) == (jetstream.max_memory_store, jetstream.max_file_store)
    with pytest.raises(ValueError, match="is no size"):
        parse_storage_size("10GB")


def test_limits_of_accounts_stay_within_the_servers() -> None:
    """The line says where, both numbers, and what to do. One that is left open has room for any."""
    shares = "accounts { A { jetstream { max_file: 7M, max_mem: 1 } }, B { jetstream { max_file: 7M, max_mem: 1 } } }"
    said = refused(f"port: 1\njetstream {{ max_file: 10M, max_mem: 2 }}\n{shares}")
    assert said.startswith("box.conf:2:")
    assert "max_file_store" in said
    assert "10000000" in said
    assert "14000000" in said
    assert "max_memory_store" in refused(f"jetstream {{ max_mem: 1 }}\n{shares}")
    for own in ("max_file: 14M, max_mem: 2", "max_file: -1", "enabled: false, max_file: 0"):
        load_text(f"jetstream {{ {own} }}\n{shares}")


def test_limits_of_accounts_in_a_cluster_are_of_all_its_servers_together() -> None:
    """Each server has a part of them, and how many servers there will be no configuration says."""
    shares = "accounts { A { jetstream { max_file: 7M, max_mem: 1 } }, B { jetstream { max_file: 7M, max_mem: 1 } } }"
    block = "cluster { name: C, port: 6222, routes: [ h:1, i:2, j:3 ] }"
    load_text(f"jetstream {{ max_file: 10M, max_mem: 1 }}\n{shares}\n{block}")
    assert "max_file_store" in refused(f"jetstream {{ max_file: 10M, max_mem: 2 }}\n{shares}\ncluster {{ name: C }}")


def test_user_twice() -> None:
    """Names of users are unique over all accounts."""
    text = "accounts { A { users: [{user: u, password: p}] }, B { users: [{user: u, password: p}] } }"
    assert "'u' is defined twice, in A and B" in refused(text)


def test_reference_file_is_fresh() -> None:
    """configs/reference.conf is what the models say; python -m leafd.config.reference writes it."""
    assert render() == (CONFIGS / "reference.conf").read_text(encoding="utf-8")
    assert load_text("").server == load_file(CONFIGS / "reference.conf").server


def test_the_reference_shows_the_keys_of_every_block() -> None:
    """A key that holds a block is shown as { }, and its own keys have a place of their own."""
    shown = {model for _, model in BLOCKS}
    held = {
        inner_models(hints(model)[name])[0]
        for model in shown
        for name, one in model.options.items()
        if one.support == Support.FULL
    }
    assert set() == held - shown - {None}


def test_models_do_not_change() -> None:
    """What was read stays what it is."""
    server = load_text("").server
    with pytest.raises(AttributeError, match="frozen"):
        setattr(server, "port", 1)  # noqa: B010  (types forbid the plain assignment, too)
    with pytest.raises(AttributeError, match="frozen"):
        del server.port
