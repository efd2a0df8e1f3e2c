"""A tree packed as an rpm: a spec with nothing to build, for rpmbuild.

What the package needs is written out and not searched for: rpm would ask for the libraries' private parts as well.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from packer import tree as trees
from packer.command import run
from packer.declaration import PACKAGING, WORK, Architecture, Declaration, version

RELEASE = "1"
SCRIPTS = ("pre", "post", "preun", "postun")
# The same tree gives the same bytes, on any machine; nothing of the tree is changed on the way.
MACROS = {
    "_buildhost": "localhost",
    "use_source_date_epoch_as_buildtime": "1",
    "clamp_mtime_to_source_date_epoch": "1",
    "source_date_epoch_from_changelog": "0",
    "_build_id_links": "none",
    "debug_package": "%{nil}",
    "__os_install_post": "%{nil}",
    "__check_files": "%{nil}",
    "_build_name_fmt": "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
}
# Of these directories the package is the owner; the others are the distribution's.
OWNED = ("/usr/lib/leafd", "/etc/leafd", "/usr/share/doc/leafd")


def requires(declaration: Declaration, architecture: Architecture, tree: Path) -> list[str]:
    bits = "()(64bit)" if architecture.wide else ""
    wanted = [f"python3 >= {declaration.pythons[0]}", f"python3 < {declaration.python_end}"]
    floor = f"libc.so.6(GLIBC_{trees.libc_floor(tree)})"
    wanted.append(f"{floor}(64bit)" if architecture.wide else floor)
    wanted += [f"{name}{bits}" for name in trees.sonames(architecture, tree) if name != "libc.so.6"]
    return [*wanted, *architecture.rpm_requires]


def listed(declaration: Declaration, tree: Path) -> str:
    """The section %files."""
    lines = []
    for path in sorted(tree.rglob("*")):
        name = f"/{path.relative_to(tree)}"
        if path.is_dir():
            if any(name == owned or name.startswith(f"{owned}/") for owned in OWNED):
                lines.append(f'%dir %attr(0755,root,root) "{name}"')
            continue
        kind = "%config(noreplace) " if name in declaration.configuration else ""
        if name.startswith(("/usr/share/doc/", "/usr/share/man/")):
            kind = "%license " if name.endswith("/copyright") else "%doc "
        lines.append(f'{kind}%attr({path.stat().st_mode & 0o777:04o},root,root) "{name}"')
    return "\n".join(lines)


def spec(declaration: Declaration, architecture: Architecture, tree: Path) -> str:
    wanted = "\n".join(f"Requires: {one}" for one in requires(declaration, architecture, tree))
    scripts = "\n\n".join(f"%{name}\n{(PACKAGING / 'rpm' / name).read_text().strip()}" for name in SCRIPTS)
    return f"""\
Name: {declaration.name}
Version: {version()}
Release: {RELEASE}
Summary: {declaration.summary[0].upper()}{declaration.summary[1:]}
License: {declaration.licence}
Group: {declaration.group}
AutoReqProv: no
{wanted}
Requires(pre): /usr/sbin/useradd
Requires(pre): /usr/sbin/groupadd
Requires(post): /usr/bin/python3

%description
{declaration.description}

%install
cp -a "{tree}/." "%{{buildroot}}/"

{scripts}

%files
{listed(declaration, tree)}
"""


def pack(
    declaration: Declaration, architecture: Architecture, tree: Path, directory: Path, epoch: int, level: int
) -> Path:
    """The package's file. level: of its compression."""
    for path in [tree, *tree.rglob("*")]:
        os.utime(path, (epoch, epoch))
    top = WORK / architecture.deb / "rpmbuild"
    shutil.rmtree(top, ignore_errors=True)
    top.mkdir()
    (top / "leafd.spec").write_text(spec(declaration, architecture, tree))
    macros = {**MACROS, "_binary_payload": f"w{level}.xzdio", "_topdir": str(top), "_rpmdir": str(top / "made")}
    defined = [word for name, value in macros.items() for word in ("--define", f"{name} {value}")]
    run(
        *("rpmbuild", "-bb", "--quiet", "--target", f"{architecture.rpm}-linux", *defined, str(top / "leafd.spec")),
        SOURCE_DATE_EPOCH=str(epoch),
    )
    made = next((top / "made").glob("*.rpm"))
    package = directory / made.name
    shutil.copyfile(made, package)
    return package
