"""The text of an enrolment token, as the person who sets up a box is given it.

    lfd1-R2K4ZQXA-MZXW6YTBOI5GC3TEMVZGS43UEA            word, id, secret: what the hub is told
    lfd1-R2K4ZQXA-MZXW6YTBOI5GC3TEMVZGS43UEA.MIIB...   and the certificate that the hub's TLS is checked with, for
                                                       `leafd init` alone: DER in base64url

The id is 40 random bits and finds the token; the secret is 128, of which the hub keeps a SHA-256. Nobody finds that out
by trying, so it needs no salt and no slow hash, and a comparison that takes the same time however much is right.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from typing import Final

from leafd.errors import UsageError
from leafd.records import dataclass

WORD: Final = "lfd1"
"""The beginning of every token, by which it can be told from a password."""
CERTIFICATE_MAX: Final = 4096
_ID_BYTES: Final = 5
_SECRET_BYTES: Final = 16
_TEXT: Final = re.compile(rf"{WORD}-([A-Z2-7]{{8}})-([A-Z2-7]{{26}})")


@dataclass(frozen=True, slots=True)
class Secret:
    """A token as the hub is told it."""

    id: str
    secret: str

    @property
    def text(self) -> str:
        """As it is written."""
        return f"{WORD}-{self.id}-{self.secret}"

    @property
    def digest(self) -> str:
        """The digest that the hub keeps of a token."""
        return hashlib.sha256(self.secret.encode()).hexdigest()

    def is_of(self, digest: str) -> bool:
        """Whether that is what is kept of it; the time that this takes tells nothing."""
        return hmac.compare_digest(self.digest, digest)


@dataclass(frozen=True, slots=True)
class Ticket:
    """A token as people are given it. certificate: DER, or nothing."""

    secret: Secret
    certificate: bytes = b""

    @property
    def text(self) -> str:
        """As it is written."""
        if not self.certificate:
            return self.secret.text
        return f"{self.secret.text}.{base64.urlsafe_b64encode(self.certificate).decode().rstrip('=')}"


def new_secret() -> Secret:
    """One that nobody has."""
    return Secret(_random(_ID_BYTES), _random(_SECRET_BYTES))


def read_secret(text: str) -> Secret | None:
    """The secret in a login; None: the text is not a token."""
    found = _TEXT.fullmatch(text)
    return Secret(found[1], found[2]) if found is not None else None


def read_ticket(text: str) -> Ticket:
    """The ticket in a typed or pasted text. Raises UsageError."""
    first, _, rest = "".join(text.split()).partition(".")
    secret = read_secret(first)
    if secret is None:
        raise UsageError(f"that is no token: one begins with {WORD}-, as `leafd enrol token` at the hub prints it")
    try:
        if re.search(r"[^\w-]", rest, re.ASCII):
            raise ValueError
        certificate = base64.urlsafe_b64decode(rest + "=" * (-len(rest) % 4))
    except (ValueError, binascii.Error):
        raise UsageError("the part of the token behind its dot is damaged: was it copied whole?") from None
    return Ticket(secret, certificate)


def _random(size: int) -> str:
    return base64.b32encode(secrets.token_bytes(size)).decode().rstrip("=")
