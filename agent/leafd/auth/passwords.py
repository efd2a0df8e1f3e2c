"""Comparing what a client sent with what the configuration holds: plain in constant time, bcrypt by its library, and
hashes of mosquitto's password files, so that its users keep their passwords:

    $7$ITERATIONS$SALT$HASH    PBKDF2 with SHA-512          $6$SALT$HASH    SHA-512 of password and salt

Only this module knows bcrypt, and loads it when the first such hash is checked.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64decode
from typing import Final

_BCRYPT: Final = re.compile(r"^\$2[abxy]\$\d{2}\$")
# bcrypt looks at no more than this; newer libraries refuse longer input where older ones cut it.
_BCRYPT_INPUT_MAX: Final = 72
# 64 bytes are 88 characters. The iterations have a limit, so that no file makes a login take minutes.
_MOSQUITTO: Final = re.compile(r"\$(6|7\$[1-9]\d{0,6})\$([A-Za-z0-9+/]{2,344}={0,2})\$([A-Za-z0-9+/]{86}==)")


def is_hash(configured: str) -> bool:
    """Whether a configured password or token is a hash (and checking it may take a tenth of a second)."""
    return _BCRYPT.match(configured) is not None or _MOSQUITTO.fullmatch(configured) is not None


def matches(configured: str, sent: str) -> bool:
    """Whether the client knows the password or token."""
    if (found := _MOSQUITTO.fullmatch(configured)) is not None:
        # mosquitto lets nobody in without a password, also where the hash is that of none.
        return bool(sent) and _knows(found, sent.encode("utf-8", "surrogatepass"))
    if is_hash(configured):
        import bcrypt

        try:
            return bcrypt.checkpw(sent.encode()[:_BCRYPT_INPUT_MAX], configured.encode())
        except ValueError:
            return False
    # JSON may bring half a surrogate pair; it has to compare as unequal, not to raise.
    return hmac.compare_digest(configured.encode("utf-8", "surrogatepass"), sent.encode("utf-8", "surrogatepass"))


def _knows(found: re.Match[str], sent: bytes) -> bool:
    import hashlib

    kind, _, iterations = found[1].partition("$")
    try:
        salt, digest = b64decode(found[2], validate=True), b64decode(found[3], validate=True)
    except ValueError:
        return False
    if kind == "7":
        return hmac.compare_digest(digest, hashlib.pbkdf2_hmac("sha512", sent, salt, int(iterations)))
    return hmac.compare_digest(digest, hashlib.sha512(sent + salt).digest())
