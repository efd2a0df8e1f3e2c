"""What a configuration may say of an operator: each mistake is one line with its place and what to do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from leafd.accounts.graph import Numbers
from leafd.config.bind import load_text
from leafd.daemon.operator import check, compile_operator
from leafd.errors import ConfigError

from tests.jwts import Key, Operator

OPERATOR = Operator("O")
ACCOUNT = OPERATOR.account("A", disk_storage=-1)
OTHER = Operator("P")
GOOD = OPERATOR.configuration()


def test_what_nsc_writes_is_taken() -> None:
    """The accounts are those of the preloaded JWTs, and the system account is the operator's."""
    made = compile_operator(load_text(GOOD).server, Numbers())

    assert {OPERATOR.system.public, ACCOUNT.public} == set(made.accounts.trusted)
    assert made.accounts.graph.system is not None
    assert OPERATOR.system.public == made.accounts.graph.system.name
    assert () == check(load_text(GOOD))


def replaced(old: str, new: str) -> Callable[[], str]:
    assert old in GOOD
    return lambda: GOOD.replace(old, new)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (replaced("operator: ey", "operator: ex"), "operator: ex"),
        (
            replaced(f"system_account: {OPERATOR.system.public}", f"system_account: {ACCOUNT.public}"),
            "must be identical",
        ),
        (replaced("resolver: MEMORY", "resolver: nowhere"), "is no resolver"),
        (replaced("resolver: MEMORY", "resolver: { type: full }"), "dir has no value"),
        (replaced("resolver: MEMORY", "resolver: { type: cache, dir: x, allow_delete: true }"), "allow_delete"),
        (replaced("resolver: MEMORY", 'resolver: URL("ftp://x")'), "no address of HTTP"),
        (replaced(ACCOUNT.public + ": ey", OTHER.system.public + ": ey"), "the JWT is that of"),
        (
            replaced("resolver_preload: {", f"resolver_preload: {{ {OTHER.system.public}: {OTHER.system.token()}"),
            "signed",
        ),
        (replaced("resolver_preload: {", "resolver_preload: { A: x"), "by their keys"),
        (lambda: GOOD + "accounts { A { } }", "accounts cannot be configured"),
        (lambda: GOOD + "authorization { user: a, password: b }", "cannot have users"),
        (lambda: GOOD + "leafnodes { authorization { user: a, password: b } }", "cannot have users"),
        (lambda: GOOD + "leafnodes { remotes: [ { url: nats://h, account: A } ] }", "needs the key of an account"),
        (lambda: GOOD + f"trusted_keys: [{OPERATOR.key.public}]", "exclude each other"),
        (lambda: GOOD + "websocket { port: 1, no_tls: true, authorization { token: x } }", "logins of its own"),
        (lambda: GOOD + "resolver_pinned_accounts: [ A ]", "by their keys"),
        (lambda: GOOD + f"default_sentinel: {ACCOUNT.user('u').token}", "must be a bearer token"),
        (lambda: GOOD + "default_sentinel: e.y.J", "default_sentinel"),
        (lambda: "resolver: MEMORY", "no use without operator"),
        (lambda: f"operator: {OPERATOR.token()}", "needs a resolver"),
        (lambda: f"trusted_keys: [ {Key('account').public} ]", "trusted_keys"),
    ],
)
def test_mistakes(text: Callable[[], str], reason: str) -> None:
    """A configuration that cannot be used says where and why."""
    with pytest.raises(ConfigError, match=reason) as error:
        check(load_text(text(), "server.conf"))

    assert str(error.value).startswith("server.conf")
    assert OPERATOR.token() not in str(error.value)


def test_an_operator_with_an_address_needs_no_resolver() -> None:
    """The account server that the operator's JWT names is asked then."""
    operator = Operator("O", account_server_url="https://accounts.example.org/jwt/v1")
    made = compile_operator(load_text(f"operator: {operator.token()}").server, Numbers())

    assert ("url", "https://accounts.example.org/jwt/v1/accounts/") == (made.resolver.type, made.resolver.url)


@pytest.mark.parametrize(
    "written", ["URL(http://h/jwt/)", 'URL("http://h/jwt/")', 'url("http://h/jwt/)', '"URL(http://h/jwt/)"']
)
def test_the_address_of_a_resolver_may_have_quotes(written: str) -> None:
    """nats-server asks http://h/jwt/ for accounts with each of these lines."""
    made = compile_operator(load_text(replaced("resolver: MEMORY", f"resolver: {written}")()).server, Numbers())
    assert ("url", "http://h/jwt/") == (made.resolver.type, made.resolver.url)


def test_faults_of_preloaded_accounts_are_warnings() -> None:
    """What of an account's JWT cannot be had is told, and the rest works."""
    operator = Operator("O")
    account = operator.account("A").imported(operator.system, "nothing.such")
    (warning,) = check(load_text(operator.configuration()))

    assert account.public in warning
    assert "not authorized" in warning


def test_the_command_line_checks_jwts(tmp_path: Path) -> None:
    """leafd -t tells what is wrong with an operator before a restart does."""
    file = tmp_path / "server.conf"
    for text, code, said in ((GOOD, 0, "is valid"), (GOOD.replace("operator: ey", "operator: ex"), 1, "server.conf:1")):
        file.write_text(text)
        done = subprocess.run([sys.executable, "-m", "leafd", "-t", "-c", str(file)], capture_output=True, timeout=60)
        assert code == done.returncode
        assert said in (done.stdout + done.stderr).decode()


def test_a_server_without_an_operator_loads_none_of_it() -> None:
    """JWTs, resolvers and time zones cost a box nothing that has no operator."""
    script = (
        "import sys, leafd.daemon.run, leafd.monitor.services\n"
        "from leafd.daemon.compiled import compile_config\n"
        "from leafd.config.schema.server import ServerConfig\n"
        "from leafd.accounts.graph import Numbers\n"
        "compile_config(ServerConfig(), Numbers())\n"
        "parts = ('jwt', 'resolver', 'trust', 'scopes', 'hours', 'operators', 'account_book')\n"
        "print([name for name in sys.modules if name.startswith(('leafd.auth.', 'leafd.logins.', 'leafd.daemon.'))"
        " and name.rpartition('.')[2].startswith(parts)])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=True)
    assert b"[]\n" == done.stdout
