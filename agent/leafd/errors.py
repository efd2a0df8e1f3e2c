"""The exceptions that every room may raise and the daemon turns into one clear line. No room's own logic lives here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

EXIT_FAILURE: Final = 1
EXIT_CONFIG: Final = 78


class LeafdError(Exception):
    """Something the operator has to know: the text says what is wrong and what to do about it."""


class ConfigError(LeafdError):
    """The configuration cannot be used. The text begins with file:line:column where a place is known."""


class StartError(LeafdError):
    """The daemon cannot start or go on: a port in use, a store that is locked or of a newer format, a directory that
    is not writable."""


class UsageError(LeafdError):
    """The command line is wrong."""


def exit_code(error: BaseException, environment: Mapping[str, str] | None = None) -> int:
    """The process's exit code: 1 as nats-server does, but 78 (EX_CONFIG) when systemd started it and a retry is no
    use."""
    env = os.environ if environment is None else environment
    hopeless = isinstance(error, ConfigError | UsageError) and "INVOCATION_ID" in env and "NOTIFY_SOCKET" in env
    return EXIT_CONFIG if hopeless else EXIT_FAILURE
