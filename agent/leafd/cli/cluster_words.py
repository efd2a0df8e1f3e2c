"""`leafd cluster ...`: words and options of the commands about a group of servers.

Not here: what a rescue does at the next start (leafd/daemon/rescue.py), how a group is shown (views.py).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import click

from leafd import rescues
from leafd.cli.options import PATH, Group, configuration

_WARNING: Final = """\
The group of all servers goes on with this server alone, from what this server knows of it. Do this only

  - if more than half of the servers are lost for good: else start them, and nothing is lost;
  - on one server of those that are left: on two of them it makes two groups;
  - on the one that has the most, by `leafd status`, or by the last entry of /raftz.

Lost is what the others agreed on without this server: a stream that was deleted then may be there again, a change
undone. No server loses a message that it has. Servers that come back must reach this one when they start: they leave
the old group, and are let in again."""

_STREAMS_WARNING: Final = """\
Streams of several servers that have no leader go on with what this server has of them. Do this only

  - if more than half of the servers that keep them are lost for good: else start those, and nothing is lost;
  - on one server of those that are left, for each stream;
  - on the one that has the most of it, by /raftz.

Lost is what the others agreed on without this server: messages that were acknowledged, too. What it has of changes that
nobody agreed on is carried out. Servers that come back delete what they have of these streams, and get copies."""

cluster = Group(name="cluster", help="Looks after a group of servers.")


_STORE: Final = click.option(
    "--store", "directory", metavar="DIR", type=PATH, help="The store_dir, in place of the configuration's."
)
_YES: Final = click.option("--yes", is_flag=True, help="Does not ask.")


@cluster.command("rescue")
@_STORE
@configuration("The daemon's configuration: where the store is.")
@_YES
@click.pass_context
def _rescue(context: click.Context, directory: Path | None, config: Path | None, yes: bool) -> None:
    """After a lost majority: has this server go on without the others at its next start."""
    _ask_for(context, directory, config, rescues.GROUP, "", "group", "" if yes else _WARNING)


@cluster.command("rescue-streams")
@click.argument("names", metavar="[STREAM]...", nargs=-1)
@_STORE
@configuration("The daemon's configuration: where the store is.")
@_YES
@click.pass_context
def _rescue_streams(
    context: click.Context, names: tuple[str, ...], directory: Path | None, config: Path | None, yes: bool
) -> None:
    """After a lost majority of a stream's servers: has this one go on with it alone. Without names: all without a
    leader that this server has."""
    content = json.dumps(names) if names else ""
    _ask_for(context, directory, config, rescues.STREAMS, content, "streams", "" if yes else _STREAMS_WARNING)


def _ask_for(
    context: click.Context,
    directory: Path | None,
    config: Path | None,
    name: str,
    content: str,
    what: str,
    warning: str,
) -> None:
    """Leaves a file of that name and content for the next start. warning: the question before; "": none."""
    from leafd.cli.store import StoreError, give_to_owner_of, locked, refuse_used
    from leafd.cli.store_words import place_of
    from leafd.cli.tables import say

    place = place_of(context, directory, config)
    with locked(place.directory) as holder:
        refuse_used(place.directory, holder, f"its {what} {'are' if what == 'streams' else 'is'} not rescued")
        if warning:
            click.echo(warning)
            click.confirm("Is that so?", abort=True)
        path = place.directory / name
        try:
            path.unlink(missing_ok=True)
            path.touch(mode=0o600, exist_ok=False)
            path.write_text(content)
            give_to_owner_of(place.directory, path)
        except OSError as error:
            raise StoreError(f"{path} cannot be made: {error.strerror}") from error
    say(f"The next start rescues the {what}: systemctl start leafd.")
    say(f"Until then, to take this back: rm {path}")
