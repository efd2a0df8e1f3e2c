"""`leafd doctor`, and what is wrong with TLS, clocks, disks, credentials, circles of links: each diagnosis by a real
fault, with a hub of either kind where there is one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nats
import pytest
from leafd.cli.doctor import examined
from leafd.doctor import machine
from leafd.doctor.findings import Check, Finding, Level

from tests import jwts, servers
from tests.certificates import Authority, Issued
from tests.rig.waiting import PATIENCE_S

HUB = """
listen: "127.0.0.1:{port}"
server_name: hub
jetstream { store_dir: "{store}", domain: hub }
leafnodes { listen: "127.0.0.1:{leaf_port}" MORE }
"""
LEAF = """
listen: "127.0.0.1:{port}"
server_name: edge
http: "127.0.0.1:{http_port}"
jetstream { store_dir: "{store}", domain: edge }
leafnodes { remotes: [ { url: "nats-leaf://127.0.0.1:{hub_port}" } ], reconnect: 1 }
"""
SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
  int status = real(id, now);
  if (id == CLOCK_REALTIME) now->tv_sec -= 600;
  return status;
}
"""


def doctor(config: Path, timeout_s: float = 25.0) -> list[Finding]:
    return list(examined(config, None, None, None, timeout_s))


def until(config: Path, check: Check, level: Level, timeout_s: float = 25.0) -> list[Finding]:
    """All findings, when that one is among them; it may take its time until a server knows of it."""
    end = time.monotonic() + PATIENCE_S
    while True:
        seen = doctor(config, timeout_s)
        if (check, level) in [(one.check, one.level) for one in seen]:
            return seen
        assert time.monotonic() < end, seen


def found(config: Path, check: Check, level: Level, timeout_s: float = 25.0) -> Finding:
    """The finding of that kind."""
    all_of_them = until(config, check, level, timeout_s)
    return next(one for one in all_of_them if (one.check, one.level) == (check, level))


def written(folder: Path, text: str) -> Path:
    """A configuration whose daemon does not run: the doctor examines the rest."""
    file = folder / "doctor.conf"
    file.write_text(f'http: "127.0.0.1:{servers.free_port()}"\n{text}')
    return file


def in_days(count: int) -> str:
    return time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + count * 86400))


# ---- TLS


@dataclass
class Secure:
    """A hub that wants certificates of its leaves, and shows one for localhost that expires in ten days."""

    hub: servers.Server
    authority: Authority
    box: Issued

    def config(self, folder: Path, host: str = "localhost", ca: bool = True, own: bool = True, more: str = "") -> Path:
        tls = f"ca_file: {self.authority.certificate}\n" if ca else ""
        tls += f"cert_file: {self.box.certificate}\nkey_file: {self.box.key}\n" if own else ""
        remote = f'url: "nats-leaf://{host}:{self.hub.ports["leaf_port"]}"\n tls {{\n{tls}}}'
        return written(folder, f"leafnodes {{ remotes: [ {{ {remote} }} ] }}\n{more}")


@pytest.fixture(scope="module", params=servers.KINDS)
def secure(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority(folder)
    shown = authority.issue("hub", names="DNS:localhost", times=("", in_days(10)))
    tls = (
        f", tls {{ cert_file: {shown.certificate}, key_file: {shown.key}, "
        f"ca_file: {authority.certificate}, verify: true }}"
    )
    with servers.running(request.param, HUB.replace("MORE", tls)) as hub:
        yield Secure(hub, authority, authority.issue("box", times=("", in_days(5))))


def test_a_certificate_that_soon_expires_is_a_warning_for_its_side(secure: Secure, tmp_path: Path) -> None:
    """TLS works: ten days are left of the hub's certificate, five of this box's."""
    said = until(secure.config(tmp_path), Check.HUB_LOGIN, Level.WELL)
    assert Level.WELL in [one.level for one in said if one.check == Check.HUB_TLS]
    hub = next(one for one in said if one.check == Check.CERTIFICATE and "hub" in one.text)
    own = next(one for one in said if one.check == Check.CERTIFICATE and one.about == "this box")
    assert (hub.level, bool(hub.operator), bool(hub.owner)) == (Level.WARNING, True, False)
    assert (own.level, "box.pem" in own.text, bool(own.owner)) == (Level.WARNING, True, True)


def test_a_certificate_of_another_name_is_a_fault_that_names_both(secure: Secure, tmp_path: Path) -> None:
    """The box calls the hub by its address, and the certificate is made out to a name."""
    one = found(secure.config(tmp_path, host="127.0.0.1"), Check.HUB_TLS, Level.FAULT)
    assert ('made out to "localhost"' in one.text, '"127.0.0.1"' in one.text) == (True, True)


def test_a_certificate_that_nobody_trusts_is_a_fault(secure: Secure, tmp_path: Path) -> None:
    """The box was not told of the authority."""
    one = found(secure.config(tmp_path, ca=False), Check.HUB_TLS, Level.FAULT)
    assert ("not trusted" in one.text, "ca_file" in one.owner) == (True, True)


def test_a_hub_that_wants_a_certificate_of_the_box_is_a_fault(secure: Secure, tmp_path: Path) -> None:
    """The box shows none."""
    one = found(secure.config(tmp_path, own=False), Check.HUB_TLS, Level.FAULT)
    assert ("handshake failed" in one.text, "certificate of this box" in one.owner) == (True, True)


def test_an_expired_certificate_of_the_hub_is_a_fault(tmp_path: Path) -> None:
    """A nats-server whose certificate ended yesterday."""
    authority = Authority(tmp_path)
    shown = authority.issue("old", times=(in_days(-9), in_days(-1)))
    tls = f", tls {{ cert_file: {shown.certificate}, key_file: {shown.key} }}"
    with servers.running(servers.REFERENCE, HUB.replace("MORE", tls)) as hub:
        url = f"nats-leaf://localhost:{hub.ports['leaf_port']}"
        text = f'leafnodes {{ remotes: [ {{ url: "{url}", tls {{ ca_file: {authority.certificate} }} }} ] }}\n'
        one = found(written(tmp_path, text), Check.HUB_TLS, Level.FAULT)
    assert ("has expired" in one.text, "renew" in one.operator) == (True, True)


def test_a_daemon_with_tls_for_its_clients_is_asked_too(secure: Secure, tmp_path: Path) -> None:
    """It wants certificates of clients as well; the doctor trusts the very certificate that the configuration names."""
    (tmp_path / "edge").mkdir()
    box = secure.box
    block = f"{{ cert_file: {box.certificate}, key_file: {box.key}, ca_file: {secure.authority.certificate}"
    text = LEAF.replace("nats-leaf://127.0.0.1", "nats-leaf://localhost")
    text = text.replace('{hub_port}" }', f'{{hub_port}}", tls {block} }} }}') + f"tls {block}, verify: true }}\n"
    leaf = servers.make(servers.LEAFD, text, tmp_path / "edge", hub_port=secure.hub.ports["leaf_port"])
    file = leaf.directory / "server.conf"
    with started(leaf):
        found(file, Check.FLOW_UP, Level.WELL)
        found(file, Check.FLOW_DOWN, Level.WELL)


@contextlib.contextmanager
def started(*all_of_them: servers.Server) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for server in all_of_them:
            server.start()
            stack.callback(server.stop)
        yield


# ---- hubs


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_clock_that_is_off_by_minutes_is_a_fault(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon's clock is ten minutes behind, as that of a box without a battery."""
    (tmp_path / "shim.c").write_text(SHIM)
    shim = tmp_path / "shim.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(shim), str(tmp_path / "shim.c"), "-ldl"], check=True)
    (tmp_path / "edge").mkdir()
    with servers.running(kind, HUB.replace("MORE", "")) as hub:
        leaf = servers.make(servers.LEAFD, LEAF, tmp_path / "edge", hub_port=hub.ports["leaf_port"])
        with monkeypatch.context() as patch:
            patch.setenv("LD_PRELOAD", str(shim))
            leaf.start()
        try:
            one = found(leaf.directory / "server.conf", Check.CLOCK, Level.FAULT)
        finally:
            leaf.stop()
    assert ("10 minutes behind" in one.text, "NTP" in one.owner) == (True, True)


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_hub_without_jetstream_is_a_warning(kind: str, tmp_path: Path) -> None:
    """It can collect nothing."""
    (tmp_path / "edge").mkdir()
    text = HUB.replace("MORE", "").replace('jetstream { store_dir: "{store}", domain: hub }', "")
    with servers.running(kind, text) as hub:
        leaf = servers.make(servers.LEAFD, LEAF, tmp_path / "edge", hub_port=hub.ports["leaf_port"])
        with started(leaf):
            one = found(leaf.directory / "server.conf", Check.HUB_JETSTREAM, Level.WARNING)
    assert "jetstream {" in one.operator


@pytest.mark.parametrize("kind", servers.KINDS)
def test_links_in_a_circle_are_a_fault(kind: str, tmp_path: Path) -> None:
    """The box dials two hubs, one of which dials the other."""
    for name in ("first", "second", "edge"):
        (tmp_path / name).mkdir()
    listener = 'listen: "127.0.0.1:{port}"\nserver_name: NAME\nleafnodes { listen: "127.0.0.1:{leaf_port}" MORE }\n'
    remote = 'url: "nats-leaf://127.0.0.1:{first_port}"'
    text = listener.replace("NAME", "first").replace("MORE", "")
    first = servers.make(kind, text, tmp_path / "first")
    first_port = first.ports["leaf_port"]
    text = listener.replace("NAME", "second").replace("MORE", f", remotes: [ {{ {remote} }} ]")
    second = servers.make(servers.REFERENCE, text, tmp_path / "second", first_port=first_port)
    remotes = f'remotes: [ {{ {remote} }}, {{ url: "nats-leaf://127.0.0.1:{second.ports["leaf_port"]}" }} ]'
    text = 'listen: "127.0.0.1:{port}"\nserver_name: edge\nhttp: "127.0.0.1:{http_port}"\n'
    leaf = servers.make(servers.LEAFD, f"{text}leafnodes {{ {remotes} }}\n", tmp_path / "edge", first_port=first_port)
    with started(first, second, leaf):
        # (What the daemon says is enough: probes wait in vain in such a circle.)
        one = found(leaf.directory / "server.conf", Check.LOOP, Level.FAULT, timeout_s=3.0)
    assert "closes a circle" in one.text


# ---- this machine


def test_credentials_that_expire_are_a_warning_and_expired_ones_a_fault(tmp_path: Path) -> None:
    """By the JWT in the file; no hub is needed for that, and nothing of it is shown."""
    user = jwts.Operator("O").account("A")
    remote = 'leafnodes {{ remotes: [ {{ url: "nats-leaf://127.0.0.1:{}", credentials: "{}" }} ] }}'
    for days, level in ((10, Level.WARNING), (-1, Level.FAULT)):
        file = tmp_path / f"{days}.creds"
        user.user("u", outer={"exp": int(time.time()) + days * 86400}).creds(file)
        config = written(tmp_path, remote.format(servers.free_port(), file))
        one = found(config, Check.CREDENTIALS, level)
        assert (one.about, bool(one.operator)) == (str(file), True)
        assert "eyJ" not in str(doctor(config))


def test_a_slow_disk_is_a_warning_with_what_it_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sync takes 120 ms and more."""
    real = os.fdatasync

    def slow(descriptor: int) -> None:
        time.sleep(0.12)
        real(descriptor)

    with servers.running(servers.LEAFD, LEAF, hub_port=servers.free_port()) as leaf:
        file = leaf.directory / "server.conf"
        assert Check.DISK_SPEED in [one.check for one in doctor(file) if one.level in (Level.WELL, Level.WARNING)]
        monkeypatch.setattr(os, "fdatasync", slow)
        one = found(file, Check.DISK_SPEED, Level.WARNING)
        left = sorted(path.name for path in (leaf.directory / "store" / "jetstream").iterdir())
    assert "messages a second" in one.text
    assert not [name for name in left if "doctor" in name or name.startswith("#")]


def test_a_store_that_is_nearly_full_is_found(tmp_path: Path) -> None:
    """A warning before publishers are refused, or a fault when they are."""
    text = LEAF.replace("domain: edge", "domain: edge, max_file_store: 64MB")

    async def fill(server: servers.Server) -> None:
        client = await nats.connect(server.url)
        await client.jetstream().add_stream(name="S", subjects=["s"])
        with contextlib.suppress(Exception):
            for _ in range(70):
                await client.jetstream().publish("s", bytes(1_000_000), timeout=60)
        await client.close()

    with servers.running(servers.LEAFD, text, hub_port=servers.free_port()) as leaf:
        asyncio.run(fill(leaf))
        levels = [one.level for one in doctor(leaf.directory / "server.conf") if one.check == Check.DISK_ROOM]
    assert {Level.WARNING, Level.FAULT} & set(levels)


@pytest.mark.parametrize(
    ("said", "level", "word"),
    [
        ("ActiveState=active\nNRestarts=0\nWatchdogUSec=30s\n", Level.WELL, "30s"),
        ("ActiveState=active\nNRestarts=4\nWatchdogUSec=30s\n", Level.WARNING, "4 times"),
        ("ActiveState=active\nNRestarts=0\nWatchdogUSec=0\n", Level.WARNING, "no watchdog"),
    ],
)
def test_what_systemd_says_of_the_service_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, level: Level, word: str
) -> None:
    """Restarts and a missing watchdog are warnings."""
    fake = tmp_path / "systemctl"
    fake.write_text(f"#!/bin/sh\ncat <<'END'\n{said}END\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(machine, "SYSTEMD", tmp_path)
    one = found(written(tmp_path, "listen: 127.0.0.1:4222\n"), Check.WATCHDOG, level)
    assert word in one.text


def test_a_login_by_key_alone_needs_one_for_the_doctor(tmp_path: Path) -> None:
    """Where the configuration has nkeys only, a seed that is named opens the way to the daemon; the seed is not
    shown."""
    key = jwts.Key("user")
    (tmp_path / "seed.nk").write_text(key.seed)
    users = f"authorization {{ users: [ {{ nkey: {key.public} }} ] }}\n"
    with servers.running(servers.REFERENCE, HUB.replace("MORE", "")) as hub:
        text = LEAF + users
        with servers.running(servers.LEAFD, text, hub_port=hub.ports["leaf_port"]) as leaf:
            file = leaf.directory / "server.conf"
            one = next(one for one in doctor(file) if one.about == "account $G")
            assert (one.level, "--creds" in one.text) == (Level.UNPROVEN, True)
            end = time.monotonic() + PATIENCE_S
            while True:
                said = examined(file, None, None, tmp_path / "seed.nk", 25.0)
                if (Check.FLOW_UP, Level.WELL) in [(one.check, one.level) for one in said]:
                    break
                assert time.monotonic() < end, said
    assert key.seed not in str(said)
