"""Repositories for dnf and yum: DIRECTORY/rpm/BASEARCH, each with its packages and their signed indexes (repodata).

The indexes are made by createrepo_c. The packages carry a signature in their header; what `packaging/build` made has
none, so that the same sources give the same bytes.

Not here: the packages (rpm.py), what is said to a client (publishing.py).
"""

from __future__ import annotations

import shutil
from pathlib import Path

from packer.command import run
from packer.signing import Signer

PROGRAMS = {"createrepo_c": "createrepo-c", "rpmsign": "rpm"}
# What dnf calls a kind of machine ($basearch), where that is not rpm's name of it.
BASES = {"armv7hl": "armhfp"}


def base(package: Path) -> str:
    """The folder for a package of that name."""
    architecture = package.stem.rsplit(".", 1)[1]
    return BASES.get(architecture, architecture)


def same(package: Path, other: Path) -> bool:
    """Whether two packages hold the same, whoever signed them: by the digest that their headers have of all but the
    signature."""
    asked = ("rpm", "--query", "--package", "--nosignature", "--queryformat", "%{SHA256HEADER}")
    return run(*asked, package) == run(*asked, other)


def publish(root: Path, signer: Signer) -> None:
    """Makes the indexes of all packages anew. A reader sees the old ones or the new ones, but for an instant."""
    for place in sorted(path for path in root.iterdir() if path.is_dir()):
        making, old = place / ".making", place / ".old"
        for left in (making, old):
            shutil.rmtree(left, ignore_errors=True)
        making.mkdir()
        run("createrepo_c", "--quiet", "--outputdir", making, place)
        signer.beside(making / "repodata" / "repomd.xml")
        made = place / "repodata"
        if made.exists():
            made.rename(old)
        (making / "repodata").rename(made)
        shutil.rmtree(making)
        shutil.rmtree(old, ignore_errors=True)
