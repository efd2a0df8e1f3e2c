"""verify_and_map: a certificate is the user that it is to nats-server, asked with the same certificates and users."""

from __future__ import annotations

import json
import re
import socket
import ssl
from typing import Any

import pytest
from leafd.auth.policy import Policy, compile_leaf_policy, compile_policy
from leafd.auth.verdict import CLIENT_TYPE, LEAF_TYPE, Refusal, Verdict, identify, judge_again
from leafd.certificates import Malformed, read_certificate
from leafd.config.bind import load_text

from tests import servers
from tests.certificates import Authority, Issued

CERTIFICATES = {
    "names": ("/CN=bob", "email:a@b.c,email:z@b.c,DNS:h.example,DNS:g.example,URI:spiffe://x/y"),
    "plain": ("/CN=bob", ""),
    "full": ("/C=DE/ST=Bayern/L=Hof/O=Farm/OU=Stall/CN=box", "DNS:other"),
    "twice": ("/O=Farm/OU=one/OU=two/CN=box", ""),
    "joined": ("/O=Farm/OU=one+CN=box", ""),
    "domain": ("/DC=com/DC=example/O=Farm/CN=box", ""),
    "mail": ("/O=Farm/CN=box/emailAddress=a@b.c", ""),
    "odd": ("/O=A, B+C=DE/CN=#x <y> ", ""),
    "letters": ("/O=Käserei/CN=Żółć", ""),
    "serial": ("/O=Farm/CN=box/serialNumber=17/street=Weg 1/postalCode=12345", ""),
    "title": ("/O=Farm/CN=box/title=Dr", ""),
    "nobody": ("/", "DNS:only.example"),
}
# Each with users, every one in an account of its own; the last part says what else stands there.
USERS = {
    "alternative names": ["a@b.c", "z@b.c", "h.example", "spiffe://x/y", "only.example", "CN=bob"],
    "the later ones": ["z@b.c", "g.example", "spiffe://x/y"],
    "hosts": ["g.example", "h.example"],
    "identifiers": ["spiffe://x/y"],
    "as Go writes it": [
        "CN=bob",
        "CN=box,OU=Stall,O=Farm,L=Hof,ST=Bayern,C=DE",
        "CN=box,OU=one+OU=two,O=Farm",
        "CN=box,OU=one,O=Farm",
        "CN=box,O=Farm",
        "CN=box,O=Farm,DC=com,DC=example",
        "CN=\\#x \\<y\\>\\ ,O=A\\, B,C=DE",
        "CN=Żółć,O=Käserei",
        "SERIALNUMBER=17,CN=box,POSTALCODE=12345,STREET=Weg 1,O=Farm",
    ],
    "in the certificate's order": [
        "CN=box,OU=Stall,O=Farm,L=Hof,ST=Bayern,C=DE",
        "CN=box,OU=two,OU=one,O=Farm",
        "CN=box+OU=one,O=Farm",
        "CN=box,O=Farm,DC=example,DC=com",
        "POSTALCODE=12345,STREET=Weg 1,SERIALNUMBER=17,CN=box,O=Farm",
    ],
    "in another order": [
        "C=DE,ST=Bayern,L=Hof,O=Farm,OU=Stall,CN=box",
        "OU=one,CN=box,O=Farm,OU=two",
        "O=Farm,OU=one+CN=box",
        "DC=com,CN=box,O=Farm,DC=example",
    ],
    "in small letters, with blanks": ["cn=box, ou=Stall, o=Farm, l=Hof, st=Bayern, c=DE", "cn=bob", "cn=Bob"],
    "too little or too much": ["CN=box,O=Farm,C=DE", "O=Farm", "CN=box", "CN=box,O=Farm,OU=one,OU=two,OU=three"],
    "escaped": ["CN=\\23x \\3cy\\3E\\20,O=A\\2c B+C=DE", "CN=\\c5\\bb\\C3\\B3\\C5\\82\\C4\\87,O=Käserei", "CN=bo\\62"],
    "no names at all": ["CN=bob,", "=bob", "CN=#626f62", "CN=box,O", "CN=b\\"],
    "an empty value at the end": ["CN=bob,O="],
    "both orders": ["OU=one,CN=box,O=Farm,OU=two", "CN=box,OU=two,OU=one,O=Farm"],
    "numbers of types": [
        "CN=box,O=Farm,1.2.840.113549.1.9.1=#0c0561406263",
        "1.2.840.113549.1.9.1=#0c056140622e63,CN=box",
    ],
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("map"))


@pytest.fixture(scope="module")
def issued(authority: Authority) -> dict[str, Issued]:
    return {
        name: authority.issue(name, subject=subject, names=names) for name, (subject, names) in CERTIFICATES.items()
    }


def tls_block(authority: Authority, server: Issued) -> str:
    return (
        f"tls {{ cert_file: '{server.certificate}', key_file: '{server.key}', ca_file: '{authority.certificate}', "
        "verify_and_map: true, timeout: 10 }\n"
    )


def accounts_of(users: list[str]) -> str:
    quoted = [user.replace("\\", "\\\\") for user in users]
    lines = [f'ACCOUNT{at} {{ users: [ {{user: "{user}"}} ] }}' for at, user in enumerate(quoted)]
    return "accounts {\n" + "\n".join(lines) + "\n}\n"


def logged_in(port: int, shown: Issued | None, connect: dict[str, Any], *, secure: bool = True) -> str:
    """The account that a client ends up in; empty: it is refused."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if shown is not None:
        context.load_cert_chain(shown.certificate, shown.key)
    body = json.dumps({"protocol": 1, "verbose": False} | connect).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
        while not plain.recv(4096).endswith(b"\r\n"):
            pass
        with context.wrap_socket(plain) if secure else plain as stream:
            stream.sendall(b"CONNECT " + body + b"\r\nPING\r\n")
            heard = b""
            while b"-ERR" not in heard:
                found = re.search(rb'"remote_account":"([^"]*)"', heard)
                if found:
                    return found[1].decode()
                try:
                    more = stream.recv(4096)
                except (ConnectionError, ssl.SSLError):
                    break
                if not more:
                    break
                heard += more
    return ""


def ours(policy: Policy, shown: Issued | None, connect: dict[str, Any]) -> str:
    found = identify(connect, "", policy, CLIENT_TYPE, read_certificate(shown.der) if shown else None)
    return found.account if isinstance(found, Verdict) else ""


@pytest.mark.parametrize("users", USERS.values(), ids=USERS)
def test_a_certificate_is_the_user_that_it_is_to_the_reference(
    users: list[str], authority: Authority, issued: dict[str, Issued]
) -> None:
    """Every certificate against every set of users: the same account, or refused by both."""
    configuration = f"port: {{port}}\n{tls_block(authority, issued['plain'])}{accounts_of(users)}"
    policy = compile_policy(load_text(configuration.replace("{port}", "4222")).server)
    with servers.running(servers.REFERENCE, configuration) as server:
        expected = {name: logged_in(server.port, one, {}) for name, one in issued.items()}

    assert expected == {name: ours(policy, one, {}) for name, one in issued.items()}


FORGED = {
    "a comma": "/CN=box,O=Farm",
    "a comma in another part": "/O=Farm,DC=com/CN=box",
    "a plus": "/O=Farm/CN=box\\+OU=one",
    "an escape": "/O=Farm/CN=box\\\\2CO",
    "a comma in the domain": "/DC=com,DC=example/O=Farm/CN=box",
}
"""Names with one value that reads as several parts."""
FORGED_USERS = [
    "CN=box,O=Farm",
    "CN=box,O=Farm,DC=com",
    "OU=one+CN=box,O=Farm",
    "CN=box,O,O=Farm",
    "CN=box,O=Farm,DC=com,DC=example",
]


def test_a_value_that_reads_as_several_parts_is_nobody_else(authority: Authority) -> None:
    """Nor is it at nats-server, but for a domain component, whose value is not escaped there."""
    issued = {
        name: authority.issue(f"forged{at}", subject=subject) for at, (name, subject) in enumerate(FORGED.items())
    }
    shown = authority.issue("honest", subject="/CN=localhost")
    configuration = f"port: {{port}}\n{tls_block(authority, shown)}{accounts_of(FORGED_USERS)}"
    policy = compile_policy(load_text(configuration.replace("{port}", "4222")).server)
    with servers.running(servers.REFERENCE, configuration) as server:
        theirs = {name: logged_in(server.port, one, {}) for name, one in issued.items()}
    # Without the part that no other name has it is the user of the rest, as with any domain.
    assert dict.fromkeys(FORGED, "") | {"a comma in the domain": "ACCOUNT0"} == {
        name: ours(policy, one, {}) for name, one in issued.items()
    }
    assert dict.fromkeys(FORGED, "") | {"a comma in the domain": "ACCOUNT4"} == theirs


LOGINS = """
accounts {
  PLAIN { users: [ {user: "CN=bob"} ] }
  SECRET { users: [ {user: "h.example", password: "secret"} ] }
  KEY { users: [ {nkey: UDGTQSMYSM5O2QAQFIBPJFEQFJBUUFAEZ5AZ6SLKAXT6FWA4FB2YJDPP} ] }
  LEAF { users: [ {user: "a@b.c", allowed_connection_types: [LEAFNODE]} ] }
  NOBODY { users: [ {user: nobody, password: nobody} ] }
}
"""


@pytest.mark.parametrize(
    "more",
    ["", "no_auth_user: nobody\n", "no_auth_user: UDGTQSMYSM5O2QAQFIBPJFEQFJBUUFAEZ5AZ6SLKAXT6FWA4FB2YJDPP\n"],
    ids=["", "no_auth_user", "no_auth_user by nkey"],
)
@pytest.mark.parametrize("maps", [True, False], ids=["verify_and_map", "verify"])
def test_what_else_a_connect_says(more: str, maps: bool, authority: Authority, issued: dict[str, Issued]) -> None:
    """Passwords, tokens and nkeys beside a certificate count as they do to the reference."""
    block = tls_block(authority, issued["plain"])
    if not maps:
        block = block.replace("verify_and_map", "verify")
    configuration = f"port: {{port}}\n{block}{more}{LOGINS}"
    policy = compile_policy(load_text(configuration.replace("{port}", "4222")).server)
    connects: list[dict[str, Any]] = [
        {},
        {"pass": "x"},
        {"pass": "secret"},
        {"user": "CN=bob"},
        {"user": "h.example", "pass": "secret"},
        {"user": "nobody", "pass": "nobody"},
        {"auth_token": "x"},
        {"nkey": "UAAA", "sig": "x"},
        {"jwt": "x"},
    ]
    tried = [(name, connect) for name in ("names", "plain", "mail") for connect in connects]
    with servers.running(servers.REFERENCE, configuration) as server:
        expected = [(name, connect, logged_in(server.port, issued[name], connect)) for name, connect in tried]

    assert expected == [(name, connect, ours(policy, issued[name], connect)) for name, connect in tried]


@pytest.mark.parametrize(
    "users",
    [
        "authorization { user: 'CN=bob', password: x }",
        "authorization { token: x }",
        "authorization { users: [ {user: 'CN=bob', password: x} ] }",
        "",
    ],
)
def test_simple_logins(users: str, authority: Authority, issued: dict[str, Issued]) -> None:
    """A single user, a token or nobody at all: the certificate is no login where the reference does not take it as
    one."""
    configuration = f"port: {{port}}\n{tls_block(authority, issued['plain'])}{users}\n"
    policy = compile_policy(load_text(configuration.replace("{port}", "4222")).server)
    connects: list[dict[str, Any]] = [{}, {"user": "CN=bob", "pass": "x"}, {"pass": "x"}, {"auth_token": "x"}]
    with servers.running(servers.REFERENCE, configuration) as server:
        expected = [logged_in(server.port, issued["plain"], connect) for connect in connects]

    assert expected == [ours(policy, issued["plain"], connect) for connect in connects]


def test_a_user_known_by_certificate_has_no_empty_password_elsewhere(
    authority: Authority, issued: dict[str, Issued]
) -> None:
    """Where leaves are mapped by certificate, clients cannot be such a user without a password."""
    leaf = tls_block(authority, issued["plain"])
    configuration = f"port: {{port}}\nleafnodes {{ port: {{leaf_port}}, {leaf} }}\n{LOGINS}"
    connects: list[dict[str, Any]] = [
        {"user": "CN=bob"},
        {"user": "h.example", "pass": "secret"},
        {"user": "a@b.c"},
        {},
    ]
    config = load_text(configuration.replace("{port}", "4222").replace("{leaf_port}", "7422")).server
    with servers.running(servers.REFERENCE, configuration) as server:
        expected = [logged_in(server.port, None, connect, secure=False) for connect in connects]

    assert expected == [ours(compile_policy(config), None, connect) for connect in connects]
    leaf_login = identify({}, "", compile_leaf_policy(config), LEAF_TYPE, read_certificate(issued["names"].der))
    assert isinstance(leaf_login, Verdict)
    assert "LEAF" == leaf_login.account


def test_a_reload_judges_the_certificate_again(authority: Authority, issued: dict[str, Issued]) -> None:
    """Who is the same user afterwards stays; who is another or nobody is sent away."""

    def mapped(user: str, account: str = "A", more: str = "") -> Policy:
        users = f"accounts {{ {account} {{ users: [ {{user: '{user}' {more}}} ] }} }}"
        return compile_policy(load_text(tls_block(authority, issued["plain"]) + users).server)

    shown = read_certificate(issued["names"].der)

    def again(after: Policy) -> Verdict | Refusal:
        return judge_again({}, mapped("a@b.c"), after, CLIENT_TYPE, shown)

    assert isinstance(again(mapped("a@b.c", more=", permissions: {publish: x}")), Verdict)
    assert isinstance(again(mapped("h.example")), Refusal)
    assert isinstance(again(mapped("else")), Refusal)
    assert isinstance(again(mapped("a@b.c", "B")), Refusal)
    assert isinstance(again(mapped("a@b.c", more=", password: new")), Refusal)


def test_hostile_bytes(issued: dict[str, Issued]) -> None:
    """A certificate that is cut anywhere, or has any byte changed, is read or refused, never anything else."""
    der = issued["full"].der
    for size in range(len(der)):
        with pytest.raises(Malformed):
            read_certificate(der[:size])
    for at in range(len(der)):
        for change in (0x01, 0x80, 0xFF):
            try:
                read_certificate(der[:at] + bytes([der[at] ^ change]) + der[at + 1 :])
            except Malformed:
                pass
