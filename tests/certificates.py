"""Certificates for tests, made by the openssl command: an authority, and whatever it is to sign.

    authority = Authority(tmp_path)
    server = authority.issue("server", subject="/CN=localhost", names="DNS:localhost,IP:127.0.0.1")
    server.certificate, server.key      paths of PEM files

Not here: what a certificate is good for.
"""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

CONFIG = """
[ca]
default_ca = here
[here]
database = {folder}/{name}.index
new_certs_dir = {folder}
rand_serial = yes
default_md = {digest}
policy = any
unique_subject = no
email_in_dn = yes
string_mask = utf8only
copy_extensions = none
[any]
countryName = optional
stateOrProvinceName = optional
localityName = optional
organizationName = optional
organizationalUnitName = optional
commonName = optional
serialNumber = optional
streetAddress = optional
postalCode = optional
domainComponent = optional
emailAddress = optional
title = optional
[req]
distinguished_name = none
string_mask = utf8only
[none]
[authority]
basicConstraints = critical,CA:TRUE{depth}
keyUsage = critical,keyCertSign,cRLSign
[leaf]
basicConstraints = critical,CA:FALSE
extendedKeyUsage = {usage}
{names}
"""
KEYS = {
    "ec": ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
    "ec-old": ["ecparam", "-name", "prime256v1", "-genkey", "-noout"],
    "rsa": ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
    "rsa-old": ["genrsa", "-traditional", "2048"],
    "ed25519": ["genpkey", "-algorithm", "ED25519"],
}


def openssl(*words: str, given: bytes = b"") -> bytes:
    """Runs the command; its output."""
    done = subprocess.run(["openssl", *words], input=given, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path

    @cached_property
    def der(self) -> bytes:
        """The certificate's bytes."""
        return openssl("x509", "-in", str(self.certificate), "-outform", "DER")

    @cached_property
    def pin(self) -> str:
        """The form that pinned_certs takes."""
        public = openssl("x509", "-in", str(self.certificate), "-noout", "-pubkey")
        return hashlib.sha256(openssl("pkey", "-pubin", "-outform", "DER", given=public)).hexdigest()


class Authority:
    """Signs certificates; its own is `certificate`. above: who signs that one, by default itself. section: "leaf" for
    one whose own certificate allows it to sign nothing. depth: of authorities below it, as ",pathlen:0"."""

    def __init__(
        self,
        folder: Path,
        name: str = "authority",
        above: Authority | None = None,
        section: str = "authority",
        depth: str = "",
    ) -> None:
        self._folder = folder
        self._made = {"digest": "default", "depth": depth, "usage": "serverAuth,clientAuth"}
        self._name = name
        self.certificate = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        (folder / f"{name}.index").write_text("")
        self._make_key(self._key, "ec")
        signer = above or self
        depths = signer._made | {"depth": depth}
        own = above is None
        signer._sign(self._key, self.certificate, f"/CN={name}", "", section, ("", ""), own=own, made=depths)

    def issue(
        self,
        name: str,
        *,
        subject: str | None = None,
        names: str = "DNS:localhost,IP:127.0.0.1",
        key: str = "ec",
        times: tuple[str, str] = ("", ""),
        **made: str,
    ) -> Issued:
        """subject: as openssl takes it (`/O=x/CN=y`, `+` joins two into one part). names: the alternative ones. times:
        from and until, as 20240131000000Z; empty: ten years from now. made: digest and usage (extendedKeyUsage)."""
        certificate, private = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        self._make_key(private, key)
        self._sign(private, certificate, f"/CN={name}" if subject is None else subject, names, "leaf", times, made=made)
        return Issued(certificate, private)

    def _make_key(self, path: Path, kind: str) -> None:
        path.write_bytes(openssl(*KEYS[kind]))

    def _sign(
        self,
        key: Path,
        to: Path,
        subject: str,
        names: str,
        section: str,
        times: tuple[str, str],
        *,
        own: bool = False,
        made: dict[str, str],
    ) -> None:
        config = self._folder / f"{self._name}.conf"
        names = f"subjectAltName = {names}" if names else ""
        config.write_text(CONFIG.format(folder=self._folder, name=self._name, names=names, **(self._made | made)))
        request = to.with_suffix(".csr")
        with_config = ["-config", str(config)]
        shape = ["-utf8", "-subj", subject]
        openssl("req", "-new", "-key", str(key), "-out", str(request), *shape, *with_config)
        until = ["-enddate", times[1]] if times[1] else ["-days", "3650"]
        since = ["-startdate", times[0]] if times[0] else []
        signer = ["-selfsign"] if own else ["-cert", str(self.certificate)]
        words = ["-batch", "-notext", "-preserveDN", "-keyfile", str(self._key), "-in", str(request), "-out", str(to)]
        openssl("ca", *with_config, *words, *signer, *since, *until, "-extensions", section, *shape)
