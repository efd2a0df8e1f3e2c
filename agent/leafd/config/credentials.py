"""Credentials of systemd (LoadCredential=, LoadCredentialEncrypted=): small files that the service alone can read, by
name.

    password: $hub-password        the credential's text, where no key and no environment variable has that name
    key_file: hub.key              the credential's file, where a file is asked for and the name has no slash

Not here: variables (tree.py), files' contents.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from leafd.files import is_there, read_file

DIRECTORY: Final = "CREDENTIALS_DIRECTORY"
_SERVICES: Final = Path("/run/credentials")
TEXT_MAX: Final = 1 << 20
"""The most bytes that systemd takes for all credentials together."""


def credential_text(name: str, environment: Mapping[str, str]) -> str | None:
    """The text of the credential with that name, without the end of its last line; None: there is none. Raises
    OSError."""
    path = _path(name, environment)
    if path is None:
        return None
    return read_file(path, TEXT_MAX).rstrip(b"\r\n").decode("utf-8", "surrogateescape")


def credential_file(value: object) -> object:
    """For keys that name a file: the credential's, where there is one of that name. Raises ValueError, without the
    value: it may be a seed."""
    try:
        path = _path(value, os.environ) if isinstance(value, str) else None
    except OSError as error:
        raise ValueError(f"{DIRECTORY} cannot be read: {error.strerror}") from error
    return value if path is None else str(path)


def borrow(unit: str, place: Path = _SERVICES) -> None:
    """For a command that looks at a service's configuration: it sees what that service sees, where it may."""
    found = place / unit
    if DIRECTORY not in os.environ and os.access(found, os.R_OK | os.X_OK):
        os.environ[DIRECTORY] = str(found)


def _path(name: str, environment: Mapping[str, str]) -> Path | None:
    directory = environment.get(DIRECTORY, "")
    if not directory or not name or "/" in name or "\0" in name:
        return None
    path = Path(directory, name)
    return path if is_there(path) and path.is_file() else None
