"""nkeys: the text form of Ed25519 keys that NATS uses, signatures with them, and the text of credentials files.

    base32( prefix byte | 32 bytes | CRC-16/XMODEM of both, little-endian ), upper case, no padding -> 56 characters
    seed: base32( two bytes that hold "S" and the type | 32 bytes | CRC )                          -> 58 characters

A credentials file has a JWT and the seed of its user, each between markers. Those that nsc writes have unequal numbers
of dashes; three or more are taken.

    -----BEGIN NATS USER JWT-----  eyJ0...  ------END NATS USER JWT------
    -----BEGIN USER NKEY SEED-----  SUA...  ------END USER NKEY SEED------

The Spark side is handed out with this file and without the rest of the daemon (packaging/spark-wheel).

Only this module knows PyNaCl, and it asks for it at the first signature: a box without nkeys never loads it.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from typing import Final

PREFIX_ACCOUNT: Final = 0x00
PREFIX_SERVER: Final = 0x68
PREFIX_OPERATOR: Final = 0x70
PREFIX_USER: Final = 0xA0
_SEED: Final = 0x90
_PUBLIC_CHARACTERS: Final = 56
_SEED_CHARACTERS: Final = 58
_SECTION: Final = re.compile(r"-{3,}BEGIN ([^-\n]+)-{3,}\s*([\w.+/=-]+)\s*-{3,}END [^-\n]+-{3,}")
_KINDS: Final = {PREFIX_ACCOUNT: "an account", PREFIX_OPERATOR: "an operator", PREFIX_USER: "a user"}


def encode_public(prefix: int, key: bytes) -> str:
    """The text of a public key."""
    raw = bytes([prefix]) + key
    return base64.b32encode(raw + binascii.crc_hqx(raw, 0).to_bytes(2, "little")).decode().rstrip("=")


def decode(text: str) -> bytes:
    """The bytes before the checksum. Raises ValueError."""
    if len(text) > _SEED_CHARACTERS:
        raise ValueError(f"an nkey has {_PUBLIC_CHARACTERS} characters, a seed {_SEED_CHARACTERS}")
    try:
        raw = base64.b32decode(text + "=" * (-len(text) % 8))
    except (ValueError, binascii.Error) as error:
        raise ValueError("an nkey has only the letters A-Z and the digits 2-7") from error
    if len(raw) < 4 or binascii.crc_hqx(raw[:-2], 0) != int.from_bytes(raw[-2:], "little"):
        raise ValueError("the nkey's checksum is wrong: was it copied whole?")
    return raw[:-2]


def public_key(text: str, *prefixes: int) -> bytes:
    """The 32 bytes of a public nkey of one of these kinds. Raises ValueError."""
    raw = decode(text)
    if len(raw) != 33 or raw[0] not in prefixes:
        raise ValueError(f"not a public nkey of {' or '.join(_KINDS.get(one, 'a server') for one in prefixes)}")
    return raw[1:]


def is_public_key(text: str, *prefixes: int) -> bool:
    """Whether it is a public nkey of one of these kinds."""
    try:
        public_key(text, *prefixes)
    except ValueError:
        return False
    return True


def public_user_key(text: str) -> bytes:
    """The 32 bytes of a user's public nkey. Raises ValueError."""
    return public_key(text, PREFIX_USER)


def new_server_id() -> str:
    """An id for one run of a server. It has the form of a server's public nkey, as every peer expects; nothing is
    signed with it."""
    return encode_public(PREFIX_SERVER, secrets.token_bytes(32))


def signed(key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the owner of the public key (32 bytes) has signed the message."""
    from nacl.exceptions import BadSignatureError
    from nacl.signing import VerifyKey

    try:
        VerifyKey(key).verify(message, signature)
    except (ValueError, BadSignatureError):
        return False
    return True


def verify(user_key: str, nonce: str, signature: str) -> bool:
    """Whether the signature over the nonce's text is that user's."""
    try:
        key = public_user_key(user_key)
        # Clients send base64url without padding; old ones the standard alphabet.
        text = signature.replace("+", "-").replace("/", "_").rstrip("=")
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return signed(key, nonce.encode(), raw)
    except ValueError:
        return False


def sign(seed: str, nonce: str) -> tuple[str, str]:
    """(public nkey, signature of the nonce in base64url) for a user's seed. Raises ValueError."""
    from nacl.signing import SigningKey

    raw = decode(seed)
    if len(raw) != 34 or raw[0] & 0xF8 != _SEED:
        raise ValueError("not the seed of an nkey: it begins with S")
    prefix = (raw[0] & 0x07) << 5 | (raw[1] & 0xF8) >> 3
    key = SigningKey(raw[2:])
    signature = base64.urlsafe_b64encode(key.sign(nonce.encode()).signature).decode().rstrip("=")
    return encode_public(prefix, key.verify_key.encode()), signature


def new_seed(prefix: int) -> str:
    """The seed of a new key pair of that kind (PREFIX_*)."""
    raw = bytes([_SEED | prefix >> 5, (prefix & 0x1F) << 3]) + secrets.token_bytes(32)
    return base64.b32encode(raw + binascii.crc_hqx(raw, 0).to_bytes(2, "little")).decode().rstrip("=")


def credentials_of(text: str) -> tuple[str, str]:
    """The JWT and the seed in the text of a credentials file. Raises ValueError."""
    parts = {name.strip(): value for name, value in _SECTION.findall(text)}
    token = next((value for name, value in parts.items() if name.endswith("JWT")), "")
    seed = next((value for name, value in parts.items() if name.endswith("SEED")), "")
    if not token or not seed:
        raise ValueError("no user JWT and seed: make it anew with nsc generate creds")
    return token, seed
