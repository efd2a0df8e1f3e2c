"""All files of a package as they are installed, below build/package/ARCHITECTURE/KIND."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from packer import libraries, materials, toolchain
from packer.command import fail, run
from packer.declaration import PACKAGING, ROOT, WORK, Architecture, Declaration

SITE = Path("usr/lib/leafd/site")
# What a library brings and a daemon never reads; of cffi the daemon needs the machine code alone.
NEEDLESS = ("__pycache__", "tests", "_tests", "_tools", "test", "testing", "bin", "share", "include", ".agents")
COMPILERS = ("cffi", "pycparser")
LMDB = "liblmdb.so.0"


def prune(site: Path) -> None:
    for path in sorted(site.rglob("*"), reverse=True):
        if path.is_dir() and (path.name in NEEDLESS or (path.parent == site and path.name in COMPILERS)):
            shutil.rmtree(path, ignore_errors=True)
        elif path.name == "direct_url.json" or path.suffix == ".pyi":
            path.unlink(missing_ok=True)
    for path in site.glob("pycparser-*.dist-info"):
        shutil.rmtree(path)


def instances(unit: str) -> str:
    """The unit as a template: systemctl start leafd@NAME serves /etc/leafd/NAME.conf, with a state directory of its
    own, which that file names as its store_dir."""
    changes = {
        "(NATS protocols)": "(NATS protocols), instance %i",
        "/etc/leafd/leafd.conf": "/etc/leafd/%i.conf",
        "StateDirectory=leafd": "StateDirectory=leafd-%i",
        "RuntimeDirectory=leafd": "RuntimeDirectory=leafd-%i",
    }
    for old, new in changes.items():
        if unit.count(old) != 1:
            fail(f"leafd.service has not one {old!r}")
        unit = unit.replace(old, new)
    return unit


def borrowing(launcher: str) -> str:
    """The launcher, for a machine where some libraries are the distribution's: they are looked for last."""
    line = 'sys.path.insert(0, "/usr/lib/leafd/site")\n'
    if launcher.count(line) != 1:
        fail(f"launcher has not one {line!r}")
    more = (
        "\nimport site  # where this distribution keeps its libraries: some of leafd's are among them on this machine\n"
    )
    return launcher.replace(line, f"{line}{more}\nsys.path += site.getsitepackages()\n")


def put(tree: Path, path: str, data: bytes, mode: int = 0o644) -> None:
    place = tree / path.removeprefix("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    place.chmod(mode)


def put_python(declaration: Declaration, architecture: Architecture, bin_directory: Path, tree: Path) -> None:
    """leafd and its libraries."""
    site = tree / SITE
    shutil.copytree(libraries.install(bin_directory / "pip", declaration, architecture), site)
    package = ROOT / "agent" / "leafd"
    for path in toolchain.checkout_files():
        put(site / "leafd", str(path.relative_to(package)), path.read_bytes())


def put_code(architecture: Architecture, tree: Path, module: Path, lmdb_beside: bool) -> None:
    """leafd's machine code; that of the libraries without its symbols."""
    site = tree / SITE
    for path in site.rglob("*.so"):
        run(toolchain.prefixed(architecture, "strip"), "--strip-unneeded", path)
    shutil.copyfile(module, site / "leafd" / module.name)
    if lmdb_beside:
        shutil.copyfile(toolchain.shared_library(architecture, LMDB), site / "leafd" / LMDB)


def documents(site: Path) -> Path:
    """Manual pages, completions and reference configuration: the same for each kind of machine."""
    place = WORK / "documents"
    shutil.rmtree(place, ignore_errors=True)
    run(sys.executable, "-BIS", PACKAGING / "manual", site, place)
    return place


def put_papers(declaration: Declaration, architecture: Architecture, tree: Path, lmdb_beside: bool) -> None:
    """Licences and the bill of materials."""
    lmdb = toolchain.lmdb_package(architecture) if lmdb_beside else ("", "")
    found = materials.materials(declaration, tree / SITE, *lmdb)
    put(tree, "usr/share/doc/leafd/copyright", materials.licences(declaration, found).encode())
    text = materials.bill(declaration, architecture, found, list(architecture.borrowed))
    put(tree, "usr/share/doc/leafd/leafd.cdx.json", text.encode())


def put_files(declaration: Declaration, architecture: Architecture, tree: Path) -> None:
    """The files that package.toml lists."""
    for file in declaration.files:
        found = sorted(PACKAGING.glob(file.source))
        if not found:
            fail(f"there is no packaging/{file.source}")
        for path in found:
            data = path.read_bytes()
            if file.source == "launcher" and architecture.borrowed:
                data = borrowing(data.decode()).encode()
            put(tree, f"{file.to}/{path.name}" if "*" in file.source else file.to, data, file.mode)
    unit = "usr/lib/systemd/system/leafd.service"
    put(tree, unit.replace("leafd.", "leafd@."), instances((tree / unit).read_text()).encode())


def make(
    declaration: Declaration, architecture: Architecture, kind: str, bin_directory: Path, pages: Path | None
) -> Path:
    """The tree of one package. `pages` are documents made for another tree; without, they are made of this one."""
    tree = WORK / architecture.deb / kind
    shutil.rmtree(tree, ignore_errors=True)
    beside = kind == "rpm"
    module = toolchain.compile_module(declaration, architecture, bin_directory, beside)
    put_python(declaration, architecture, bin_directory, tree)
    prune(tree / SITE)
    put_papers(declaration, architecture, tree, beside)
    put_code(architecture, tree, module, beside)
    shutil.copytree(pages or documents(tree / SITE), tree, dirs_exist_ok=True)
    put_files(declaration, architecture, tree)
    for old, new in declaration.moved_in_rpm.items() if kind == "rpm" else ():
        (tree / new.removeprefix("/")).parent.mkdir(parents=True, exist_ok=True)
        (tree / old.removeprefix("/")).rename(tree / new.removeprefix("/"))
    # pip's lists of files, which are no longer true.
    for path in (tree / SITE).glob("*.dist-info/RECORD"):
        path.unlink()
    known = set(declaration.libraries)
    for path in (tree / SITE).rglob("*.so"):
        if strange := set(toolchain.needed(architecture, path)) - known:
            fail(f"{path.name} needs {', '.join(sorted(strange))}, which package.toml does not know")
    for path in [tree, *tree.rglob("*")]:
        path.chmod(0o755 if path.is_dir() or (path.stat().st_mode & 0o100 and path.parent.name == "bin") else 0o644)
    return tree


def libc_floor(tree: Path) -> str:
    """The newest glibc version that any of our machine code asks for: the package depends on it."""
    versions = {(2, 17)}
    for path in (tree / SITE).rglob("*.so*"):
        found = re.findall(rb"GLIBC_(\d+)\.(\d+)", path.read_bytes())
        versions.update((int(major), int(minor)) for major, minor in found)
    return "{}.{}".format(*max(versions))


def sonames(architecture: Architecture, tree: Path) -> list[str]:
    """The libraries that are looked for outside the tree."""
    inside = {path.name for path in (tree / SITE).rglob("*.so*")}
    every = {name for path in (tree / SITE).rglob("*.so*") for name in toolchain.needed(architecture, path)}
    return sorted(every - inside)
