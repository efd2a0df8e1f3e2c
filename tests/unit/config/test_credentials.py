"""Secrets by name: a configuration has the names of systemd's credentials in it, and no secret."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest
from leafd.cli.pages import find, unit_of
from leafd.config.bind import load_file, load_text
from leafd.config.credentials import borrow
from leafd.config.tree import parse_text, plain
from leafd.errors import ConfigError

from tests.certificates import Authority
from tests.rig.waiting import logged
from tests.servers import LEAFD, make, running

SEED = "SUAIWGCODIHYRJ4YY35OF6EPHWXAJV3MDW5XX24RXB6D6YDVDBCCFJPAFM"
PUBLIC = "UDGTQSMYSM5O2QAQFIBPJFEQFJBUUFAEZ5AZ6SLKAXT6FWA4FB2YJDPP"


@pytest.fixture
def credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory like the one that systemd makes for a service."""
    directory = tmp_path / "credentials"
    directory.mkdir()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(directory))
    return directory


def value(text: str, directory: Path, **environment: str) -> object:
    """What `v` comes to."""
    found = plain(parse_text(text, environment={"CREDENTIALS_DIRECTORY": str(directory), **environment}).root)
    assert isinstance(found, dict)
    return found["v"]


@pytest.mark.parametrize(
    "secret",
    ["open sesame", "12345", "1GB", "a#b //c; d", "$2a$04$hash", "$other", "true", "{", '"', "é\udcff", "a\nb"],
)
def test_a_credential_is_taken_as_it_is(tmp_path: Path, secret: str) -> None:
    """Whatever a password looks like, it is that text; the end of the file's last line is no part of it."""
    for end in ("", "\n", "\r\n"):
        (tmp_path / "hub-password").write_bytes((secret + end).encode("utf-8", "surrogateescape"))
        assert secret == value("v: $hub-password", tmp_path)
        assert [{"p": secret}] == value("v: [ { p: $hub-password } ]", tmp_path)


def test_keys_and_the_environment_go_before_credentials(tmp_path: Path) -> None:
    """A configuration that used a name before credentials were there means what it meant."""
    (tmp_path / "name").write_text("credential")
    assert "credential" == value("v: $name", tmp_path)
    assert "environment" == value("v: $name", tmp_path, name="environment")
    assert "key" == value("name: key, v: $name", tmp_path, name="environment")


@pytest.mark.parametrize("name", ["absent", "../secret", "sub", ".", "..", "/etc/hostname", "long" * 100])
def test_what_is_no_credential_is_an_error(tmp_path: Path, name: str) -> None:
    """A name that is not there, leads out of the directory or is a directory ends with its place."""
    (tmp_path / "secret").write_text("x")
    (tmp_path / "in" / "sub").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"^<text>:2:1: the variable .* is neither"):
        value(f"a: 1\nv: ${name}", tmp_path / "in")


def test_an_empty_credential_is_an_error(tmp_path: Path) -> None:
    """A password that got lost on its way is no password of no characters."""
    (tmp_path / "name").write_text("\n")
    with pytest.raises(ConfigError, match="the credential name is empty"):
        value("v: $name", tmp_path)


def test_a_value_that_is_too_long_for_a_name_is_no_credential_s(credentials: Path) -> None:
    found = load_text(f"jetstream {{ key_file: {'long' * 100} }}").server
    assert found.jetstream is not None
    assert "long" * 100 == found.jetstream.key_file


def test_credentials_that_cannot_be_looked_for_are_an_error_without_the_value(
    credentials: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails. The value may be a seed that stands in the configuration itself."""
    (credentials / "store-key").write_text("x")
    stat = Path.stat

    def failing(path: Path, **options: bool) -> os.stat_result:
        if path.parent == credentials:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", failing)
    with pytest.raises(ConfigError, match=r":1:\d+: .*CREDENTIALS_DIRECTORY cannot be read: Input/output error") as one:
        load_text("jetstream { key_file: store-key }")
    assert "store-key" not in str(one.value)


def test_files_are_credentials_by_their_bare_names(credentials: Path, tmp_path: Path) -> None:
    """Each key that names a file takes a credential's name; a path, or a name of which there is none, stays."""
    for name in ("hub.creds", "store-key", "old-key", "seed"):
        (credentials / name).write_text("x")
    config = load_text(
        "leafnodes { remotes: [ {url: 'nats://h:1', creds: hub.creds}, {url: 'nats://h:2', nkey: seed}, "
        "{url: 'nats://h:3', creds: './hub.creds'}, {url: 'nats://h:4', creds: other.creds} ] }\n"
        "jetstream { key_file: store-key, prev_key_file: old-key }"
    ).server
    assert config.leafnodes is not None
    assert config.jetstream is not None
    first, second, third, fourth = config.leafnodes.remotes
    assert (f"{credentials}/hub.creds", f"{credentials}/seed") == (first.credentials, second.nkey)
    assert ("./hub.creds", "other.creds") == (third.credentials, fourth.credentials)
    assert (f"{credentials}/store-key", f"{credentials}/old-key") == (
        config.jetstream.key_file,
        config.jetstream.prev_key_file,
    )


def test_a_command_finds_a_daemon_without_its_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`leafd status` needs the monitoring port of a configuration whose passwords and keys it cannot read."""
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    file = tmp_path / "box.conf"
    secrets = "authorization { user: a, password: $hub-password }\ntls { cert_file: tls.pem, key_file: tls.key }\n"
    for lines, url in (
        ("listen: 127.0.0.1:4222\nhttp: 127.0.0.1:8222", "http://127.0.0.1:8222"),
        ("net: 10.0.0.1\nmonitor_port: 8222\nhttp_base_path: /box/", "http://10.0.0.1:8222/box"),
        ("HTTPS: 8443", "https://127.0.0.1:8443"),
        ("host: '::1'\nhttps_port: 8443", "https://[::1]:8443"),
    ):
        file.write_text(f"{lines}\n{secrets}")
        with pytest.raises(ConfigError):
            load_file(file)
        assert url == find(None, file, None).url
    file.write_text(secrets)
    with pytest.raises(ConfigError, match="no monitoring port"):
        find(None, file, None)


def test_a_command_borrows_the_service_s_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`leafd check` and `leafd doctor` see what the service sees where they may, and nothing that was set goes away."""
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "before")
    (tmp_path / "leafd@two.service").mkdir()
    borrow("leafd@two.service", tmp_path)
    assert "before" == os.environ["CREDENTIALS_DIRECTORY"]
    monkeypatch.delenv("CREDENTIALS_DIRECTORY")
    borrow("leafd.service", tmp_path)
    assert "CREDENTIALS_DIRECTORY" not in os.environ
    borrow(unit_of(Path("/etc/leafd/two.conf")), tmp_path)
    assert str(tmp_path / "leafd@two.service") == os.environ["CREDENTIALS_DIRECTORY"]
    assert ["leafd.service"] * 3 == [
        unit_of(one) for one in (None, Path("/etc/leafd/leafd.conf"), Path("/srv/two.conf"))
    ]


def test_a_link_of_secrets_by_name(credentials: Path, tmp_path: Path) -> None:
    """A daemon whose certificates, passwords and seeds are all credentials serves TLS and links to a hub."""
    authority = Authority(tmp_path)
    pair = authority.issue("server", subject="/CN=localhost", names="IP:127.0.0.1")
    for name, path in (("tls.pem", pair.certificate), ("tls.key", pair.key), ("ca.pem", authority.certificate)):
        (credentials / name).write_bytes(path.read_bytes())
    (credentials / "admin-password").write_text("open sesame\n")
    (credentials / "box-seed").write_text(f"{SEED}\n")
    hub = (
        "port: {port}\nauthorization { user: admin, password: $admin-password }\n"
        "leafnodes { port: {leaf_port}, authorization { nkey: " + PUBLIC + " } \n"
        "tls { cert_file: tls.pem, key_file: tls.key } }\n"
    )
    with running(LEAFD, hub) as server:
        with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
            connection.sendall(b'CONNECT {"user":"admin","pass":"open sesame","verbose":false}\r\nPING\r\n')
            said = b""
            while b"PONG" not in said and b"ERR" not in said:
                said += connection.recv(4096)
            assert b"PONG" in said
        for nkey in ("box-seed", "$box-seed"):
            box = make(
                LEAFD,
                "port: {port}\nleafnodes { remotes: [ { nkey: " + nkey + ", url: 'tls://127.0.0.1:{hub}', "
                "tls { ca_file: ca.pem } } ] }\n",
                tmp_path,
                hub=server.ports["leaf_port"],
            )
            box.start()
            try:
                logged(box, "Leafnode connection created")
                assert "open sesame" not in box.log + server.log
                assert SEED not in box.log + server.log
            finally:
                box.stop()
