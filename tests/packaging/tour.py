"""Steps that take too long for tests/run: python -m tests.packaging.tour [STEP ...], as root; without a name all.

    packages    all six packages, built twice, the second time from nothing in a copy of the sources at another place:
                the same bytes; their sizes
    linters     lintian and rpmlint; what they may find, and why, is in LEFT
    materials   the bill of materials against CycloneDX's own schema
    c-tests     the C tests, compiled for each ARM and run with qemu
    debian12    a clean Debian 12: installed with apt, upgraded while a stream is in use, removed, purged
    debian13    the same with Debian 13
    hubs        the Ansible role and the Helm chart: their linters; the role run twice on a clean Debian 12; the chart's
                configuration read by leafd. Without helm on PATH the chart is left out, and that is said

Each step prints what it saw and one line at its end; the status is 0 when all went well.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests import jwts
from tests.certificates import Authority
from tests.packaging import arm, machine
from tests.packaging.machine import built
from tests.packaging.test_publish import served

ROOT = Path(__file__).resolve().parent.parent.parent
CLIENT = Path(__file__).with_name("publish.py")
DEB_BYTES_MAX = 12_000_000
INSTALLED_KB_MAX = 60_000
LINTERS = {"lintian": "lintian", "rpmlint": "rpmlint"}
# What rpmlint finds and we leave: the words of each and the reason. (lintian's are in packaging/deb/lintian-overrides.)
LEFT = {
    "no-signature": "whoever distributes the package signs it",
    "no-packager-tag": "the same",
    "no-url-tag": "there is no page",
    "no-changelogname-tag": "the history of the sources tells what changed",
    "invalid-license": "older releases of rpmlint know Apache-2.0 by another name",
    "files-duplicate": "each Python library brings its own licence and marks",
    "manpage-not-compressed": "gzip, as on the distributions; bz2 is Mandriva's",
    "no-manual-page-for-binary": "leafd.1.gz is there; rpmlint looks for .bz2",
    "running with root privileges": "about lintian's own run",
}

VALID = """
import json, sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
text = open(sys.argv[1]).read()
error = JsonStrictValidator(SchemaVersion.from_version(json.loads(text)["specVersion"])).validate_str(text)
assert error is None, error
print(len(json.loads(text)["components"]), "components, as the schema of CycloneDX has them")
"""
# C tests that say nothing here, and why.
NOT_WITH_QEMU = {
    "test_cipher": "qemu does not hand on how memory is marked (not dumped, locked)",
    "test_store_crash": "it wants a thousand messages stored before each kill, for which qemu may be too slow",
}


def build(sources: Path, directory: Path, *arguments: str) -> list[Path]:
    said = machine.sh(sys.executable, sources / "packaging" / "build", *arguments, directory, seconds=3600)
    return [Path(line) for line in said.splitlines()]


def packages(directory: Path) -> None:
    first = build(ROOT, directory / "first", "--all")
    with tempfile.TemporaryDirectory(prefix="another-place-") as place:
        copy = Path(place) / "leafd"
        machine.sh("git", "clone", "--quiet", ROOT, copy)
        second = build(copy, directory / "second", "--all")
    for one, other in zip(first, second, strict=True):
        same = one.read_bytes() == other.read_bytes()
        print(f"{one.name}: {one.stat().st_size:,} bytes, {'the same twice' if same else 'DIFFERS'}")
        assert same
        if one.suffix == ".deb":
            size = int(machine.sh("dpkg-deb", "--field", one, "Installed-Size"))
            assert one.stat().st_size <= DEB_BYTES_MAX
            assert size <= INSTALLED_KB_MAX


def linters(directory: Path) -> None:
    machine.bring_tools(LINTERS)
    unexplained = []
    for package in build(ROOT, directory / "linted", "--kind", "deb", "--kind", "rpm"):
        command = ["lintian", "--allow-root"] if package.suffix == ".deb" else ["rpmlint"]
        done = subprocess.run([*command, str(package)], capture_output=True, text=True)
        for line in (done.stdout + done.stderr).splitlines():
            if re.search(r"\b[EW]: ", line) and "badness" not in line:
                reasons = [reason for words, reason in LEFT.items() if words in line]
                print(f"{line[:120]}   <- {reasons[0] if reasons else 'NO REASON'}")
                unexplained += [] if reasons else [line]
    assert [] == unexplained


def materials(directory: Path) -> None:
    """The schema is in the library that CycloneDX itself has for Python, which an environment of its own gets."""
    deb, rpm = build(ROOT, directory / "built", "--kind", "deb", "--kind", "rpm")
    tools = directory / "tools"
    machine.sh(sys.executable, "-m", "venv", tools)
    machine.sh(tools / "bin/pip", "install", "--quiet", "cyclonedx-python-lib[json-validation]")
    machine.sh("dpkg-deb", "--extract", deb, directory / "deb")
    (directory / "rpm").mkdir()
    machine.sh("sh", "-c", f"rpm2cpio {rpm} | cpio --quiet -idm -D {directory / 'rpm'}")
    for kind in ("deb", "rpm"):
        (bill,) = (directory / kind / "usr").rglob("leafd.cdx.json")
        print(f"{kind}: {machine.sh(tools / 'bin/python', '-c', VALID, bill).strip()}")


def c_tests(directory: Path) -> None:
    """Their build takes the compiler and libraries with which the packages' code was made."""
    machine.bring_tools(arm.TOOLS)
    for architecture, qemu in arm.QEMU.items():
        build(ROOT, directory / "unused", "--arch", architecture)
        work = ROOT / "build" / "package" / architecture
        wrapper = directory / f"{architecture}.ini"
        wrapper.write_text(f"[binaries]\nexe_wrapper = ['{qemu}', '-L', '{work / 'sysroot'}']\n")
        folder = directory / f"c-tests-{architecture}"
        cross = ("--cross-file", work / "cross.ini", "--cross-file", wrapper)
        machine.sh("meson", "setup", folder, *cross, "-Dwerror=false")
        machine.sh("ninja", "-C", folder, seconds=3600)
        command = ["meson", "test", "-C", str(folder), "--no-rebuild"]
        listed = [line.split(":")[-1].strip() for line in machine.sh(*command, "--list").splitlines()]
        command += ["--timeout-multiplier", "40", *(name for name in listed if name not in NOT_WITH_QEMU)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(architecture, *[line for line in done.stdout.splitlines() if re.match(r"(Ok|Fail|Timeout):", line)])
        assert done.returncode == 0, done.stdout[-8000:]


def count(running: machine.Machine) -> int:
    return int(machine.sh(*running.network, sys.executable, CLIENT, "count", seconds=60))


def debian(release: str, directory: Path) -> None:
    machine.bring_tools()
    package = build(ROOT, directory / "deb")[0]
    root = directory / release
    machine.sh("mmdebstrap", "--quiet", "--variant=apt", release, root)
    inside = ("chroot", root, "env", "DEBIAN_FRONTEND=noninteractive")
    for path, name in ((package, "leafd.deb"), (machine.newer(package, directory), "newer.deb")):
        shutil.copy(path, root / "tmp" / name)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    machine.sh(*inside, "apt-get", "update", "-q")
    machine.sh(*inside, "apt-get", "install", "-q", "-y", "--no-install-recommends", "/tmp/leafd.deb")
    installed = int(machine.sh("du", "-sk", root / "usr/lib/leafd").split()[0])
    print(f"{release}: installed with its dependencies; {installed:,} KB with byte code")
    assert installed <= INSTALLED_KB_MAX

    changed = root / "etc/leafd/leafd.conf"
    changed.write_text(changed.read_text() + "\nmax_payload: 12345\n")
    with machine.bare(root) as running:
        assert 200 == int(machine.sh(*running.network, sys.executable, CLIENT, "publish", "200"))
        machine.sh(*inside, "apt-get", "install", "-q", "-y", "/tmp/newer.deb")
        assert 200 == count(running), "the daemon that runs goes on while its files are replaced"
    with machine.bare(root) as running:
        assert 200 == count(running), "the newer one has the stream"
    assert "max_payload: 12345" in changed.read_text()
    print(f"{release}: upgraded while a stream was in use; 200 of 200 messages and the changed configuration are there")

    machine.sh(*inside, "apt-get", "remove", "-q", "-y", "leafd")
    assert (False, True) == ((root / "usr/lib/leafd").exists(), changed.exists())
    machine.sh(*inside, "apt-get", "purge", "-q", "-y", "leafd")
    assert (False, True) == (changed.exists(), (root / "var/lib/leafd/jetstream/data.mdb").exists())
    print(f"{release}: removed, and purged: nothing is left but the streams")


# The chart's configuration, as `helm template` renders it, with the secret's files in a folder of ours.
RENDERED = """
import sys, yaml
(found,) = (one for one in yaml.safe_load_all(sys.stdin) if one["kind"] == "ConfigMap")
print(found["data"]["leafd.conf"].replace("/run/secrets/leafd", sys.argv[1]))
"""


def hubs(directory: Path) -> None:
    tools, source = directory / "tools", ROOT / "packaging"
    machine.sh(sys.executable, "-m", "venv", tools)
    machine.sh(tools / "bin/pip", "install", "--quiet", "ansible-lint")
    machine.sh("env", "-C", source / "ansible", tools / "bin/ansible-lint", "--offline", "--strict", "hub.yml", "roles")
    print("the role: nothing that ansible-lint's strictest profile minds")
    if shutil.which("helm"):
        chart(source / "helm" / "leafd-hub", tools / "bin/python", directory)
    else:
        print("the chart: NOT TRIED, there is no helm here")
    built(directory / "dist")
    with served(directory) as published:
        role(directory, published.address)


def chart(source: Path, python: Path, directory: Path) -> None:
    machine.sh("helm", "lint", "--strict", source)
    secrets = directory / "secrets"
    secrets.mkdir()
    made = Authority(secrets)
    pair = made.issue("hub")
    for name, path in (("tls.crt", pair.certificate), ("tls.key", pair.key), ("ca.crt", made.certificate)):
        shutil.copy(path, secrets / name)
    key = jwts.Key("user").public
    text = machine.sh("helm", "template", "hub", source, "--set", f"programs={key}")
    said = subprocess.run([python, "-c", RENDERED, secrets], input=text, capture_output=True, text=True, check=True)
    configuration = directory / "chart.conf"
    configuration.write_text(said.stdout)
    print("the chart:", machine.sh(sys.executable, "-m", "leafd", "check", configuration).splitlines()[0])


def role(directory: Path, address: str) -> None:
    """Ansible runs inside, since it can reach a mere directory only with more than its core."""
    root = directory / "hub"
    machine.sh("mmdebstrap", "--quiet", "--variant=apt", "--include=python3", machine.RELEASE, root)
    python = ("--python-version", "3.11", "--only-binary", ":all:")
    machine.sh(sys.executable, "-m", "pip", "install", "-q", *python, "--target", root / "opt/ansible", "ansible-core")
    shutil.copytree(ROOT / "packaging" / "ansible", root / "root/ansible")
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    given = ("-e", f"leafd_hub_repository={address}", "-e", '{"leafd_hub_addresses": ["hub.example.org"]}')
    inside = ("chroot", root, "env", "LC_ALL=C.UTF-8", "PYTHONPATH=/opt/ansible", "python3", "-m", "ansible")
    for wanted in ("changed=3", "changed=0"):
        said = machine.sh(*inside, "playbook", "-c", "local", "-i", "localhost,", *given, "/root/ansible/hub.yml")
        assert wanted in said, said
    print(
        "the role:", machine.sh("chroot", root, "leafd", "check").splitlines()[0], "and the second run changed nothing"
    )
    assert (root / "etc/leafd/hub-ca.pem").exists()


STEPS: dict[str, Callable[[Path], None]] = {
    "packages": packages,
    "linters": linters,
    "materials": materials,
    "c-tests": c_tests,
    "debian12": lambda directory: debian("bookworm", directory),
    "debian13": lambda directory: debian("trixie", directory),
    "hubs": hubs,
}


def main() -> int:
    assert os.geteuid() == 0, "this makes Debian systems in directories: run it as root"
    wrong = 0
    for name in sys.argv[1:] or STEPS:
        with tempfile.TemporaryDirectory(prefix="leafd-tour-") as directory:
            try:
                STEPS[name](Path(directory))
                print(f"{name}: well")
            except AssertionError as error:
                print(f"{name}: FAILED: {error}")
                wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
