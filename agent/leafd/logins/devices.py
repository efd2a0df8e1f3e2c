"""The count of MQTT clients that are logged in, by version, and of those that were not let in. Imported only where
there is a listener for them. Not here: who may log in (clients.py), what reports make of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from leafd import native_types as t
from leafd.config.schema.mqtt import VERSIONS

if TYPE_CHECKING:
    from leafd.logins.client import Client

_OF_LEVELS: Final = dict(zip((4, 5), VERSIONS, strict=True))
"""Versions by the number that CONNECT has."""


class Devices:
    """How many clients of MQTT are here, and how many were not let in."""

    def __init__(self) -> None:
        self._here = dict.fromkeys(VERSIONS, 0)
        self.refused = 0
        """Since the start; also those who did not log in in time."""

    @property
    def here(self) -> Mapping[str, int]:
        """Logged in, by the version that they speak."""
        return self._here

    def came(self, client: Client) -> None:
        """Counts a client that was admitted."""
        self._count(client, 1)

    def count(self, level: int, change: int) -> None:
        """Counts clients of a version, by its number in CONNECT."""
        version = _OF_LEVELS.get(level)
        if version is not None:
            self._here[version] += change

    def went(self, client: Client, event: t.Closed) -> None:
        """Counts the end of a client, or of its login."""
        if client.account is not None:
            self._count(client, -1)
        elif client.mqtt is not None and event.reason == t.CloseReason.AUTHENTICATION:
            self.refused += 1

    def _count(self, client: Client, change: int) -> None:
        if client.mqtt is not None:
            self.count(client.mqtt.level, change)
