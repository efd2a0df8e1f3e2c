"""The container image as one file, an OCI archive: what `podman load` and `skopeo copy oci-archive:` take.

Containerfile says what is in it. The system that its first stage begins with is made here by mmdebstrap, so that no
registry is asked; it takes root. An image is for this kind of machine only.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from packer.command import run
from packer.declaration import PACKAGING, WORK, Declaration, version
from packer.toolchain import own

PROGRAMS = {"buildah": "buildah", "mmdebstrap": "mmdebstrap"}
NAME, BASE = "localhost/leafd", "localhost/leafd-base"
# What the package wants; the rest of it comes with apt, in the image's first stage.
BEGIN = ("python3", "liblmdb0", "libssl3")


def fits(declaration: Declaration, package: Path) -> bool:
    """Whether that package is for this kind of machine."""
    return own(declaration.architectures[package.stem.rsplit("_", 1)[1]])


def make(declaration: Declaration, package: Path, directory: Path) -> Path:
    """Makes the image of a Debian package."""
    WORK.mkdir(parents=True, exist_ok=True)
    made = directory / f"leafd-{version()}-{package.stem.rsplit('_', 1)[1]}.oci.tar"
    made.unlink(missing_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="image-", dir=WORK))
    buildah = ("buildah", "--storage-driver", "vfs", "--root", folder / "storage", "--runroot", folder / "run")
    try:
        run("mmdebstrap", "--variant=apt", f"--include={','.join(BEGIN)}", declaration.sysroot, folder / "system")
        context = folder / "context"
        context.mkdir()
        shutil.copy(package, context)
        base = run(*buildah, "from", "scratch").split()[-1]
        run(*buildah, "add", "--quiet", base, folder / "system", "/")
        run(*buildah, "commit", "--quiet", "--rm", base, BASE)
        name = f"{NAME}:{version()}"
        run(
            *(*buildah, "build", "--isolation", "chroot", "--layers=false", "--pull=never"),
            *("--build-arg", f"BASE={BASE}", "-f", PACKAGING / "container" / "Containerfile", "-t", name, context),
        )
        run(*buildah, "push", "--quiet", name, f"oci-archive:{made}:{name}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return made
