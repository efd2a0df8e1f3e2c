"""leafd's machine code: leafd/_native.abi3.so, one for all versions of Python, for this machine or for another kind.

For another kind the compiler is Debian's cross compiler, and headers and libraries are those of a Debian release for
that kind, unpacked below build/package (the sysroot). Nothing of the other kind has to run for it.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import venv
from collections.abc import Iterable
from pathlib import Path

from packer.command import fail, run, say
from packer.declaration import ROOT, WORK, Architecture, Declaration

DEVELOPMENT = ("libc6-dev", "liblmdb-dev", "libpython3.11-dev", "libssl-dev", "zlib1g-dev")
SYSROOT_PYTHON = "3.11"
CFFI = "2.1.1"  # it writes a part of the module's source
# As pip builds it (pyproject.toml): optimised, and no warning of a compiler that we have not seen ends it. Without what
# a debugger is told: the module is stripped of it, and to write it takes a sixth of the compiler's time.
OPTIONS = ("-Dextension=true", "-Dtests=false", "-Doptimization=2", "-Ddebug=false", "-Dwerror=false")
# What a name stands for is settled when the module is loaded, and cannot be written over after that. No build id: it is
# a hash over the debug information too, which holds the checkout's path. (Taken out by strip, it takes relro with it.)
LINK = "-Wl,-z,relro,-z,now,--build-id=none"
BESIDE = "-Wl,-rpath,$ORIGIN"
CPU = {"arm64": ("aarch64", "aarch64"), "armhf": ("arm", "armv7")}


def tools() -> Path:
    """The build's own environment: pip, meson, ninja and cffi."""
    place = WORK / "tools"
    stamp = place / f"cffi-{CFFI}"
    if not stamp.exists():
        say("brings the tools: meson, ninja, cffi")
        shutil.rmtree(place, ignore_errors=True)
        venv.create(place, with_pip=True)
        run(place / "bin/pip", "install", "--quiet", "meson>=1.3", "ninja", f"cffi=={CFFI}")
        stamp.touch()
    return place / "bin"


def own(architecture: Architecture) -> bool:
    return platform.machine() == architecture.wheels


def prefixed(architecture: Architecture, program: str) -> str:
    """The program of the toolchain for that kind of machine."""
    return program if own(architecture) else f"{architecture.compiler}-{program}"


def programs(architecture: Architecture) -> dict[str, str]:
    """The programs that compile for that kind of machine, and Debian's packages of them."""
    common = {"pkg-config": "pkg-config"}
    if own(architecture):
        return common | {"gcc": "gcc", "strip": "binutils"}
    return common | {prefixed(architecture, "gcc"): f"gcc-{architecture.compiler}", "mmdebstrap": "mmdebstrap"}


def debian_mirror() -> list[str]:
    """The mirrors from which this machine gets its Debian: the sysroot comes from there, as one release without its
    updates, so that it stays the same. Without such a place (on Ubuntu) mmdebstrap takes its own."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian"]
    done = subprocess.run(asked, capture_output=True, text=True)
    return done.stdout.split()[:1]


def unpack_debian(place: Path, architecture: str, release: str, packages: Iterable[str]) -> None:
    """Puts a Debian for that kind of machine there, whole or not at all: these packages and what they need, unpacked
    and not configured, since no program of it runs for that."""
    making = place.with_suffix(".making")
    shutil.rmtree(making, ignore_errors=True)
    making.parent.mkdir(parents=True, exist_ok=True)
    run(
        *("mmdebstrap", "--quiet", "--variant=extract", f"--arch={architecture}", f"--include={','.join(packages)}"),
        *(release, str(making), *debian_mirror()),
    )
    making.rename(place)


def sysroot(declaration: Declaration, architecture: Architecture) -> Path:
    """Headers and libraries of that kind of machine."""
    place = WORK / architecture.deb / "sysroot"
    stamp = place.with_suffix(".made")
    if not stamp.exists():
        shutil.rmtree(place, ignore_errors=True)
        unpack_debian(place, architecture.deb, declaration.sysroot, DEVELOPMENT)
        stay_inside(place)
        as_this_python(place, architecture)
        stamp.touch()
    return place


def stay_inside(place: Path) -> None:
    """Makes absolute links relative: the linker would look for what they name on this machine."""
    for path in place.rglob("*"):
        if path.is_symlink() and path.readlink().is_absolute():
            target = place / path.readlink().relative_to("/")
            path.unlink()
            path.symlink_to(Path(*[".."] * len(path.parent.relative_to(place).parts), target.relative_to(place)))


def as_this_python(place: Path, architecture: Architecture) -> None:
    """Meson asks for the Python that it runs on; with the limited API the headers of SYSROOT_PYTHON serve as well."""
    folder = place / "usr/lib" / architecture.compiler / "pkgconfig"
    wanted = folder / f"python-{'.'.join(platform.python_version_tuple()[:2])}.pc"
    if not wanted.exists():
        shutil.copy(folder / f"python-{SYSROOT_PYTHON}.pc", wanted)


def cross_file(architecture: Architecture, root: Path) -> Path:
    family, cpu = CPU[architecture.deb]
    libraries = root / "usr/lib" / architecture.compiler / "pkgconfig"
    place = WORK / architecture.deb / "cross.ini"
    place.write_text(
        f"[binaries]\nc = ['{architecture.compiler}-gcc', '--sysroot={root}']\npkg-config = 'pkg-config'\n"
        f"strip = '{architecture.compiler}-strip'\n"
        f"[properties]\nsys_root = '{root}'\npkg_config_libdir = '{libraries}:{root}/usr/share/pkgconfig'\n"
        f"[host_machine]\nsystem = 'linux'\ncpu_family = '{family}'\ncpu = '{cpu}'\nendian = 'little'\n"
    )
    return place


def compile_module(
    declaration: Declaration, architecture: Architecture, bin_directory: Path, lmdb_beside: bool
) -> Path:
    """Compiles and links the module, stripped. `lmdb_beside`: it looks for LMDB in its own directory first."""
    build = WORK / architecture.deb / "meson"
    build.parent.mkdir(parents=True, exist_ok=True)
    path = f"{bin_directory}:/usr/local/bin:/usr/bin:/bin"
    cross: list[str | Path] = []
    if not own(architecture):
        if architecture.deb not in CPU:
            fail(f"no package for {architecture.deb} is made on {platform.machine()} yet")
        cross = ["--cross-file", cross_file(architecture, sysroot(declaration, architecture))]
    again = ["--reconfigure"] if (build / "build.ninja").exists() else cross
    link = f"-Dc_link_args={LINK},{BESIDE.removeprefix('-Wl,')}" if lmdb_beside else f"-Dc_link_args={LINK}"
    say(f"compiles for {architecture.deb}, the first time some minutes")
    run(bin_directory / "meson", "setup", build, *again, *OPTIONS, link, PATH=path)
    run(bin_directory / "ninja", "-C", build, "_native.abi3.so", PATH=path)
    stripped = build.parent / ("beside" if lmdb_beside else "shared") / "_native.abi3.so"
    stripped.parent.mkdir(exist_ok=True)
    strip = prefixed(architecture, "strip")
    run(strip, "--strip-unneeded", "-o", stripped, build / "_native.abi3.so")
    return stripped


def shared_library(architecture: Architecture, name: str) -> Path:
    """The file of a library that the module is linked with."""
    place = WORK / architecture.deb / "sysroot" / "usr/lib" / architecture.compiler / name
    if own(architecture):
        place = Path(run(prefixed(architecture, "gcc"), f"-print-file-name={name}").strip())
    return place.resolve()


def needed(architecture: Architecture, module: Path) -> list[str]:
    """The libraries that the dynamic linker will look for, but itself."""
    said = run(prefixed(architecture, "readelf"), "--dynamic", "--wide", module)
    return [name for name in re.findall(r"\(NEEDED\).*\[(.+)\]", said) if not name.startswith("ld-linux")]


def checkout_files() -> list[Path]:
    """leafd's Python files, as git would have them: nothing that a run left behind."""
    package = ROOT / "agent" / "leafd"
    return [path for path in sorted(package.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]


def lmdb_package(architecture: Architecture) -> tuple[str, str]:
    """The version of LMDB that lies beside leafd in the rpm, and what Debian says of its licence."""
    root = Path("/") if own(architecture) else WORK / architecture.deb / "sysroot"
    said = (root / "usr/lib" / architecture.compiler / "pkgconfig/lmdb.pc").read_text()
    found = re.search(r"^Version: (\S+)", said, re.MULTILINE)
    text = root / "usr/share/doc/liblmdb0/copyright"
    if found is None or not text.exists():
        fail(f"no version or licence of liblmdb0 found below {root}")
    return found[1], text.read_text()
