"""The commands for people: `leafd status`, `leafd check`, `leafd init` and their like.

They ask a running daemon as any other program would, over its monitoring port, and know the configuration language.
Not here: nats-server's flags (config/flags.py), which start the daemon, and anything of the daemon.

This module is read at every start of the daemon: it imports nothing.
"""

from __future__ import annotations

from typing import Final

COMMANDS: Final = (
    *("run", "check", "status", "doctor", "links", "streams", "consumers", "store", "init", "completion"),
    *("enrol", "boxes", "hub", "cluster"),
)
"""The words with which a command line of ours may begin. Any other is nats-server's."""
CONFIGURATION: Final = "/etc/leafd/leafd.conf"
"""The configuration of the daemon that a package has installed."""
COMPLETING: Final = "_LEAFD_COMPLETE"
"""The variable that a shell sets to ask for completions."""
