"""A JWT of NATS as text: three parts, of which the last signs the others with the issuer's nkey.

    base64url(header) . base64url(claims) . base64url(signature)        no padding; at most TOKEN_MAX characters
    header {"typ": "JWT", "alg": "ed25519-nkey"}: signed is "header.claims"

Version 1 (alg "ed25519", until 2020) has the type outside of the nats part, and signs "claims" alone. It is read as the
version 2 that says the same: limits that it does not name are not there.

    read(UserClaims, text) -> UserClaims, or JwtError, whose text names the field and what is wrong with it

Pure. What comes out is well-formed and signed by whom it names as its issuer, no more: whether that one is to be
believed, and whether the time is right, is trust.py's business. Sizes are checked first, then forms, then the
signature. Not here: the fields of claims (jwt_claims.py), keys (nkeys.py).
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, Final, TypeVar

from leafd.auth.jwt_claims import VERSION_MAX, Claims
from leafd.auth.nkeys import PREFIX_ACCOUNT, PREFIX_OPERATOR, PREFIX_USER, public_key, signed
from leafd.gojson import TEXT, JsonError, Struct, decode, loose, wire
from leafd.records import dataclass

TOKEN_MAX: Final = 1 << 20
USER_TOKEN_MAX: Final = 64 << 10
_HEADER_MAX: Final = 1024
_SIGNATURE_SIZE: Final = 64
_ALGORITHM: Final = "ed25519-nkey"
_ALGORITHM_1: Final = "ed25519"
_ISSUERS: Final = {
    "operator": (PREFIX_OPERATOR,),
    "account": (PREFIX_OPERATOR, PREFIX_ACCOUNT),
    "user": (PREFIX_ACCOUNT,),
    "activation": (PREFIX_ACCOUNT, PREFIX_OPERATOR),
}
_SUBJECTS: Final = {
    "operator": (PREFIX_OPERATOR,),
    "account": (PREFIX_ACCOUNT,),
    "user": (PREFIX_USER,),
    "activation": (PREFIX_ACCOUNT,),
}
_USER_LIMITS: Final = ("subs", "data", "payload")
_ACCOUNT_LIMITS_1: Final = ("subs", "data", "payload", "imports", "exports", "wildcards", "conn", "leaf")
_ANY: Final = (PREFIX_OPERATOR, PREFIX_ACCOUNT, PREFIX_USER)

_Claims = TypeVar("_Claims", bound=Claims)


class JwtError(ValueError):
    """The text is no JWT of that kind, or not signed by its issuer. Never has anything of the token but its fields'
    names and short values."""


@dataclass(frozen=True, slots=True)
class _Header(Struct):
    go_name = "Header"

    kind: str = wire(TEXT, "typ")
    algorithm: str = wire(TEXT, "alg")


def read(struct: type[_Claims], text: str, *, size_max: int = TOKEN_MAX) -> _Claims:
    """The claims of a token. Raises JwtError."""
    text = text.strip()
    if len(text) > size_max:
        raise JwtError(f"the JWT has {len(text)} characters, where at most {size_max} are taken")
    parts = text.split(".", 3)
    if len(parts) != 3:
        raise JwtError("expected 3 chunks")  # the reference's words, which nsc shows
    _check_header(_unpacked(parts[0], "header"))
    claims = _claims(struct, _unpacked(parts[1], "claims"))
    signature = _unpacked(parts[2], "signature")
    try:
        key = public_key(claims.iss, *_ISSUERS.get(struct.kind, _ANY))
    except ValueError as error:
        raise JwtError(f"iss: {error}") from None
    message = parts[1] if claims.old_type else f"{parts[0]}.{parts[1]}"
    if len(signature) != _SIGNATURE_SIZE or not signed(key, message.encode("ascii"), signature):
        raise JwtError("the signature is not that of the issuer (iss)")
    return claims


def _unpacked(part: str, what: str) -> bytes:
    try:
        if len(part) % 4 == 1 or "=" in part:
            raise ValueError
        return base64.b64decode(part.encode("ascii") + b"=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise JwtError(f"{what}: not base64url") from None


def _check_header(text: bytes) -> None:
    try:
        header = decode(_Header, text, strict=False, size_max=_HEADER_MAX)
    except JsonError as error:
        raise JwtError(f"header: {error}") from None
    if header.kind.upper() != "JWT":
        raise JwtError(f"header: typ is {header.kind[:20]!r}, not JWT")
    if header.algorithm.lower() not in (_ALGORITHM, _ALGORITHM_1):
        raise JwtError(f"header: alg is {header.algorithm[:20]!r}, not {_ALGORITHM}")


def _migrated(kind: str, text: bytes) -> bytes:
    """Claims of version 1 as version 2 has them. Raises JsonError."""
    claims = loose(text, size_max=TOKEN_MAX)
    found = claims.get("nats")
    body: dict[str, Any] = found if isinstance(found, dict) else {}
    body |= {name: claims[name] for name in ("tags", "issuer_account") if name in claims}
    if kind == "user":
        body = dict.fromkeys(_USER_LIMITS, -1) | body
    limits = body.get("limits")
    if kind == "account" and isinstance(limits, dict):
        body["limits"] = {name: value for name, value in limits.items() if name in _ACCOUNT_LIMITS_1}
    return json.dumps(claims | {"nats": body | {"type": claims["type"], "version": 1}}).encode()


def _claims(struct: type[_Claims], text: bytes) -> _Claims:
    try:
        claims = decode(struct, text, strict=False, size_max=TOKEN_MAX)
        if claims.old_type:
            claims = decode(struct, _migrated(struct.kind, text), strict=False, size_max=2 * TOKEN_MAX)
    except JsonError as error:
        raise JwtError(f"claims: {error}") from None
    if claims.version > VERSION_MAX:
        raise JwtError(f"nats.version is {claims.version}, newer than this build knows ({VERSION_MAX})")
    # nsc's requests to delete accounts do not say what they are; nothing else is read as such a request.
    if claims.declared != struct.kind and (claims.declared or struct.kind != "generic"):
        raise JwtError(f"nats.type is {claims.declared[:20]!r}, where a JWT of type {struct.kind!r} is expected")
    try:
        public_key(claims.sub, *_SUBJECTS.get(struct.kind, _ANY))
    except ValueError as error:
        raise JwtError(f"sub: {error}") from None
    return claims
