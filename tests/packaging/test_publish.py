"""The repositories that packaging/publish makes: clean systems install leafd from them, and refuse what was changed.

A web server on this machine hands them out. Debian is a clean one in a directory. For dnf the same Debian serves, whose
rpm database is told what it has: no distribution with rpm is to be had here.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import runpy
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.packaging import machine
from tests.packaging.machine import ROOT

TOOLS = {"createrepo_c": "createrepo-c", "dnf": "dnf", "gpg": "gpg"}
VERSION = (ROOT / "agent" / "leafd" / "VERSION").read_text().strip()
# What leafd's rpm asks for and a distribution with rpm has: said by a package without files.
STAND_IN = """\
Name: distribution
Version: 1
Release: 1
Summary: what the Debian below has
License: none
BuildArch: noarch
AutoReqProv: no
{provides}
%description
Nothing.
%files
"""

pytestmark = [pytest.mark.package, pytest.mark.minutes(20)]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@dataclass
class Published:
    """A folder, where it is handed out, and how it was made."""

    folder: Path
    address: str
    packages: Path
    home: Path  # of GnuPG

    def publish(self, *, image: bool = False) -> subprocess.CompletedProcess[str]:
        machine.bring_tools(machine.TOOLS | TOOLS)
        command: list[str | Path] = [sys.executable, ROOT / "packaging/publish", self.folder, self.address]
        command += ["--packages", self.packages, *([] if image else ["--no-image"])]
        environment = {**os.environ, "GNUPGHOME": str(self.home)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800)

    def close(self) -> None:
        """Ends the agents that GnuPG has started for this key."""
        subprocess.run(["gpgconf", "--homedir", self.home, "--kill", "all"], capture_output=True)


@contextlib.contextmanager
def served(base: Path) -> Iterator[Published]:
    """The packages in base/dist, published, and handed out while the block runs."""
    folder = base / "www"
    folder.mkdir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        made = Published(folder, f"http://127.0.0.1:{server.server_port}", base / "dist", base / "gpg")
        try:
            done = made.publish()
            assert done.returncode == 0, done.stdout + done.stderr
            yield made
        finally:
            server.shutdown()
            thread.join()
            made.close()


@pytest.fixture(scope="module")
def published(packages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    assert os.geteuid() == 0, "this test makes a Debian system in a directory: run it as root"
    base = tmp_path_factory.mktemp("publish")
    (base / "dist").mkdir()
    for path in packages.values():
        shutil.copy(path, base / "dist")
    with served(base) as made:
        yield made


@pytest.fixture
def clean(debian: Path, tmp_path: Path) -> Path:
    """A copy of a clean Debian for one test, with no source of packages."""
    root = tmp_path / "root"
    machine.copy_root(debian, root)
    for path in [root / "etc/apt/sources.list", *(root / "etc/apt/sources.list.d").iterdir()]:
        path.unlink(missing_ok=True)
    return root


def apt(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = ["chroot", root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", *words]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)


def knowing(root: Path, published: Published) -> None:
    """The one file that README.txt has a reader fetch."""
    shutil.copy(published.folder / "leafd.sources", root / "etc/apt/sources.list.d/leafd.sources")


def dnf(root: Path, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """dnf of this machine, at work in another root, with what it keeps there as well."""
    command: list[str | Path] = [
        "dnf",
        "--installroot",
        root,
        "--setopt",
        f"reposdir={folder}",
        "--releasever",
        "1",
        "-y",
        *words,
    ]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)


def with_rpm(root: Path, package: Path, folder: Path) -> None:
    """Gives a Debian an rpm database that has what the package asks for."""
    asked = machine.sh("rpm", "--query", "--package", "--requires", package).splitlines()
    names = sorted({line.split()[0] for line in asked if not line.startswith("rpmlib(")} - {"python3"})
    provides = "".join(f"Provides: {name}\n" for name in [*names, "python3 = 3.11.2"])
    (folder / "stand-in.spec").write_text(STAND_IN.format(provides=provides))
    machine.sh("rpmbuild", "-bb", "--define", f"_topdir {folder}/rpmbuild", folder / "stand-in.spec")
    (made,) = (folder / "rpmbuild").rglob("*.rpm")
    machine.sh("rpm", "--root", root, "--install", "--nosignature", made)


def test_a_clean_debian_installs_leafd_and_its_newer_version(published: Published, clean: Path, tmp_path: Path) -> None:
    """One file and two commands do it, as README.txt says. A version that is published later is an upgrade, and the
    older one can still be had."""
    assert f"{published.address}/leafd.sources" in (published.folder / "README.txt").read_text()
    knowing(clean, published)
    assert apt(clean, "update", "--error-on=any").returncode == 0
    done = apt(clean, "install", "leafd")
    assert done.returncode == 0, done.stdout + done.stderr
    assert VERSION in machine.sh("chroot", clean, "leafd", "--version")

    pool = published.folder / "deb/pool"
    (package,) = pool.iterdir()
    newer = pool / package.name.replace(VERSION, f"{VERSION}.1")
    shutil.copy(machine.newer(package, tmp_path), newer)
    try:
        assert published.publish().returncode == 0
        assert apt(clean, "update", "--error-on=any").returncode == 0
        assert apt(clean, "upgrade").returncode == 0
        asked = ("chroot", clean, "dpkg-query", "--showformat", "${Version}", "--show", "leafd")
        assert f"{VERSION}.1" == machine.sh(*asked)
        assert apt(clean, "install", "--allow-downgrades", f"leafd={VERSION}").returncode == 0
    finally:
        newer.unlink()
        assert published.publish().returncode == 0


def test_apt_refuses_what_was_changed_and_what_another_signed(published: Published, clean: Path) -> None:
    """An index that is not the signed one, a package that is not the index's, a release under another key."""
    knowing(clean, published)
    pool, suite = published.folder / "deb/pool", published.folder / "deb/dists/stable"
    (package,) = pool.iterdir()
    whole, signed = package.read_bytes(), (suite / "InRelease").read_bytes()
    assert apt(clean, "update", "--error-on=any").returncode == 0
    try:
        package.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        assert apt(clean, "install", "leafd").returncode != 0
        (suite / "InRelease").write_bytes(signed.replace(b"Suite: stable", b"Suite: oldest"))
        later = time.time() + 60  # HTTP has whole seconds: what changes within one is not fetched again
        os.utime(suite / "InRelease", (later, later))
        assert apt(clean, "update", "--error-on=any").returncode != 0
    finally:
        package.write_bytes(whole)
        (suite / "InRelease").write_bytes(signed)
    assert not (clean / "usr/bin/leafd").exists()

    source = clean / "etc/apt/sources.list.d/leafd.sources"
    head = source.read_text().partition("Signed-By:")[0]
    source.write_text(f"{head}Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n")
    done = apt(clean, "update", "--error-on=any")
    assert (done.returncode != 0, "NO_PUBKEY" in done.stdout + done.stderr) == (True, True)


def test_dnf_installs_leafd_and_refuses_an_index_that_was_changed(
    published: Published, clean: Path, tmp_path: Path
) -> None:
    """The package's and the index's signature are both asked for, by the file that README.txt has a reader fetch."""
    said = (published.folder / "leafd.repo").read_text()
    assert ("\ngpgcheck=1\n" in said, "\nrepo_gpgcheck=1\n" in said) == (True, True)
    (package,) = (published.folder / "rpm").rglob("*.rpm")
    with_rpm(clean, package, tmp_path)
    folder = tmp_path / "yum.repos.d"
    folder.mkdir()
    shutil.copy(published.folder / "leafd.repo", folder)

    index = package.parent / "repodata/repomd.xml"
    whole = index.read_bytes()
    try:
        index.write_bytes(whole.replace(b"</repomd>", b"<!-- --></repomd>"))
        done = dnf(clean, "install", "leafd", folder=folder)
        assert (done.returncode != 0, (clean / "usr/bin/leafd").exists()) == (True, False)
        assert "repomd.xml GPG signature verification error" in done.stdout + done.stderr
    finally:
        index.write_bytes(whole)
    done = dnf(clean, "install", "leafd", folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert VERSION in machine.sh("chroot", clean, "leafd", "--version")
    assert "leafd-" in machine.sh("rpm", "--root", clean, "--query", "leafd")
    unsigned = next(published.packages.glob("*.rpm"))
    keys: list[str | Path] = ["rpmkeys", "--root", clean, "--define", "_pkgverify_level all", "--checksig"]
    assert machine.sh(*keys, package).strip().endswith("digests signatures OK")
    assert subprocess.run([*keys, unsigned], capture_output=True).returncode != 0


def test_a_version_that_was_published_keeps_its_bytes(published: Published) -> None:
    """The same packages again change none. Others under the same version are refused, and nothing is changed."""
    (deb,), (rpm,) = (list(published.folder.rglob(f"leafd*.{kind}")) for kind in ("deb", "rpm"))
    whole = {path: path.read_bytes() for path in (deb, rpm)}
    assert published.publish().returncode == 0
    assert whole == {path: path.read_bytes() for path in (deb, rpm)}

    signed = (published.folder / "deb/dists/stable/InRelease").read_bytes()
    own = published.packages / deb.name
    try:
        own.write_bytes(whole[deb] + b"\n")
        done = published.publish()
    finally:
        own.write_bytes(whole[deb])
    assert (done.returncode != 0, "raise agent/leafd/VERSION" in done.stderr) == (True, True)
    assert signed == (published.folder / "deb/dists/stable/InRelease").read_bytes()
    assert whole[deb] == deb.read_bytes()


@pytest.mark.parametrize(
    ("there", "missing"), [("leafd_{}_amd64.deb", "rpm"), ("leafd-{}-1.x86_64.rpm", "deb"), ("", "deb")]
)
def test_a_folder_without_one_kind_of_package_is_refused_before_anything_changes(
    tmp_path: Path, there: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --all packaging/build makes the deb of this machine alone, and a repository of rpms would be empty."""
    if there:
        (tmp_path / there.format(VERSION)).touch()
    monkeypatch.syspath_prepend(ROOT / "packaging")
    packages_of = runpy.run_path(str(ROOT / "packaging" / "publish"))["packages_of"]
    with pytest.raises(SystemExit, match=f"has no {missing} of leafd .*--all makes both kinds"):
        packages_of(tmp_path)
