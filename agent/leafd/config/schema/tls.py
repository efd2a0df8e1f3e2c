"""The tls block, the same for every listener and for remotes: certificates, whom to trust, how to shake hands.

As in the reference the files are read with the block, so that `leafd -t` says what is wrong with them and where they
were named, and a reload has all of them before it changes anything. What they hold is `material`. Not here: reading the
files (config/tls_files.py), what OpenSSL makes of it (native/net).
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from leafd.config.schema.base import SECOND, Duration, File, Flag, Number, parse_duration
from leafd.config.schema.section import Invalid, Path, Problem, Reader, Section, Takes, later, option, shown

if TYPE_CHECKING:
    from leafd.config.tls_files import Material, TlsOptions

DEFAULT_TIMEOUT: Final = 2 * SECOND
LINK_TIMEOUT: Final = 60 * SECOND
"""The time-out of a leaf link's handshake and login, at either end: round trips take seconds, and packets are lost."""
"""The time-out of a handshake, and of a login without one."""
FALLBACK_DELAY: Final = SECOND // 20
"""How long handshake_first: auto waits for the client to begin."""
_STORE: Final = "certificate stores are a matter of Windows: use cert_file and key_file"

# The reference's names of what its library knows.
SUITES: Final = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
)
INSECURE_SUITES: Final = (
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
)
"""Taken with allow_insecure_cipher_suites only."""
CURVES: Final = (
    "X25519MLKEM768",
    "SecP384r1MLKEM1024",
    "SecP256r1MLKEM768",
    "X25519",
    "CurveP256",
    "CurveP384",
    "CurveP521",
)
VERSIONS: Final = {"1.2": 0x0303, "1.3": 0x0304}


def _list(value: object) -> object:
    if not isinstance(value, list | tuple):
        raise ValueError(f"a list is expected, not {shown(value)}")
    return value


def _filled_list(value: object) -> object:
    if not _list(value):
        raise ValueError("the list cannot be empty: leave the key out for the default")
    return value


def _suite(value: object) -> object:
    if isinstance(value, str) and re.fullmatch(r"TLS_\w+_WITH_(RC4|3DES)_\w+", value):
        raise ValueError(f"{value} is so weak that OpenSSL no longer has it: take it out")
    if not isinstance(value, str) or (value not in SUITES and value not in INSECURE_SUITES):
        raise ValueError(f"unrecognized cipher {value}: the names are those of nats-server --help_tls")
    return value


def _curve(value: object) -> object:
    if not isinstance(value, str) or value not in CURVES:
        raise ValueError(f"unrecognized curve preference {value}: one of {', '.join(CURVES)} is expected")
    return value


def _pin(value: object) -> object:
    if not isinstance(value, str) or not re.fullmatch("[A-Fa-f0-9]{64}", value):
        raise ValueError(
            f"{shown(value)} is no pin: 64 hexadecimal digits, the SHA-256 of the SubjectPublicKeyInfo, are expected"
        )
    return value.lower()


def _version(value: object) -> object:
    if value not in VERSIONS:
        raise ValueError(f'{shown(value)} is no version of TLS that is served: write "1.2" or "1.3"')
    return value


def _first(value: object) -> object:
    """(whether the handshake comes first, nanoseconds until INFO is sent all the same)"""
    if isinstance(value, bool):
        return value, 0
    if not isinstance(value, str):
        raise ValueError(f"true, false, auto or a duration is expected, not {shown(value)}")
    word = value.lower()
    if word in ("true", "on"):
        return True, 0
    if word in ("false", "off"):
        return False, 0
    if word in ("auto", "auto_fallback"):
        return True, FALLBACK_DELAY
    return True, parse_duration(value)


live: Final = partial(option, takes=Takes.LIVE)


class CertificatePair(Section):
    """One of several certificates."""

    cert_file: File = live("", "The PEM file of the certificate, with those that lead to its root behind it.")
    key_file: File = live("", "The PEM file of its private key.")

    def check(self) -> None:
        if not self.cert_file or not self.key_file:
            raise ValueError("both cert_file and key_file are needed")


class Tls(Section):
    """The tls block. A reload takes all of it up; connections that are there stay."""

    cert_file: File = live("", "The PEM file of this side's certificate, with those that lead to its root behind it.")
    key_file: File = live("", "The PEM file of the certificate's private key, unencrypted.")
    certs: tuple[CertificatePair, ...] = live(
        (),
        "Several certificates in place of one; the other side gets the one that fits the name it asks for.",
        aliases=("certificates",),
    )
    ca_file: File = live("", "The PEM file of whom to trust. Empty: whom the machine trusts.")
    verify: Flag = live(False, "Must each peer that connects show a certificate that is trusted?")
    verify_and_map: Flag = live(
        False,
        "As verify, and the certificate is the login: its alternative names (e-mail, DNS, URI), then its subject, name "
        "the user.",
    )
    verify_cert_and_check_known_urls: Flag = live(False, "Nothing but false: it is for routes of a cluster.")
    pinned_certs: Annotated[tuple[Annotated[str, Reader(_pin)], ...], Reader(_list)] = live(
        (), "Only these may connect: the SHA-256, in hexadecimal digits, of a certificate's public key."
    )
    cipher_suites: Annotated[tuple[Annotated[str, Reader(_suite)], ...], Reader(_filled_list)] = live(
        (),
        "The cipher suites of TLS 1.2 that are taken. Those of TLS 1.3 are always on.",
        example='[ "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256" ]',
    )
    allow_insecure_cipher_suites: Flag = live(False, "Take suites without forward secrecy, too, where they are named.")
    curve_preferences: Annotated[tuple[Annotated[str, Reader(_curve)], ...], Reader(_filled_list)] = live(
        (),
        "The groups for key exchange, the preferred one first. Those that OpenSSL does not have are left out.",
        example='[ "X25519", "CurveP256" ]',
    )
    min_version: Annotated[str, Reader(_version)] = live("1.2", 'The oldest version that is taken: "1.2" or "1.3".')
    timeout: Duration = live(0, "How long may a handshake take? 0: 2s; 60s for links, MQTT and WebSocket.", ge=0)
    connection_rate_limit: Number = live(
        0, "How many handshakes may begin in a second? The others are closed. 0: no limit.", ge=0
    )
    handshake_first: Annotated[Any, Reader(_first)] = live(
        (False, 0),
        "Shake hands before INFO is sent: true, false, or a duration, after which a client that has sent nothing gets "
        "INFO first. auto is 50ms.",
        aliases=("first", "immediate"),
        example='"auto"',
    )
    insecure: Flag = live(False, "Of a remote: trust any server, whatever its certificate says. Not for use.")
    ocsp_peer: Any = later("revocation is not asked for (OCSP): a revoked certificate would be taken", refuse=True)
    cert_store: Any = later(_STORE, refuse=True)
    cert_match_by: Any = later(_STORE, refuse=False)
    cert_match: Any = later(_STORE, refuse=False)
    cert_match_skip_invalid: Any = later(_STORE, refuse=False)
    ca_certs_match: Any = later(_STORE, refuse=False)

    def check(self) -> None:
        if self.verify_cert_and_check_known_urls:
            raise ValueError("verify_cert_and_check_known_urls is not supported here: it is for routes of a cluster")
        if self.certs and self.cert_file:
            raise ValueError("cert_file and certs exclude each other: keep one")
        if self.cert_file and not self.key_file:
            raise Invalid([Problem(("cert_file",), "needs a key_file")])
        if self.key_file and not self.cert_file:
            raise Invalid([Problem(("key_file",), "needs a cert_file")])
        weak = [name for name in self.cipher_suites if name in INSECURE_SUITES]
        if weak and not self.allow_insecure_cipher_suites:
            raise ValueError(f"cipher_suites has insecure ones without allow_insecure_cipher_suites: {', '.join(weak)}")
        from leafd.config.tls_files import read_material  # here: without TLS none of it is needed

        pairs: list[tuple[Path, str, Path, str]] = []
        if self.cert_file:
            pairs.append((("cert_file",), self.cert_file, ("key_file",), self.key_file))
        for number, one in enumerate(self.certs):
            here = ("certs", number)
            pairs.append(((*here, "cert_file"), one.cert_file, (*here, "key_file"), one.key_file))
        self.__dict__["_material"] = read_material(pairs, (("ca_file",), self.ca_file))

    @property
    def material(self) -> Material:
        """The certificates and keys of the files."""
        found: Material = self.__dict__["_material"]
        return found

    @property
    def verifies(self) -> bool:
        """Whether each peer that connects has to show a certificate."""
        return self.verify or self.verify_and_map

    def compiled(self, patience: int = DEFAULT_TIMEOUT) -> TlsOptions:
        """The block as OpenSSL is told it; patience counts where the block says nothing of a timeout."""
        from leafd.config.tls_files import TlsOptions

        first, fallback_ns = self.handshake_first
        return TlsOptions(
            material=self.material,
            verify=self.verifies,
            insecure=self.insecure,
            pinned=tuple(dict.fromkeys(self.pinned_certs)),
            cipher_suites=self.cipher_suites,
            curves=self.curve_preferences,
            min_version=VERSIONS[self.min_version],
            timeout_ns=self.timeout or patience,
            rate=self.connection_rate_limit,
            first=first,
            fallback_ns=fallback_ns,
        )

    def expiring(self, now_s: float | None = None) -> list[str]:
        """A line for each certificate that has expired or is about to."""
        from leafd.config.tls_files import expiring

        return expiring(self.material, now_s)

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) is True and isinstance(other, Tls) and self.material == other.material


def login_timeout(authorization: Section | None, tls: Tls | None, patience: int = DEFAULT_TIMEOUT) -> int:
    """How long a login may take: what the listener's authorization says, or a second more than its handshake may."""
    if authorization is not None and "timeout" in authorization.given:
        found: int = authorization.timeout  # type: ignore[attr-defined]
        return found
    return patience if tls is None else (tls.timeout or patience) + SECOND
