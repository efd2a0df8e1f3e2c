"""xkeys: Curve25519 keys in the text form of nkeys, and messages that one key's owner seals for another's.

    "xkv1" | 24 bytes of nonce | NaCl box

A box that opens proves that the owner of the other key sealed it. As nkeys.py, this asks for PyNaCl at its first use.
"""

from __future__ import annotations

import binascii
from typing import Final

from leafd.auth.nkeys import decode, encode_public

PREFIX_CURVE: Final = 0xB8
_SEED: Final = b"\x95\xc0"  # SX
_VERSION: Final = b"xkv1"
_NONCE_SIZE: Final = 24


def public_curve_key(text: str) -> bytes:
    """The 32 bytes of a public curve key. Raises ValueError."""
    try:
        raw = decode(text)
    except (ValueError, binascii.Error):
        raw = b""
    if len(raw) != 33 or raw[0] != PREFIX_CURVE:
        raise ValueError("not a public xkey")
    return raw[1:]


def _secret(seed: str) -> bytes:
    raw = decode(seed)
    if len(raw) != 34 or raw[:2] != _SEED:
        raise ValueError("not the seed of an xkey: it begins with SX")
    return raw[2:]


def public_of(seed: str) -> str:
    """The public key that belongs to a seed. Raises ValueError."""
    from nacl.public import PrivateKey

    return encode_public(PREFIX_CURVE, PrivateKey(_secret(seed)).public_key.encode())


def seal(seed: str, to: str, data: bytes) -> bytes:
    """A box with the data for the owner of the public key `to`. Raises ValueError."""
    from nacl.public import Box, PrivateKey, PublicKey

    box = Box(PrivateKey(_secret(seed)), PublicKey(public_curve_key(to)))
    return _VERSION + bytes(box.encrypt(data))


def unseal(seed: str, by: str, sealed: bytes) -> bytes:
    """The content of a box sealed by the owner of the public key `by`. Raises ValueError with the reference's text."""
    from nacl.exceptions import CryptoError
    from nacl.public import Box, PrivateKey, PublicKey

    if len(sealed) <= len(_VERSION) + _NONCE_SIZE:
        raise ValueError("nkeys: encrypted input is not valid")
    if not sealed.startswith(_VERSION):
        raise ValueError("nkeys: encrypted input wrong version")
    box = Box(PrivateKey(_secret(seed)), PublicKey(public_curve_key(by)))
    try:
        return bytes(box.decrypt(sealed[len(_VERSION) :]))
    except (CryptoError, ValueError) as error:
        raise ValueError("nkeys: could not decrypt input") from error
