"""The command `leafd`: read the command line, then check, signal, or run; or hand over to the commands for people
(cli/). Imports come late, so that -t, -v and --help are quick.

Exit codes: 0 all is well; 1 it could not start or was stopped by a failure (as nats-server; worth a retry); 78
(EX_CONFIG) when systemd
started it and the configuration or the command line is wrong, which no retry mends: the unit has
RestartPreventExitStatus=78.
A shell or a script sees 1 in that case, too, as from nats-server.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from leafd.config.flags import HELP, Flags, parse_flags
from leafd.errors import EXIT_FAILURE, LeafdError, UsageError, exit_code

if TYPE_CHECKING:
    from pathlib import Path

    from leafd.cli.store import Place

EXIT_OK: Final = 0
PROGRAM: Final = "leafd"


def main() -> int:
    """Entry point of the command."""
    words = sys.argv[1:]
    try:
        from leafd.cli import COMMANDS, COMPLETING

        if os.environ.get(COMPLETING) or (words and words[0] in COMMANDS and words[0] != "run"):
            from leafd.cli.app import Hands, main as command

            return command(words, Hands(_run, lambda file: _checked(Flags(config=str(file))), _place))
        return _run(words[1:] if words[:1] == ["run"] else words)
    except LeafdError as error:
        _complain(error)
        return exit_code(error)
    except KeyboardInterrupt:
        return EXIT_FAILURE


def _run(words: Sequence[str]) -> int:
    """nats-server's command line. Raises LeafdError."""
    flags = parse_flags(list(words))
    if flags.help:
        print(HELP)
        return EXIT_OK
    if flags.version:
        print(f"{PROGRAM}: v{version()}")
        return EXIT_OK
    if flags.signal is not None:
        from leafd.daemon.kill import send

        send(flags.signal)
        return EXIT_OK
    if flags.check and flags.config is None:
        raise UsageError("must specify [-c, --config] option to check configuration file syntax")
    if flags.check:
        for warning in _checked(flags):
            print(f"{PROGRAM}: {warning}", file=sys.stderr)
        print(f"{PROGRAM}: configuration file {flags.config} is valid")
        return EXIT_OK
    from leafd.daemon.early import hold

    hold()
    from leafd.config.load import load
    from leafd.daemon.start import start

    return start(load(flags), flags)


def _checked(flags: Flags) -> tuple[str, ...]:
    """The warnings of a configuration that can be used. Raises ConfigError."""
    from leafd.config.load import load

    loaded = load(flags)
    if not loaded.server.operated:
        return loaded.warnings
    from leafd.daemon.operator import check

    return (*loaded.warnings, *check(loaded))


def _place(config: Path | None) -> Place:
    """Where a configuration's daemon keeps its streams; without one, the installed daemon's. Raises LeafdError."""
    from leafd.cli import CONFIGURATION
    from leafd.cli.store import Place
    from leafd.config.load import load
    from leafd.daemon.store import store_directory, store_keys

    if config is None and not os.access(CONFIGURATION, os.R_OK):
        raise UsageError(
            f"{CONFIGURATION} cannot be read: name the store (--store DIR), or its configuration (-c FILE)"
        )
    server = load(Flags(config=str(config or CONFIGURATION))).server
    directory, _ = store_directory(server)
    resolver = server.resolver.dir if server.resolver is not None else ""
    return Place(directory, store_keys(server), type(directory)(resolver) if resolver else None)


def version() -> str:
    """This program's version, from the file that the build takes it from, too."""
    # importlib.metadata knows it as well, and takes longer to import than everything else that --version needs.
    with open(os.path.join(os.path.dirname(__file__), "VERSION"), encoding="utf-8") as file:
        return file.read().strip()


def _complain(error: Exception) -> None:
    prefix = ""
    if "JOURNAL_STREAM" in os.environ:
        from leafd.daemon.journal import Journal, is_journal

        prefix = Journal.prefix("ERR") if is_journal() else ""
    for line in str(error).splitlines():
        print(f"{prefix}{PROGRAM}: {line}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
