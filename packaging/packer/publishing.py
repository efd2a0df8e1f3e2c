"""The files that packaging/publish puts beside the repositories: the key, one file for apt, one for dnf, the words to
a reader, and the sums of the images.

Not here: the repositories (apt.py, yum.py), the image (image.py).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from packer import apt
from packer.declaration import Declaration, version
from packer.signing import Signer


def sources(address: str, key: str) -> str:
    """For /etc/apt/sources.list.d: the key is in it, so it is the one file that a machine has to trust."""
    inner = "".join(f" {line or '.'}\n" for line in key.strip().splitlines())
    return f"Types: deb\nURIs: {address}/deb\nSuites: {apt.SUITE}\nComponents: {apt.COMPONENT}\nSigned-By:\n{inner}"


def repo(declaration: Declaration, address: str) -> str:
    """For /etc/yum.repos.d."""
    lines = [f"[{declaration.name}]", f"name={declaration.name}", f"baseurl={address}/rpm/$basearch", "enabled=1"]
    lines += ["gpgcheck=1", "repo_gpgcheck=1", f"gpgkey={address}/{declaration.name}.asc"]
    return "\n".join(lines) + "\n"


def words(declaration: Declaration, address: str, signer: Signer, images: list[Path]) -> str:
    name = declaration.name
    text = f"""\
{name} {version()}: {declaration.summary}

Debian 12 and 13, Ubuntu 24.04, as root:

    curl -fsSL -o /etc/apt/sources.list.d/{name}.sources {address}/{name}.sources
    apt-get update && apt-get install {name}

Distributions with dnf and Python 3.11 to 3.13, as root:

    curl -fsSL -o /etc/yum.repos.d/{name}.repo {address}/{name}.repo
    dnf install {name}
"""
    for image in images:
        text += f"""
A container:

    curl -fsSLO {address}/image/{image.name}
    podman load -i {image.name}
"""
    return f"{text}\nEverything is signed by the key {signer.key} ({name}.asc).\n"


def sums(images: list[Path]) -> str:
    """As sha256sum --check reads them."""
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in images)


def publish(directory: Path, declaration: Declaration, address: str, signer: Signer) -> None:
    key, images = signer.public(), sorted((directory / "image").glob("*.tar"))
    if images:
        listed = directory / "image" / "SHA256SUMS"
        apt.put(listed, sums(images).encode())
        signer.beside(listed)
    current = [path for path in images if f"-{version()}-" in path.name]
    texts = {
        f"{declaration.name}.asc": key,
        f"{declaration.name}.sources": sources(address, key),
        f"{declaration.name}.repo": repo(declaration, address),
        "README.txt": words(declaration, address, signer, current),
    }
    for name, text in texts.items():
        apt.put(directory / name, text.encode())
