"""The client's identity: the fields of CONNECT about it, the signature under a server's nonce, and the TLS context.

Here: what the options say of them, and certificates. Not here: nkeys and the text of credentials files
(`leafd.auth.nkeys`), the connection (`wire`).

Keys and certificates may be given as the name of a file or as its text. A file is looked for on the machine that
dials, an executor; text travels with the query. Signing needs PyNaCl, which nothing else here does, so it is
imported when a key is used.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from leafd.auth.nkeys import credentials_of, sign

PEM_BEGIN = "-----BEGIN "
SEED = re.compile(r"^\s*S[A-Z2-7]{57}\s*$")
CREDENTIALS = re.compile(r"-{3,}BEGIN ")


class NotIdentified(Exception):
    """The options for the login cannot be used: a file is missing, or is not what it should be."""


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
            try:
                jwt, seed = credentials_of(text_of(self.credentials, "credentials", CREDENTIALS))
            except ValueError as error:
                raise NotIdentified(f"option credentials: not a credentials file: {error}") from error
            signed = _signed(seed, nonce)
            del signed["nkey"]  # the JWT says whose it is
            return fields | {"jwt": jwt} | signed
        if self.nkey:
            return fields | _signed(text_of(self.nkey, "nkey", SEED).strip(), nonce)
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


def _signed(seed: str, nonce: str) -> dict[str, str]:
    """The public nkey and the signature."""
    try:
        public, signature = sign(seed, nonce)
    except ImportError as error:
        raise NotIdentified("signing with an nkey needs PyNaCl: pip install pynacl") from error
    except ValueError as error:
        raise NotIdentified(str(error)) from error
    # Without a nonce the server asks for no signature, and says what it thinks of the rest.
    return {"nkey": public, "sig": signature} if nonce else {"nkey": public}


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
