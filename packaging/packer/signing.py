"""OpenPGP signatures of what is published, made by the GnuPG of whoever publishes (GNUPGHOME: another one).

Not here: what is signed (apt.py, yum.py).
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from packer.command import fail, run

NAME = "leafd packages"
# RSA, since the rpm of some distributions cannot check EdDSA yet.
KIND = "rsa3072"
PROGRAMS = {"gpg": "gpg"}


@dataclass(frozen=True)
class Signer:
    """One key that signs, by its fingerprint."""

    key: str

    def _gpg(self, *words: str | Path) -> str:
        return run("gpg", "--batch", "--yes", "--quiet", "--digest-algo", "SHA256", "--local-user", self.key, *words)

    def public(self) -> str:
        """The public half, as text."""
        return self._gpg("--armor", "--export", self.key)

    def beside(self, path: Path) -> Path:
        """A signature of that file in a file of its own, PATH.asc."""
        made = path.with_name(f"{path.name}.asc")
        self._gpg("--armor", "--output", made, "--detach-sign", path)
        return made

    def around(self, path: Path, made: Path) -> None:
        """Writes the text with its signature around it, as `made`."""
        self._gpg("--output", made, "--clearsign", path)

    def inside(self, package: Path) -> None:
        """The signature in an rpm's own header."""
        said = {"_gpg_name": self.key, "_gpg_digest_algo": "sha256", "__gpg": str(shutil.which("gpg"))}
        defined = [word for name, value in said.items() for word in ("--define", f"{name} {value}")]
        run("rpmsign", *defined, "--addsign", package)


def fingerprints(name: str) -> list[str]:
    """The keys at hand that can sign and are called that."""
    said = run("gpg", "--batch", "--with-colons", "--list-secret-keys")
    found = []
    for block in re.split(r"^sec:", said, flags=re.MULTILINE)[1:]:
        (key, *_) = re.findall(r"^fpr:{9}(\w+):", block, re.MULTILINE)
        names = re.findall(r"^uid:(?:[^:]*:){8}([^:]*):", block, re.MULTILINE)
        if key.endswith(name.upper().removeprefix("0X")) or any(name in one for one in names):
            found.append(key)
    return found


def signer(asked: str) -> tuple[Signer, bool]:
    """The key that was asked for; without a name the one that is kept for this, made at the first time. True: it was
    made now."""
    # GnuPG says on its standard error that it makes its folder, and fails where an agent's socket has too long a name.
    home = os.environ.get("GNUPGHOME")
    if home:
        Path(home).mkdir(mode=0o700, parents=True, exist_ok=True)
    name = asked or NAME
    found = fingerprints(name)
    if len(found) > 1:
        fail(f"{len(found)} keys are called {name!r}: say which, with --key and its fingerprint")
    if found:
        return Signer(found[0]), False
    if asked:
        fail(f"GnuPG has no secret key {asked!r}")
    run("gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", NAME, KIND, "sign", "never")
    return Signer(fingerprints(NAME)[0]), True
