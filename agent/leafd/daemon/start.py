"""The first part of a start: the log, the limit of descriptors, the listeners; and how the daemon ended, as exit code.

Little is imported for this, so the ports are open after the first third of a start. A client that connects during the
rest of it waits in the listeners' backlog for INFO and is not refused. Only the clients' port of a member of a cluster
opens last (listening.py). Not here: the daemon itself (run.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from leafd.config.bind import Loaded
from leafd.config.flags import Flags
from leafd.config.schema.server import ServerConfig
from leafd.errors import LeafdError, exit_code
from leafd.host import descriptors, memory, start_signals
from leafd.host.anew import Again
from leafd.host.listeners import bind_all
from leafd.host.log import Log, Target


def start(loaded: Loaded, flags: Flags) -> int:
    """Serves until a signal ends it; the exit code."""
    config = loaded.server
    log = Log(log_target(config), debug=config.debug, trace=config.traces, times=config.logtime, utc=config.logtime_utc)
    for warning in loaded.warnings:
        log.warning(warning)
    log.info("Starting leafd", event="starting")
    if flags.config:
        log.info(f"Using configuration file: {flags.config} ({loaded.digest})")
    descriptors.raise_limit()
    bound, wanted = memory.allowed_by(config, memory.memory_limit(config))
    if text := descriptors.warning(wanted, bound):
        # Nobody asked for the default's 65,536: that they are fewer is no news then.
        (log.warning if "max_connections" in config.given else log.info)(text)
    code, again = 0, False
    try:
        start_signals.judge()
        sockets = bind_all(config)
        from leafd.daemon.run import serve

        start_signals.judge()
        serve(loaded, flags, log, sockets)
    except* start_signals.Unwanted:
        log.info("Initiating Shutdown...", event="stopping")
    except* LeafdError as group:
        for error in _leaves(group):
            log.fatal(str(error))
            code = exit_code(error)
    except* Again:
        again = start_signals.kept()
    if code == 0 and not again:
        log.info("Server Exiting..", event="stopped")
    log.close()
    if again:
        os.execv(sys.executable, sys.orig_argv)
    return code


def log_target(config: ServerConfig) -> Target:
    """The target of the log."""
    return Target(config.log_file, config.log_size_limit, config.log_max_num, config.syslog_url())


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
