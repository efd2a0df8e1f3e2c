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
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from leafd.config.flags import HELP, Flags, parse_flags
from leafd.errors import EXIT_FAILURE, LeafdError, UsageError, exit_code

if TYPE_CHECKING:
    from pathlib import Path

    from leafd.cli.pages import Monitor
    from leafd.cli.store import Place
    from leafd.cli.views import Intended
    from leafd.config.bind import Loaded
    from leafd.config.schema.server import ServerConfig
    from leafd.declared.steps import PresentStream

EXIT_OK: Final = 0
PROGRAM: Final = "leafd"


def main() -> int:
    """Entry point of the command."""
    words = sys.argv[1:]
    try:
        from leafd.cli import COMMANDS, COMPLETING

        if os.environ.get(COMPLETING) or (words and words[0] in COMMANDS and words[0] != "run"):
            from leafd.cli.app import Hands, main as command

            check = lambda file: _checked(Flags(config=str(file)))[1]  # noqa: E731
            return command(words, Hands(_run, check, _place, _planned, _enrolling))
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
        from leafd.host.kill import send

        send(flags.signal)
        return EXIT_OK
    if flags.check and flags.config is None:
        raise UsageError("must specify [-c, --config] option to check configuration file syntax")
    if flags.check:
        loaded, warnings = _checked(flags)
        for warning in warnings:
            print(f"{PROGRAM}: {warning}", file=sys.stderr)
        return _rehearsed(loaded, flags)
    from leafd.host.garbage import begin_start
    from leafd.host.start_signals import hold

    hold()
    begin_start()
    from leafd.config.load import load
    from leafd.daemon.start import start

    return start(load(flags), flags)


def _checked(flags: Flags) -> tuple[Loaded, tuple[str, ...]]:
    """A configuration that can be used, and its warnings. Raises ConfigError."""
    from leafd.config.load import load

    loaded = load(flags)
    if not loaded.server.operated:
        return loaded, loaded.warnings
    from leafd.daemon.operator import check

    return loaded, (*loaded.warnings, *check(loaded))


def _rehearsed(loaded: Loaded, flags: Flags) -> int:
    """Reads a configuration's declared JetStream assets as a reload would, and fails where a reload would be
    refused."""
    from pathlib import Path

    intended = _intended(loaded, Path(flags.config or ""), None)
    for one in intended:
        print(f"{PROGRAM}: {one.line}", file=sys.stderr if one.refused else sys.stdout)
    if any(one.refused for one in intended):
        return EXIT_FAILURE
    print(f"{PROGRAM}: configuration file {flags.config} is valid ({loaded.digest})")
    return EXIT_OK


def _planned(file: Path, monitor: Monitor | None) -> tuple[Intended, ...]:
    """The steps towards a configuration's declared assets, from those that the daemon has, or the store. Raises
    LeafdError."""
    from leafd.config.load import load

    return _intended(load(Flags(config=str(file))), file, monitor)


def _intended(loaded: Loaded, file: Path, monitor: Monitor | None) -> tuple[Intended, ...]:
    if not loaded.server.declares:
        return ()
    from leafd.cli.views import Intended
    from leafd.daemon.declarations import rehearsed

    return tuple(
        Intended(
            one.action,
            one.asset.shown,
            one.asset.account,
            one.asset.place,
            ", ".join(f"{change.key} {change.before}, now {change.after}" for change in one.changes),
            one.refused,
        )
        for one in rehearsed(loaded, lambda: _found_or_nothing(loaded, file, monitor))
    )


def _found_or_nothing(loaded: Loaded, file: Path, monitor: Monitor | None) -> dict[str, dict[str, PresentStream]]:
    """The streams that were found; none where the user of the command may not look at the store."""
    try:
        return _found(loaded, file, monitor)
    except (OSError, LeafdError) as error:
        if monitor is not None:
            raise
        print(f"{PROGRAM}: what is declared is compared with an empty store: {error}", file=sys.stderr)
        return {}


def _found(loaded: Loaded, file: Path, monitor: Monitor | None) -> dict[str, dict[str, PresentStream]]:
    """The streams of that daemon; without one, of the process that has the store open, and of the store itself where
    nobody has or tells. None, where there is no store yet. Raises LeafdError."""
    from leafd.cli.pages import find
    from leafd.cli.store import JOURNAL, LMDB, locked, look_at
    from leafd.declared.inventory import REPORT, of_records, of_report

    if monitor is not None:
        return of_report(monitor.page(REPORT))
    place = _place_of(loaded.server)
    if not any((place.directory / name).exists() for name in (LMDB, JOURNAL)):
        return {}
    with locked(place.directory) as holder:
        if holder:  # what is stored is some seconds behind, and without memory streams
            with suppress(LeafdError):
                return of_report(find(None, file, None).page(REPORT))
        with look_at(place, holder) as look:
            return of_records(look.records())


def _place(config: Path | None) -> Place:
    """The store of a configuration's daemon; without a configuration, the installed daemon's. Raises LeafdError."""
    from leafd.cli import CONFIGURATION
    from leafd.config.load import load

    if config is None and not os.access(CONFIGURATION, os.R_OK):
        raise UsageError(
            f"{CONFIGURATION} cannot be read: name the store (--store DIR), or its configuration (-c FILE)"
        )
    return _place_of(load(Flags(config=str(config or CONFIGURATION))).server)


def _place_of(server: ServerConfig) -> Place:
    from leafd.cli.store import Place
    from leafd.daemon.store import enrol_directory, store_directory, store_keys

    directory, _ = store_directory(server)
    resolver = server.resolver.dir if server.resolver is not None else ""
    jwt = type(directory)(resolver) if resolver else None
    return Place(directory, store_keys(server), jwt, enrol_directory(server))


def _enrolling(config: Path | None) -> tuple[Path, ServerConfig]:
    """The directory of a configuration's register of boxes, and the configuration. Raises LeafdError."""
    from leafd.cli import CONFIGURATION
    from leafd.config.load import load
    from leafd.daemon.store import enrol_directory

    server = load(Flags(config=str(config or CONFIGURATION))).server
    directory = enrol_directory(server)
    if directory is None:
        raise LeafdError(
            f"{config or CONFIGURATION} has no enrol block, so no boxes can be entered: add enrol {{ account: NAME }} "
            "with the account of the boxes, and restart leafd"
        )
    return directory, server


def version() -> str:
    """This program's version, from the file that the build takes it from, too."""
    # importlib.metadata knows it as well, and takes longer to import than everything else that --version needs.
    with open(os.path.join(os.path.dirname(__file__), "VERSION"), encoding="utf-8") as file:
        return file.read().strip()


def _complain(error: Exception) -> None:
    prefix = ""
    if "JOURNAL_STREAM" in os.environ:
        from leafd.host.journal import Journal, is_journal

        prefix = Journal.prefix("ERR") if is_journal() else ""
    for line in str(error).splitlines():
        print(f"{prefix}{PROGRAM}: {line}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
