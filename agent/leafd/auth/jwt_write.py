"""JWTs that this server writes: the claims as the reference spells them, signed with an nkey.

    base64url({"typ":"JWT","alg":"ed25519-nkey"}) . base64url(claims) . base64url(signature of what is before it)

Members stand in the reference's order and empty ones are left out, so that the same claims are the same token, byte for
byte. Not here: reading tokens.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any, Final

from leafd.auth.nkeys import sign
from leafd.gojson import dump

VERSION: Final = 2
_HEADER: Final = {"typ": "JWT", "alg": "ed25519-nkey"}


def write(
    kind: str, subject: str, body: Mapping[str, Any], seed: str, issued_at: int, *,
    audience: str = "", name: str = "", expires: int = 0,
) -> str:  # fmt: skip
    """A token of that kind for that subject. body: what the claims of its kind say. Times are seconds since 1970."""
    outer: dict[str, Any] = {
        "aud": audience,
        "exp": expires,
        "jti": "",
        "iat": issued_at,
        "iss": sign(seed, "")[0],
        "name": name,
        "sub": subject,
    }
    outer["jti"] = _digest({name: value for name, value in outer.items() if value})
    claims = {name: value for name, value in outer.items() if value}
    claims["nats"] = {**body, "type": kind, "version": VERSION}
    text = f"{_unpadded(dump(_HEADER))}.{_unpadded(dump(claims))}"
    return f"{text}.{sign(seed, text)[1]}"


def _digest(outer: Mapping[str, Any]) -> str:
    return base64.b32encode(hashlib.new("sha512_256", dump(outer)).digest()).decode().rstrip("=")


def _unpadded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
