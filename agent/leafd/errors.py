"""The exceptions that every room may raise and the daemon turns into one clear line. No room's own logic lives here."""

from __future__ import annotations


class LeafdError(Exception):
    """Something the operator has to know: the text says what is wrong and what to do about it."""


class ConfigError(LeafdError):
    """The configuration cannot be used. The text begins with file:line:column where a place is known."""


class StartError(LeafdError):
    """The daemon cannot start or go on: a port in use, a store that is locked or of a newer format, a directory that
    is not writable."""


class UsageError(LeafdError):
    """The command line is wrong."""
