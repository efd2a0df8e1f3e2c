"""A repository for apt: DIRECTORY/deb, as a web server hands it out.

    deb/pool/leafd_0.1.0_amd64.deb
    deb/dists/stable/InRelease, Release, Release.gpg     signed; names every index with its SHA-256
    deb/dists/stable/main/binary-amd64/Packages[.gz]     one stanza a package
    deb/dists/stable/main/binary-amd64/by-hash/SHA256/   the same files by their digest: a client that has read the
                                                         release before this one still finds its indexes

Not here: the packages (deb.py), what is said to a client (publishing.py).
"""

from __future__ import annotations

import gzip
import hashlib
import os
from email.utils import formatdate
from pathlib import Path

from packer.command import run
from packer.signing import Signer

SUITE, COMPONENT = "stable", "main"
PROGRAMS = {"dpkg-deb": "dpkg"}


def stanza(root: Path, package: Path) -> str:
    """A package's entry in an index: its control file, and where and how long it is."""
    data = package.read_bytes()
    control = run("dpkg-deb", "--field", package).strip()
    place = package.relative_to(root)
    return f"{control}\nFilename: {place}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"


def put(path: Path, data: bytes) -> None:
    """Writes a file that somebody may be reading: the old one or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(data)
    os.replace(new, path)


def release(indexes: dict[str, bytes], architectures: list[str], origin: str, now: float) -> str:
    lines = [f"Origin: {origin}", f"Label: {origin}", f"Suite: {SUITE}", f"Codename: {SUITE}"]
    lines += [
        f"Date: {formatdate(now, usegmt=True).replace('GMT', 'UTC')}",
        f"Architectures: {' '.join(architectures)}",
    ]
    lines += [f"Components: {COMPONENT}", "Acquire-By-Hash: yes", "SHA256:"]
    lines += [f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}" for name, data in indexes.items()]
    return "\n".join(lines) + "\n"


def publish(root: Path, signer: Signer, origin: str, now: float) -> None:
    """Makes the indexes of all packages in the pool anew. Readers see the old state or the new one."""
    suite = root / "dists" / SUITE
    stanzas: dict[str, list[str]] = {}
    for package in sorted((root / "pool").glob("*.deb")):
        stanzas.setdefault(package.stem.rsplit("_", 1)[1], []).append(stanza(root, package))
    indexes: dict[str, bytes] = {}
    for architecture, found in sorted(stanzas.items()):
        text = "\n".join(found).encode()
        place = f"{COMPONENT}/binary-{architecture}/Packages"
        indexes |= {place: text, f"{place}.gz": gzip.compress(text, 9, mtime=0)}
    before = set(suite.glob("*/*/by-hash/SHA256/*"))
    for name, data in indexes.items():
        hashed = suite / Path(name).parent / "by-hash" / "SHA256" / hashlib.sha256(data).hexdigest()
        put(hashed, data)
        before.discard(hashed)
    said = (suite / "Release").read_text() if (suite / "Release").exists() else ""
    for old in before:
        if old.name not in said:  # neither of the new release nor of the one that clients may be reading
            old.unlink()

    making = suite / ".making"
    making.write_text(release(indexes, sorted(stanzas), origin, now))
    signer.around(making, suite / ".InRelease")
    apart = signer.beside(making)
    for name, data in indexes.items():
        put(suite / name, data)
    os.replace(making, suite / "Release")
    os.replace(apart, suite / "Release.gpg")
    os.replace(suite / ".InRelease", suite / "InRelease")  # the one that apt reads
