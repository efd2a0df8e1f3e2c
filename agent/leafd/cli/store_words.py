"""`leafd store ...`: words, options and tables of the commands about a store on the disk.

Not here: what they do (store.py, backup.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from leafd.cli.options import PATH, Group, as_json, configuration, end

if TYPE_CHECKING:
    from leafd.cli.backup import Backup
    from leafd.cli.store import Checked, Place, Saved, Stat

_SHOWN_MAX: Final = 50

store = Group(
    name="store", help="Looks after the streams on the disk: what is there, whether it is sound, a copy of it."
)
_configuration = configuration("The daemon's configuration: where the store is, and its key.")
_store = click.option(
    "--store",
    "directory",
    metavar="DIR",
    type=PATH,
    help="The store_dir, in place of the configuration's.",
)
_jwt = click.option("--jwt", metavar="DIR", type=PATH, help="The directory of accounts' JWTs, likewise.")
_enrol = click.option("--enrol", metavar="DIR", type=PATH, help="Where who is enrolled is kept, likewise.")


def place_of(context: click.Context, directory: Path | None, config: Path | None, *, new: bool = False) -> Place:
    """The store that the options name. Raises LeafdError."""
    from leafd.cli.store import JETSTREAM, Place, within

    place: Place | None = None
    if config is not None or directory is None:
        from leafd.cli.pages import unit_of
        from leafd.config.credentials import borrow

        borrow(unit_of(config))  # the key may be a credential of the unit's
        place = context.obj.place(config)
    if directory is None:
        assert place is not None
        return place
    found = directory / JETSTREAM if new else within(directory)
    return Place(found) if place is None else replace(place, directory=found)


@store.command("stat")
@_store
@_configuration
@as_json
@click.pass_context
def _stat(context: click.Context, directory: Path | None, config: Path | None, json: bool) -> None:
    """Shows the content of a store as of its last checkpoint; a daemon may use it meanwhile."""
    from leafd.cli.store import stat
    from leafd.cli.tables import as_json

    found = stat(place_of(context, directory, config))
    if json:
        as_json(found)
    else:
        _show_stat(found)


def _show_stat(found: Stat) -> None:
    from leafd.cli.tables import say, show, size, when

    state = f"process {found.used_by} has it open, so of the last seconds not all is shown" * bool(found.used_by)
    state = state or "nobody has it open"
    if not found.used_by and not found.closed:
        state += "; it was not closed in order, the next start takes up what its journal has"
    encrypted = "no" if not found.encrypted else "yes" if found.readable else "yes; its key (-c FILE) tells the streams"
    show(
        "",
        ("", ""),
        [
            ("store", found.directory),
            ("id, format", f"{found.id}, {found.format}"),
            ("encrypted", encrypted),
            ("in use", state),
            (
                "on the disk",
                f"data.mdb {size(found.data_bytes)}, journal {size(found.journal_bytes)}; "
                f"{size(found.free_bytes)} free there",
            ),
        ],
    )
    if found.streams:
        say("")
        show(
            "",
            (*("stream", "account", ">messages", ">size", ">first", ">last"), *("newest", ">subjects", ">consumers")),
            [
                (
                    *(one.name, one.account, one.messages, size(one.bytes), one.first, one.last),
                    *(when(one.last_ts) if one.messages else "", one.subjects, one.consumers),
                )
                for one in found.streams
            ],
        )


@store.command("check")
@_store
@_configuration
@as_json
@click.pass_context
def _check(context: click.Context, directory: Path | None, config: Path | None, json: bool) -> None:
    """Reads all of a store that nobody has open. Names damage, and messages whose subject is not valid. Changes
    nothing."""
    from leafd.cli.progress import bar
    from leafd.cli.store import LMDB, check
    from leafd.cli.tables import as_json

    place = place_of(context, directory, config)
    with bar(shown=not json) as tell:
        found = check(place, lambda done: tell("reading", done, _size(place.directory / LMDB)))
    if json:
        as_json(found)
    else:
        _show_checked(found)
    end(well=not found.damage and not found.subjects)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _show_checked(found: Checked) -> None:
    from leafd.cli.tables import say

    _list((*found.damage, *found.subjects), found.untold)
    if found.damage:
        say(f"{found.directory}: damaged; what can be read of it: leafd store salvage NEW-DIRECTORY")
    elif found.encrypted and not found.readable:
        say(f"{found.directory}: its structure is sound; it is encrypted: with its key (-c FILE) more is read")
    else:
        say(f"{found.directory}: sound: {found.messages:,} messages, {found.entries:,} entries")
    if found.subjects:
        say("No consumer can ask for a message whose subject is not valid. It can be read and deleted by its sequence.")


def _list(lines: Sequence[str], untold: int) -> None:
    from leafd.cli.tables import say

    for line in lines[:_SHOWN_MAX]:
        say(f"! {line}")
    if more := untold + max(len(lines) - _SHOWN_MAX, 0):
        say(f"! and {more:,} more (--json lists up to 256 kB of them)")


@store.command("salvage")
@click.argument("to", metavar="DIRECTORY", type=PATH, help="The new store_dir: not there yet, or empty.")
@_store
@_configuration
@as_json
@click.pass_context
def _salvage(context: click.Context, to: Path, directory: Path | None, config: Path | None, json: bool) -> None:
    """Makes a new store of what can be read of a damaged one, and says what is lost. The damaged store stays as it
    is."""
    from leafd.cli.progress import bar
    from leafd.cli.store import JETSTREAM, LMDB, salvage
    from leafd.cli.tables import as_json

    place = place_of(context, directory, config)
    with bar(shown=not json) as tell:
        total = _size(place.directory / LMDB)
        saved = salvage(place, to / JETSTREAM, lambda done: tell("reading", done, total))
    if json:
        as_json(saved)
    else:
        _show_saved(saved)
    end(well=not saved.lost)


def _show_saved(saved: Saved) -> None:
    from leafd.cli.tables import say

    _list(saved.lost, saved.untold)
    say(f"{saved.directory}: {saved.messages:,} messages and {saved.entries - saved.messages:,} other entries saved")
    say("nothing is lost" if not saved.lost else "what is lost, or was put right, stands above")


@store.command("backup")
@click.argument("to", metavar="DIRECTORY", type=PATH, help="The backup: not there yet, or empty.")
@_store
@_configuration
@_jwt
@_enrol
@as_json
@click.pass_context
def _backup(
    context: click.Context,
    to: Path,
    directory: Path | None,
    config: Path | None,
    jwt: Path | None,
    enrol: Path | None,
    json: bool,
) -> None:
    """Copies the store into a directory, also while the daemon runs, and checks the copy. An encrypted store stays
    encrypted."""
    from leafd.cli.backup import backup
    from leafd.cli.progress import bar

    place = place_of(context, directory, config)
    place = replace(place, jwt=jwt or place.jwt, enrol=enrol or place.enrol)
    with bar(shown=not json) as tell:
        made = backup(place, to, tell)
    _show_backup(made, "backed up to", json=json)
    end(well=made.check is None or not made.check.damage)


@store.command("restore")
@click.argument("source", metavar="BACKUP", type=PATH, help="The backup's directory.")
@_store
@_configuration
@_jwt
@_enrol
@as_json
@click.pass_context
def _restore(
    context: click.Context,
    source: Path,
    directory: Path | None,
    config: Path | None,
    jwt: Path | None,
    enrol: Path | None,
    json: bool,
) -> None:
    """Puts a backup where there is no store: the whole of it, byte for byte, or nothing."""
    from leafd.cli.backup import restore
    from leafd.cli.progress import bar

    place = place_of(context, directory, config, new=True)
    place = replace(place, jwt=jwt or place.jwt, enrol=enrol or place.enrol)
    with bar(shown=not json) as tell:
        made = restore(source, place, tell)
    _show_backup(made, "restored to", json=json)


def _show_backup(made: Backup, what: str, *, json: bool) -> None:
    from leafd.cli.tables import as_json, say, size

    if json:
        as_json(made)
        return
    if made.check is not None:
        _list(made.check.damage, made.check.untold)
        if made.check.damage:
            say("the store is damaged, and so is its copy: leafd store check, when the daemon is stopped")
    say(f"{what} {made.directory}: {size(made.bytes)} in {made.files} files" + (", encrypted" * made.encrypted))
    if made.kept:
        say(f"{made.kept} is there and stays as it is: it may say of boxes that they were retired since the backup")
