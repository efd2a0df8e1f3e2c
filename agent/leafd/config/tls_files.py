"""The files that tls blocks name: read, checked as far as possible without OpenSSL, and kept as the bytes they hold.

What is wrong with one is a Problem at the key that names it. A certificate that has expired is none: the server starts
and serves whom that does not disturb, as the reference does, and expiring() says so. Not here: the keys
of the block (schema/tls.py), what a certificate says (certificates.py), everything that OpenSSL does with it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from leafd.certificates import Certificate, key_fits, name_text, pem_blocks, read_certificate
from leafd.config.schema.section import Invalid, Path, Problem
from leafd.files import read_file
from leafd.records import dataclass

SIZE_MAX: Final = 4 << 20
EXPIRY_NOTICE_S: Final = 30 * 86400
_NO_KEY: Final = 'holds no private key: a block that begins with "-----BEGIN PRIVATE KEY-----" is expected'
_NO_CERTIFICATE: Final = 'holds no certificate: a block that begins with "-----BEGIN CERTIFICATE-----" is expected'


class Secret(bytes):
    """Bytes that no log, error or report shows."""

    def __repr__(self) -> str:
        return "Secret(...)"

    __str__ = __repr__


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate with those that lead to its root, and its private key, as PEM."""

    file: str
    chain: bytes
    key: Secret
    certificate: Certificate


@dataclass(frozen=True, slots=True)
class Material:
    """The contents of the files that one tls block names."""

    pairs: tuple[KeyPair, ...] = ()
    ca: bytes = b""
    """PEM of those who are trusted; empty: whom the machine trusts."""


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """One tls block as the plane takes it."""

    material: Material
    verify: bool
    """A listener asks for a certificate, and refuses who shows none that is trusted."""
    insecure: bool
    """A remote is not asked whether it is trusted."""
    pinned: tuple[str, ...]
    """SHA-256 of public keys in hexadecimal digits; empty: every one will do."""
    cipher_suites: tuple[str, ...]
    """The suites of TLS 1.2, by the reference's names, as are the curves. Empty: the default."""
    curves: tuple[str, ...]
    min_version: int
    timeout_ns: int
    rate: int
    """Handshakes that may begin in a second, 0: any number."""
    first: bool
    """No INFO before the handshake ..."""
    fallback_ns: int
    """... unless so long nothing has come; 0: never."""


@contextmanager
def as_file(data: bytes) -> Iterator[str]:
    """A name that Python's ssl can read this under, without a file on a disk."""
    fd = os.memfd_create("leafd", os.MFD_CLOEXEC)
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(data)
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def read_material(pairs: Iterable[tuple[Path, str, Path, str]], ca: tuple[Path, str]) -> Material:
    """Reads key pairs, each given as the path and value of the two keys, and the file of authorities ("": none).
    Raises Invalid with all that is wrong."""
    problems: list[Problem] = []
    found = []
    for certificate_path, certificate_file, key_path, key_file in pairs:
        try:
            chain, certificate = _certificates(certificate_file)
            _judge_digests(chain)
        except ValueError as error:
            problems.append(Problem(certificate_path, f"{certificate_file} {error}"))
            continue
        try:
            key = _private_key(key_file, certificate, certificate_file)
        except ValueError as error:
            problems.append(Problem(key_path, f"{key_file} {error}"))
            continue
        found.append(KeyPair(certificate_file, chain, key, certificate))
    trusted = b""
    if ca[1]:
        try:
            trusted, _ = _certificates(ca[1])
        except ValueError as error:
            problems.append(Problem(ca[0], f"{ca[1]} {error}"))
    if problems:
        raise Invalid(problems)
    return Material(tuple(found), trusted)


def _read(file: str) -> bytes:
    try:
        data = read_file(file, SIZE_MAX + 1)
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > SIZE_MAX:
        raise ValueError(f"is larger than {SIZE_MAX >> 20} MiB: it is no file of certificates")
    return data


def _certificates(file: str) -> tuple[bytes, Certificate]:
    """All certificates of a file as PEM, and the first of them."""
    data = _read(file)
    first: Certificate | None = None
    for label, der in pem_blocks(data):
        if label == "CERTIFICATE":
            first = first or read_certificate(der)
    if first is None:
        raise ValueError(_NO_CERTIFICATE)
    return data, first


def _judge_digests(chain: bytes) -> None:
    """OpenSSL shows nobody a certificate whose signature can be forged, nor one of its chain."""
    for label, der in pem_blocks(chain):
        digest = read_certificate(der).weak_digest if label == "CERTIFICATE" else ""
        if digest:
            raise ValueError(
                f"has a certificate that is signed with {digest}, which OpenSSL refuses (ca md too weak): have its "
                "authority sign it anew with SHA-256"
            )


def _private_key(file: str, certificate: Certificate, certificate_file: str) -> Secret:
    data = _read(file)
    for label, der in pem_blocks(data):
        if "ENCRYPTED" in label:
            raise ValueError("is encrypted, and nobody is there to be asked for its password: store it without one")
        if label.endswith("PRIVATE KEY"):
            if key_fits(label, der, certificate.public_key) is False:
                raise ValueError(f"is not the key of {certificate_file}: name the two that were made together")
            return Secret(data)
    raise ValueError(_NO_KEY)


def expiring(material: Material, now_s: float | None = None) -> list[str]:
    """One line for each certificate that has expired, is not valid yet, or expires within 30 days."""
    now = time.time() if now_s is None else now_s
    lines = []
    for pair in material.pairs:
        one = pair.certificate
        who = f"{pair.file} ({name_text(one.subject, all_types=True) or 'without a subject'})"
        if one.not_after_s < now:
            lines.append(
                f"the certificate {who} has expired on {_day(one.not_after_s)}: peers refuse it, replace it now"
            )
        elif one.not_before_s > now:
            lines.append(
                f"the certificate {who} is not valid before {_day(one.not_before_s)}: check this machine's clock"
            )
        elif one.not_after_s - now < EXPIRY_NOTICE_S:
            days = int((one.not_after_s - now) / 86400)
            lines.append(f"the certificate {who} expires on {_day(one.not_after_s)}, in {days} days: replace it")
    return lines


def _day(stamp_s: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(stamp_s))
