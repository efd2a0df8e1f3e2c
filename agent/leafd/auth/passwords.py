"""Comparing what a client sent with what the configuration holds: plain in constant time, bcrypt by its library.

Only this module knows bcrypt, and loads it when the first hash is checked.
"""

from __future__ import annotations

import hmac
import re
from typing import Final

_BCRYPT: Final = re.compile(r"^\$2[abxy]\$\d{2}\$")
# bcrypt looks at no more than this; newer libraries refuse longer input where older ones cut it.
_BCRYPT_INPUT_MAX: Final = 72


def is_hash(configured: str) -> bool:
    """Whether a configured password or token is a bcrypt hash (and checking it takes a tenth of a second)."""
    return _BCRYPT.match(configured) is not None


def matches(configured: str, sent: str) -> bool:
    """Whether the client knows the password or token."""
    if is_hash(configured):
        import bcrypt

        try:
            return bcrypt.checkpw(sent.encode()[:_BCRYPT_INPUT_MAX], configured.encode())
        except ValueError:
            return False
    # JSON may bring half a surrogate pair; it has to compare as unequal, not to raise.
    return hmac.compare_digest(configured.encode("utf-8", "surrogatepass"), sent.encode("utf-8", "surrogatepass"))
