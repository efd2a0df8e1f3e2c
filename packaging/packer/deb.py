"""A tree packed as a Debian package, with dpkg-deb.

dpkg-deb and rpmbuild, and not nfpm, which does both: nfpm 2.43 needs Go 1.25 and Debian 12 has 1.19, so a fresh machine
could not build the packages with what its package manager offers.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
from email.utils import formatdate
from pathlib import Path

from packer import tree as trees
from packer.command import run
from packer.declaration import PACKAGING, Architecture, Declaration, version

SCRIPTS = ("postinst", "prerm", "postrm")


def files(tree: Path) -> list[Path]:
    return [path for path in sorted(tree.rglob("*")) if path.is_file() and "DEBIAN" not in path.relative_to(tree).parts]


def depends(declaration: Declaration, architecture: Architecture, tree: Path) -> str:
    first, end = declaration.pythons[0], declaration.python_end
    wanted = [f"python3 (>= {first})", f"python3 (<< {end})", f"libc6 (>= {trees.libc_floor(tree)})"]
    wanted += [declaration.libraries[name] for name in trees.sonames(architecture, tree)]
    wanted.append(
        "passwd"
    )  # useradd, of a machine without systemd; since Debian 13 no package that is always there needs it
    return ", ".join(dict.fromkeys(one for one in [*wanted, *architecture.deb_depends] if one))


def control(declaration: Declaration, architecture: Architecture, tree: Path) -> str:
    size = sum(path.stat().st_size for path in files(tree)) // 1024
    lines = {
        "Package": declaration.name,
        "Version": version(),
        "Architecture": architecture.deb,
        "Maintainer": declaration.maintainer,
        "Installed-Size": str(size),
        "Depends": depends(declaration, architecture, tree),
        "Recommends": "openssl",  # leafd init hub makes its certificate authority with it
        "Section": declaration.section,
        "Priority": "optional",
        "Description": "\n ".join([declaration.summary, *declaration.description.splitlines()]),
    }
    return "".join(f"{name}: {value}\n" for name, value in lines.items())


def changelog(declaration: Declaration, epoch: int) -> bytes:
    """Debian wants one; what changed from version to version is in the history of the sources."""
    entry = f"  * Version {version()}."
    text = f"{declaration.name} ({version()}) unstable; urgency=medium\n\n{entry}\n\n"
    text += f" -- {declaration.maintainer}  {formatdate(epoch)}\n"
    return gzip.compress(text.encode(), 9, mtime=0)


def pack(
    declaration: Declaration, architecture: Architecture, tree: Path, directory: Path, epoch: int, level: int
) -> Path:
    """The package's file. level: of its compression."""
    trees.put(tree, "usr/share/doc/leafd/changelog.gz", changelog(declaration, epoch))
    trees.put(tree, "usr/share/lintian/overrides/leafd", (PACKAGING / "deb" / "lintian-overrides").read_bytes())
    place = tree / "DEBIAN"
    place.mkdir()
    (place / "control").write_text(control(declaration, architecture, tree))
    (place / "conffiles").write_text("".join(f"{path}\n" for path in declaration.configuration))
    sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n" for path in files(tree)]
    (place / "md5sums").write_text("".join(sums))
    for name in SCRIPTS:
        shutil.copyfile(PACKAGING / "deb" / name, place / name)
        (place / name).chmod(0o755)
    for path in [tree, *tree.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (epoch, epoch))
    package = directory / f"{declaration.name}_{version()}_{architecture.deb}.deb"
    how = ("--root-owner-group", "-Zxz", f"-z{level}")
    run("dpkg-deb", *how, "--build", tree, package, SOURCE_DATE_EPOCH=str(epoch))
    return package
