"""Who this client is: the fields of CONNECT that say it, a server's nonce signed, and the TLS context.

What lives here: nkeys, credentials files, certificates. What doesn't: the connection (`wire`).

Keys and certificates may be given as the name of a file or as its text. A file is looked for on the machine that
dials, an executor; text travels with the query. Signing needs PyNaCl, which nothing else here does, so it is
imported when a key is used.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PEM_BEGIN = "-----BEGIN "
SEED = re.compile(r"^\s*S[A-Z2-7]{57}\s*$")
CREDENTIALS = re.compile(r"-{3,}BEGIN ")
SEED_SIZE = 36  # two bytes of prefix, the key, two bytes of checksum
KEY_SIZE = 32
PREFIX_SEED = 18 << 3
PREFIX_USER = 20 << 3


class NotIdentified(Exception):
    """What the options say of the login cannot be used: a file is missing, or is not what it should be."""


@dataclass(frozen=True, slots=True)
class Login:
    """How to present oneself; what is empty is not sent. Secrets do not show in its text."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    nkey: str = field(default="", repr=False)  # a seed, SU..., or the file that has it
    credentials: str = field(default="", repr=False)  # a JWT and its seed as `nsc` writes them, or that file
    ca_file: str = ""  # certificates to trust, in place of the system's
    cert_file: str = ""  # the client's certificate
    key_file: str = field(default="", repr=False)  # its key

    @property
    def given(self) -> bool:
        """Whether it says who we are (certificates apart)."""
        return bool(self.user or self.password or self.token or self.nkey or self.credentials)

    @property
    def wants_tls(self) -> bool:
        return bool(self.ca_file or self.cert_file)

    def fields(self, nonce: str) -> dict[str, str]:
        """The fields of CONNECT; the nonce is the server's, and may be empty where no key is given."""
        named = {"user": self.user, "pass": self.password, "auth_token": self.token}
        fields = {name: value for name, value in named.items() if value}
        if self.credentials:
            jwt, seed = parse_credentials(text_of(self.credentials, "credentials", CREDENTIALS))
            return fields | {"jwt": jwt} | _signed(seed, nonce)
        if self.nkey:
            seed = text_of(self.nkey, "nkey", SEED).strip()
            return fields | {"nkey": public_key(seed)} | _signed(seed, nonce)
        return fields

    def context(self) -> ssl.SSLContext:
        """TLS as the options want it."""
        authority = self.ca_file
        try:
            if PEM_BEGIN in authority:
                context = ssl.create_default_context(cadata=authority)
            else:
                context = ssl.create_default_context(cafile=authority or None)
            if self.cert_file:
                _load_chain(context, self.cert_file, self.key_file)
        except (OSError, ssl.SSLError) as error:
            raise NotIdentified(f"caFile, certFile or keyFile cannot be used: {error}") from error
        return context


def text_of(given: str, option: str, shape: re.Pattern[str]) -> str:
    """The text itself where it has that shape, or that of the file which it names."""
    if shape.search(given):
        return given
    try:
        return Path(given).read_text()
    except (OSError, ValueError) as error:
        raise NotIdentified(f"option {option}: {getattr(error, 'strerror', None) or error}: {given!r}") from error


def parse_credentials(text: str) -> tuple[str, str]:
    """JWT and seed of a credentials file."""
    blocks = re.findall(r"-{3,}BEGIN [^\n]*-{3,}\s+([\w.=-]+)\s+-{3,}END [^\n]*-{3,}", text)
    if len(blocks) < 2 or blocks[0].count(".") != 2:
        raise NotIdentified("option credentials: not a credentials file, which has a JWT and a seed")
    return blocks[0], blocks[1]


def _raw_seed(seed: str) -> bytes:
    try:
        raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
    except binascii.Error:
        raw = b""
    if len(raw) != SEED_SIZE or raw[0] & 0xF8 != PREFIX_SEED:
        raise NotIdentified("the nkey is not a seed, which begins with SU and has 58 letters and digits")
    if int.from_bytes(raw[-2:], "little") != crc16(raw[:-2]):
        raise NotIdentified("the nkey's checksum is wrong: was it cut or mistyped?")
    return raw[2 : 2 + KEY_SIZE]


def crc16(data: bytes) -> int:
    """CRC-16/XMODEM, the checksum of nkeys."""
    return binascii.crc_hqx(data, 0)


def _key(seed: str) -> Any:
    try:
        from nacl.signing import SigningKey
    except ImportError as error:
        raise NotIdentified("signing with an nkey needs PyNaCl: pip install pynacl") from error
    return SigningKey(_raw_seed(seed))


def public_key(seed: str) -> str:
    """The user's public nkey, U..., of a seed."""
    raw = bytes([PREFIX_USER]) + bytes(_key(seed).verify_key)
    raw += crc16(raw).to_bytes(2, "little")
    return base64.b32encode(raw).decode().rstrip("=")


def _signed(seed: str, nonce: str) -> dict[str, str]:
    if not nonce:
        return {}  # the server asks for no signature, and says what it thinks of the rest
    signature = _key(seed).sign(nonce.encode()).signature
    return {"sig": base64.urlsafe_b64encode(signature).decode().rstrip("=")}


def _load_chain(context: ssl.SSLContext, cert: str, key: str) -> None:
    """The client's certificate. Python takes it from files only, so text goes through files that are gone at once."""
    made = []
    try:
        names = []
        for text in (cert, key):
            if PEM_BEGIN in text:
                handle, name = tempfile.mkstemp()  # readable by this user alone
                made.append(name)
                with os.fdopen(handle, "w") as file:
                    file.write(text)
                text = name
            names.append(text)
        context.load_cert_chain(names[0], names[1] or None)
    finally:
        for name in made:
            os.unlink(name)
