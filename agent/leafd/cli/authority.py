"""A certificate authority of a hub's own, and the certificate of its leaf listener, made by the openssl command.

    NAME-ca.key    signs, and stays with root: the daemon never reads it
    NAME-ca.pem    what boxes check the hub with; a token brings it along (`leafd enrol token`)
    NAME-tls.key   the listener's key
    NAME-tls.pem   the listener's certificate, then the authority's

The authority is made once: boxes trust it, so a later `leafd init hub --force` and `leafd hub certificate` sign with
the one that is there. Certificates are valid from 1970 on, where a box without a clock battery starts.
Not here: which file goes where and with which rights (init.py), what a daemon makes of them (config/tls_files.py).
"""

from __future__ import annotations

import ipaddress
import re
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from leafd.errors import LeafdError, UsageError
from leafd.files import read_file
from leafd.records import dataclass

DAYS: Final = 7300
"""Twenty years: both have to outlive boxes that nobody visits."""
FIRST_DAY: Final = "700101000000Z"
PEM_MAX: Final = 1 << 20
_WAIT_S: Final = 60.0
_HOST: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9_])?")
_SECTIONS: Final = """\
[ca]
default_ca = own
[own]
dir = {folder}
database = {folder}/index
new_certs_dir = {folder}
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
[any]
commonName = supplied
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[listener]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""


@dataclass(frozen=True, slots=True)
class Paths:
    """The files of one hub."""

    authority: Path
    authority_key: Path
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Issued:
    """The files to be written, as PEM. The authority's two are empty where it was there before."""

    authority: str
    authority_key: str
    certificate: str
    key: str


def paths(directory: Path, name: str) -> Paths:
    """The paths of a hub's files, by the hub's name."""
    return Paths(*(directory / f"{name}-{one}" for one in ("ca.pem", "ca.key", "tls.pem", "tls.key")))


def is_possible() -> bool:
    """Whether this machine has the openssl command."""
    return shutil.which("openssl") is not None


def issue(place: Paths, name: str, addresses: tuple[str, ...]) -> Issued:
    """A certificate for a listener that boxes reach by these addresses, signed by the authority of that place, which is
    made if it is not there. Blocks. Raises LeafdError."""
    names = ",".join(dict.fromkeys(_alternative(one) for one in addresses))
    there = [path.exists() for path in (place.authority, place.authority_key)]
    if any(there) and not all(there):
        raise LeafdError(
            f"{place.authority} and {place.authority_key}: one of the two is missing. Put it back, or remove the other "
            "one: then a new authority is made, which boxes that have the old one do not trust"
        )
    with tempfile.TemporaryDirectory(prefix="leafd-ca-") as made:
        folder = Path(made)
        (folder / "index").touch()
        config = folder / "openssl.cnf"
        config.write_text(_SECTIONS.format(folder=folder) + f"subjectAltName = {names}\n")
        authority, authority_key = folder / "ca.pem", folder / "ca.key"
        for source, copy in ((place.authority, authority), (place.authority_key, authority_key)):
            if all(there):
                copy.touch(0o600)
                copy.write_bytes(_read(source))
        if not all(there):
            _make_key(authority_key)
            _sign(config, authority_key, authority_key, authority, f"{name[:50]} authority", "authority")
        _make_key(folder / "tls.key")
        _sign(config, folder / "tls.key", authority_key, folder / "tls.pem", name, "listener")
        chain = (folder / "tls.pem").read_text() + authority.read_text()
        kept = ("", "") if all(there) else (authority.read_text(), authority_key.read_text())
        return Issued(*kept, chain, (folder / "tls.key").read_text())


def usual_addresses() -> tuple[str, ...]:
    """The names and addresses of this machine, as far as it knows them; never empty."""
    found = [socket.gethostname(), socket.getfqdn(), "localhost", "127.0.0.1", "::1"]
    for family, elsewhere in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as way:
                way.connect((elsewhere, 9))  # sends nothing: it finds out which address would be the sender's
                found.append(way.getsockname()[0])
        except OSError:
            pass  # there is no such way out
    return tuple(dict.fromkeys(one for one in found if _is_address(one) or _HOST.fullmatch(one)))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _alternative(text: str) -> str:
    """A name or an address as subjectAltName has it. Raises UsageError."""
    if _is_address(text):
        return f"IP:{text}"
    if _HOST.fullmatch(text) is None:
        raise UsageError(f"--address {text}: expected a host's name or an IP address, without a port")
    return f"DNS:{text}"


def _read(path: Path) -> bytes:
    try:
        return read_file(str(path), PEM_MAX)
    except OSError as error:
        raise LeafdError(f"{path}: {error.strerror}") from error


def _make_key(path: Path) -> None:
    _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", str(path))


def _sign(config: Path, key: Path, authority_key: Path, to: Path, subject: str, section: str) -> None:
    shape, request = ["-config", str(config)], to.with_suffix(".csr")
    _openssl("req", "-new", "-key", str(key), "-out", str(request), "-utf8", "-subj", f"/CN={subject}", *shape)
    signer = ["-selfsign"] if key == authority_key else ["-cert", str(to.parent / "ca.pem")]
    times = ["-startdate", FIRST_DAY, "-days", str(DAYS)]
    files = ["-keyfile", str(authority_key), "-in", str(request), "-out", str(to)]
    _openssl("ca", *shape, "-batch", "-notext", "-extensions", section, *times, *files, *signer)


def _openssl(*words: str) -> None:
    try:
        done = subprocess.run(["openssl", *words], capture_output=True, timeout=_WAIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LeafdError(f"openssl {words[0]}: {error}") from error
    if done.returncode != 0:
        raise LeafdError(f"openssl {words[0]}: {done.stderr.decode(errors='replace').strip()[:1000]}")
