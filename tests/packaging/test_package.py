"""The packages: what is in them, how the service is confined, and that it runs on a clean system.

Needs root (it makes a Debian in a directory). Where systemd cannot be booted the service's command is started without
it, and the reason is printed.
"""

from __future__ import annotations

import gzip
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.test_pages import commands
from tests.packaging import machine
from tests.packaging.machine import ROOT

CLIENT = Path(__file__).with_name("publish.py")
EXPOSURE_MAX = 1.3
WATCHDOG_SECONDS = 3
# What a hub or a developer needs, and an edge box does not.
FOREIGN = ("pyspark", "py4j", "pyarrow", "pandas", "lmdb", "pytest", "meson", "pygments", "markdown_it")

pytestmark = [pytest.mark.package, pytest.mark.minutes(20)]


@pytest.fixture(scope="module")
def package(packages: dict[str, Path]) -> Path:
    return packages["deb"]


@pytest.fixture(scope="module")
def clean(package: Path, debian: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[machine.Machine]:
    """A clean system on which the package was installed and runs."""
    root = tmp_path_factory.mktemp("machine") / "root"
    machine.make_root(debian, root, package)
    # The unit's watchdog is patient; the test is not.
    extra = root / "etc/systemd/system/leafd.service.d/watchdog.conf"
    extra.parent.mkdir(parents=True)
    extra.write_text(f"[Service]\nWatchdogSec={WATCHDOG_SECONDS}\n")
    with machine.machine(root) as running:
        yield running


def client(running: machine.Machine, *arguments: str) -> int:
    """The number that the little client prints, run in the system's network."""
    return int(machine.sh(*running.network, sys.executable, CLIENT, *arguments, seconds=60))


def field(status: str, name: str) -> str:
    """A value of /proc/PID/status."""
    found = re.search(rf"^{name}:\s*(.*)$", status, re.MULTILINE)
    assert found, status
    return found[1]


def wait_until_it_serves(running: machine.Machine) -> None:
    machine.wait_for("the daemon answers", lambda: client(running, "count") >= 0, 30)


def test_package_holds_the_daemon_and_nothing_of_the_hub(package: Path) -> None:
    """The launcher, the C extension, the unit and the configuration are in it, and nothing for Spark or tests."""
    listing = machine.sh("dpkg-deb", "--contents", package)
    paths = re.findall(r"\./(\S+)", listing)

    for wanted in (
        "usr/bin/leafd",
        "usr/lib/leafd/site/leafd/_native.abi3.so",
        "usr/lib/systemd/system/leafd.service",
        "usr/lib/systemd/system/leafd@.service",
        "usr/lib/systemd/system/leafd.socket",
        "usr/lib/sysusers.d/leafd.conf",
        "etc/leafd/leafd.conf",
        "usr/share/man/man1/leafd.1.gz",
        "usr/share/man/man5/leafd.conf.5.gz",
        "usr/share/bash-completion/completions/leafd",
        "usr/share/zsh/vendor-completions/_leafd",
        "usr/share/fish/vendor_completions.d/leafd.fish",
        "usr/share/doc/leafd/reference.conf",
        "usr/share/doc/leafd/monitoring/leafd.rules.yml",
    ):
        assert wanted in paths
    inside = {
        path.split("/")[4] for path in paths if path.startswith("usr/lib/leafd/site/") and len(path.split("/")) > 4
    }
    assert set() == inside & set(FOREIGN)
    assert not any("leafd_spark" in path for path in paths), "the hub's, which has it by pip"


def test_package_brings_what_its_commands_run(package: Path) -> None:
    """A minimal Debian 13, as in a container, has neither systemd-sysusers nor useradd; openssl makes the authority of
    a hub, and leafd says so where it is not there."""
    assert "openssl" == machine.sh("dpkg-deb", "--field", package, "Recommends").strip()
    assert "useradd" in (ROOT / "packaging/deb/postinst").read_text()
    assert "passwd" in machine.sh("dpkg-deb", "--field", package, "Depends").strip().split(", ")


def test_rpm_has_the_same_files(packages: dict[str, Path]) -> None:
    """deb and rpm install the same files; only what belongs to the packers differs, and LMDB lies beside leafd."""
    listed = machine.sh("dpkg-deb", "--contents", packages["deb"]).splitlines()
    deb = {line.split()[5][1:] for line in listed if not line.startswith("d")}
    listed = machine.sh("rpm", "--query", "--package", "--list", "--verbose", packages["rpm"]).splitlines()
    rpm = {line.split()[8] for line in listed if not line.startswith("d")}

    assert {"/usr/share/doc/leafd/changelog.gz", "/usr/share/lintian/overrides/leafd"} | {
        "/usr/share/zsh/vendor-completions/_leafd"
    } == deb - rpm
    assert {
        "/usr/lib/leafd/site/leafd/liblmdb.so.0",
        "/usr/share/zsh/site-functions/_leafd",
    } == rpm - deb
    assert all(line.split()[2:4] == ["root", "root"] for line in listed)


def test_rpm_runs_from_where_it_is_unpacked(packages: dict[str, Path], tmp_path: Path) -> None:
    """rpm unpacks it, finds each file as it should be, and its code loads the LMDB that lies beside it."""
    rpm = ("rpm", "--root", tmp_path)
    machine.sh(*rpm, "--install", "--nodeps", "--noscripts", packages["rpm"])
    assert "" == machine.sh(*rpm, "--verify", "--nodeps", "leafd")

    site = tmp_path / "usr/lib/leafd/site"
    tried = "import sys; sys.path.insert(0, sys.argv[1]); import leafd.native; print(open('/proc/self/maps').read())"
    maps = machine.sh("/usr/bin/python3", "-BIS", "-c", tried, site)
    assert str(site / "leafd/liblmdb.so.0") in maps


def test_same_sources_give_the_same_bytes(packages: dict[str, Path], tmp_path: Path) -> None:
    """Another run packs the same packages, byte for byte."""
    again = machine.built(tmp_path)

    assert {kind: path.read_bytes() for kind, path in packages.items()} == {
        kind: path.read_bytes() for kind, path in again.items()
    }


def test_manual_pages_are_whole(package: Path, tmp_path: Path) -> None:
    """Every command and every key has its place in them, and the typesetter has nothing to complain of."""
    machine.bring_tools()
    machine.sh("dpkg-deb", "--extract", package, tmp_path)
    for name, words in (
        ("man1/leafd.1", ("leafd status [OPTIONS]", "leafd init [OPTIONS]", "--store_dir", "EXIT STATUS")),
        ("man5/leafd.conf.5", ("store_dir: ", "remotes: ", "memory_limit: ", "handshake_first: ")),
    ):
        page = gzip.decompress((tmp_path / f"usr/share/man/{name}.gz").read_bytes())
        done = subprocess.run(
            ["groff", "-man", "-Tascii", "-P-cbou", "-ww"], input=page, capture_output=True, check=True
        )
        assert (done.stderr, [one for one in words if one not in done.stdout.decode()]) == (b"", [])


def test_configuration_is_a_conffile(package: Path) -> None:
    """An administrator's changes to the configuration survive an upgrade."""
    assert "/etc/leafd/leafd.conf\n" == machine.sh("dpkg-deb", "--info", package, "conffiles")


def test_service_is_fenced_in(clean: machine.Machine) -> None:
    """systemd's own measure of how exposed the service is stays low, for instances, too, and it finds nothing wrong."""
    for name in ("leafd.service", "leafd@.service"):
        unit = clean.root / "usr/lib/systemd/system" / name
        said = machine.sh("systemd-analyze", "security", "--offline=yes", "--no-pager", unit)
        exposure = re.search(r"exposure level for leafd@?(?:\S*)\.service: ([\d.]+)", said)
        assert exposure, said
        assert float(exposure[1]) <= EXPOSURE_MAX
        if clean.booted:
            instance = name.replace("@.", "@one.")
            assert "" == clean.run("systemd-analyze", "verify", "--man=no", f"/usr/lib/systemd/system/{instance}")
    if clean.booted:
        assert "" == clean.run("systemd-analyze", "verify", "--man=no", "/usr/lib/systemd/system/leafd.socket")


def test_service_is_ready_after_installation(clean: machine.Machine) -> None:
    """After the installation the daemon has told that it is ready, and runs as its own user without any privilege."""
    if clean.booted:
        try:
            machine.wait_for("an active service", lambda: clean.show("ActiveState") == "active", 60)
        except AssertionError as error:
            error.add_note(clean.run("journalctl", "--no-pager", "-u", "leafd.service", "-n", "30"))
            raise
        status = clean.run("cat", f"/proc/{clean.show('MainPID')}/status")
        assert "notify" == clean.show("Type")
        assert "1" == field(status, "NoNewPrivs")
        assert "2" == field(status, "Seccomp")
    else:
        assert "READY=1" in clean.notified
        status = Path(f"/proc/{clean.main}/status").read_text()

    assert "0" != field(status, "Uid").split()[0]
    assert 0 == int(field(status, "CapEff"), 16)


def test_instances_run_beside_the_service(clean: machine.Machine) -> None:
    """leafd@NAME serves /etc/leafd/NAME.conf and keeps its streams in a state directory of its own."""
    if not clean.booted:
        pytest.skip("systemd does not boot here, and it is its unit that is tried")
    configuration = clean.root / "etc/leafd/one.conf"
    configuration.write_text("listen: 127.0.0.1:4223\njetstream { store_dir: /var/lib/leafd-one }\n")
    clean.run("systemctl", "start", "leafd@one.service")
    try:
        said = clean.run("systemctl", "is-active", "leafd@one.service", "leafd.service")
        assert (said.split(), (clean.root / "var/lib/leafd-one/jetstream").is_dir()) == (["active", "active"], True)
    finally:
        clean.run("systemctl", "stop", "leafd@one.service")


# An instance that is started by its first client and knows its secrets by name.
SECRETIVE = """
listen: 127.0.0.1:4224
jetstream { store_dir: /var/lib/leafd-two, max_memory_store: 16MB, key_file: store-key }
authorization { user: admin, password: $admin-password }
"""
SOCKET = "[Socket]\nListenStream=127.0.0.1:4224\nService=leafd@two.service\n"
CREDENTIALS = "[Service]\nLoadCredential=store-key:/etc/leafd/secrets/store-key\n"
CREDENTIALS += "LoadCredential=admin-password:/etc/leafd/secrets/admin-password\n"
LOGIN = """
import socket
with socket.create_connection(("127.0.0.1", 4224), 60) as connection:
    connection.sendall(b'CONNECT {"user":"admin","pass":"open sesame","verbose":false}\\r\\nPING\\r\\n')
    said = b""
    while b"PONG" not in said and b"ERR" not in said:
        said += connection.recv(4096)
print(said.splitlines()[1].decode())
"""


def test_a_first_client_starts_an_instance_with_secrets(clean: machine.Machine) -> None:
    """systemd opens its port and hands over socket and credentials; `systemctl status` and the journal tell of it."""
    if not clean.booted:
        pytest.skip("systemd does not boot here, and it is what hands them over")
    etc = clean.root / "etc"
    (etc / "leafd/two.conf").write_text(SECRETIVE)
    (etc / "leafd/secrets").mkdir(mode=0o700)
    for name, secret in (("store-key", "0123456789abcdef\n"), ("admin-password", "open sesame\n")):
        (etc / "leafd/secrets" / name).write_text(secret)
        (etc / "leafd/secrets" / name).chmod(0o600)
    (etc / "systemd/system/leafd-two.socket").write_text(SOCKET)
    (etc / "systemd/system/leafd@two.service.d").mkdir()
    (etc / "systemd/system/leafd@two.service.d/credentials.conf").write_text(CREDENTIALS)
    clean.run("systemctl", "daemon-reload")
    clean.run("systemctl", "start", "leafd-two.socket")
    unit = "leafd@two.service"
    try:
        assert "inactive" == clean.show("ActiveState", unit)
        assert "PONG" == machine.sh(*clean.network, sys.executable, "-c", LOGIN, seconds=90).strip()
        machine.wait_for("an active instance", lambda: clean.show("ActiveState", unit) == "active", 60)
        line = r"\d+ clients?, \d+ .B free"
        machine.wait_for("the line", lambda: re.fullmatch(line, clean.show("StatusText", unit)) is not None, 30)
        said = clean.run("journalctl", "--no-pager", "-o", "json", "-u", unit, "LEAFD_EVENT=ready")
        entry = json.loads(said.splitlines()[-1])
        assert ("Server is ready", "6", "About.log_start", "leafd") == tuple(
            entry[name] for name in ("MESSAGE", "PRIORITY", "CODE_FUNC", "SYSLOG_IDENTIFIER")
        )
        assert "open sesame" not in clean.run("journalctl", "--no-pager", "-o", "export")
        assert "two.conf: valid" in clean.run("leafd", "check", "/etc/leafd/two.conf"), "with the service's secrets"
    finally:
        clean.run("systemctl", "stop", "leafd-two.socket", unit)


def test_a_wrong_configuration_is_not_tried_again(clean: machine.Machine) -> None:
    """The service fails at once with status 78, and systemd leaves it at that."""
    if not clean.booted:
        pytest.skip("systemd does not boot here, and it is what would try again")
    (clean.root / "etc/leafd/three.conf").write_text("prot: 4225\n")
    unit = "leafd@three.service"
    clean.run("sh", "-c", f"systemctl start {unit} || true")
    assert ("78", "0", "failed") == tuple(
        clean.show(name, unit) for name in ("ExecMainStatus", "NRestarts", "ActiveState")
    )


def test_reload_takes_a_new_configuration(clean: machine.Machine) -> None:
    """After `systemctl reload` the same process keeps to the changed configuration."""
    if not clean.booted:
        pytest.skip("systemd does not boot here, and it is its command that is tried")
    configuration = clean.root / "etc/leafd/leafd.conf"
    process = clean.show("MainPID")
    configuration.write_text(f"{configuration.read_text()}\nmax_payload: 12345\n")
    clean.run("systemctl", "reload", "leafd.service")

    machine.wait_for("the new max_payload", lambda: client(clean, "max_payload") == 12345, 10)
    assert process == clean.show("MainPID")


def test_watchdog_is_fed_and_bites(clean: machine.Machine) -> None:
    """A running daemon stays for many times the watchdog's limit; one that hangs is replaced."""
    if not clean.booted:
        pytest.skip("systemd does not boot here, so there is nobody who watches")
    process = clean.show("MainPID")
    time.sleep(2.5 * WATCHDOG_SECONDS)
    assert process == clean.show("MainPID")

    clean.run("sh", "-c", f"kill -STOP {process}")

    machine.wait_for("another process", lambda: clean.show("MainPID") not in ("0", process), 60)
    machine.wait_for("an active service", lambda: clean.show("ActiveState") == "active", 30)


def test_the_packaged_socket_starts_the_service(clean: machine.Machine) -> None:
    """With leafd.socket the first client starts leafd, with the packaged configuration, and is served."""
    if not clean.booted:
        pytest.skip("systemd does not boot here, and it is what opens the port")
    clean.run("systemctl", "stop", "leafd.service")
    clean.run("systemctl", "start", "leafd.socket")
    assert "inactive" == clean.show("ActiveState")
    assert client(clean, "max_payload") > 0
    machine.wait_for("an active service", lambda: clean.show("ActiveState") == "active", 60)
    clean.run("systemctl", "stop", "leafd.socket")


def test_acknowledged_messages_survive_kill_9(clean: machine.Machine) -> None:
    """Acknowledged messages are there after kill -9, and systemd starts the daemon again."""
    before = client(clean, "publish", "50")
    if not clean.booted:
        assert 50 == before == client(clean, "count")
        return
    killed = clean.show("MainPID")
    clean.run("sh", "-c", f"kill -9 {killed}")
    wait_until_it_serves(clean)

    assert 50 == before == client(clean, "count")
    assert killed != clean.show("MainPID")


def test_the_guide_s_commands_work_on_a_clean_system_as_they_stand(clean: machine.Machine) -> None:
    """Each of leafd and systemctl, by root and without more words than the guide has; a backup that is put back is the
    service's own, with all messages. (nats is not there; tests/interop/test_pages.py tries its commands.)"""
    if not clean.booted:
        pytest.skip("systemd does not boot here, and it is its service that the commands are about")
    before = client(clean, "count")
    for line in commands((ROOT / "packaging/doc/guide.md").read_text()):
        program, *words = shlex.split(line)
        if program not in ("leafd", "systemctl", "touch"):
            continue
        restored = words[:2] == ["store", "restore"]
        if restored or program == "touch":
            clean.run("systemctl", "stop", "leafd")  # as the guide says
        if restored:
            clean.run("mv", "/var/lib/leafd/jetstream", "/var/lib/leafd/before")
        if program == "leafd" and words[0] in ("status", "doctor"):  # a machine that many tests share may be slow
            clean.run("sh", "-c", f"{line} || test $? = 3")
        else:
            clean.run(program, *words)
        if restored:
            clean.run("systemctl", "start", "leafd")
            wait_until_it_serves(clean)
            assert before == client(clean, "count")
    wait_until_it_serves(clean)
    assert before == client(clean, "count")
    assert not (clean.root / "var/lib/leafd/jetstream/accept-loss").exists(), "it counts for one start"


def test_what_init_writes_runs_under_the_service(clean: machine.Machine) -> None:
    """README's commands: the box's key is the service's to read and nobody else's, a hub that is not found is named,
    and a hub serves leaves."""
    if not clean.booted:
        pytest.skip("systemd does not boot here, and it is its service that runs")
    hub, restart = commands((ROOT / "README.md").read_text().split("\n## A hub and a box")[1])[:2]
    leaf = "leafd init leaf --name box-0001 --hub hub.example.org --force"
    before = (clean.root / "etc/leafd/leafd.conf").read_text()
    try:
        assert "leafd hub add U" in clean.run(*shlex.split(leaf))
        clean.run(*shlex.split(restart))
        wait_until_it_serves(clean)
        assert "no link to the hub" in clean.run("sh", "-c", "leafd status; test $? = 3")
        assert "hub-address" in clean.run("sh", "-c", "leafd doctor; test $? = 3")
        assert "640 root leafd" == clean.run("stat", "-c", "%a %U %G", "/etc/leafd/box-0001.nk").strip()
        clean.run(*shlex.split(hub))
        clean.run(*shlex.split(restart))
        assert machine.sh(*clean.network, sys.executable, "-c", FIRST_LINE).startswith("INFO {")
    finally:
        (clean.root / "etc/leafd/leafd.conf").write_text(before)
        clean.run("systemctl", "restart", "leafd")


FIRST_LINE = 'import socket; print(socket.create_connection(("127.0.0.1", 7422), 60).recv(6).decode())'


def test_stop_is_clean(clean: machine.Machine) -> None:
    """A stop ends the daemon without a complaint."""
    if clean.booted:
        clean.run("systemctl", "stop", "leafd.service")

        assert "success" == clean.show("Result")
        assert "inactive" == clean.show("ActiveState")
    else:
        assert clean.process is not None
        clean.process.terminate()

        assert 0 == clean.process.wait(10)


def test_an_upgrade_restarts_the_instances_that_run_and_a_removal_stops_them(
    clean: machine.Machine, package: Path, tmp_path: Path
) -> None:
    """One that does not run is not started. Configurations and streams of instances stay, also after a purge, which
    says so."""
    if not clean.booted:
        pytest.skip("systemd does not boot here, and it is what restarts and stops them")
    (clean.root / "etc/leafd/up.conf").write_text(
        "listen: 127.0.0.1:4226\njetstream { store_dir: /var/lib/leafd-up }\n"
    )
    (clean.root / "etc/leafd/down.conf").write_text("listen: 127.0.0.1:4227\n")
    clean.run("systemctl", "start", "leafd@up.service")
    before = clean.show("MainPID", "leafd@up.service")
    shutil.copy(machine.newer(package, tmp_path), clean.root / "var/newer.deb")

    clean.run("dpkg", "--install", "/var/newer.deb")
    after = clean.show("MainPID", "leafd@up.service")
    states = [clean.show("ActiveState", f"{name}.service") for name in ("leafd", "leafd@up", "leafd@down")]
    assert (states, after in ("0", before)) == (["active", "active", "inactive"], False)

    clean.run("dpkg", "--remove", "leafd")
    states = [clean.show("ActiveState", f"{name}.service") for name in ("leafd", "leafd@up", "leafd@down")]
    assert states == ["inactive"] * 3
    said = clean.run("dpkg", "--purge", "leafd")
    assert ("/var/lib/leafd holds streams" in said, "/var/lib/leafd-up holds streams" in said) == (True, True)
    assert (clean.root / "etc/leafd/up.conf").exists()
    assert (clean.root / "var/lib/leafd-up/jetstream/data.mdb").exists()
