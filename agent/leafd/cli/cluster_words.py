"""`leafd cluster ...`: words and options of the commands about a group of servers.

Not here: what a rescue does at the next start (leafd/daemon/rescue.py), how a group is shown (views.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from leafd.cli.options import PATH, Group, configuration

FILE: Final = "rescue-group"
"""As leafd.daemon.rescue has it."""
_WARNING: Final = """\
The group of all servers goes on with this server alone, from what this server knows of it. Do this only

  - if more than half of the servers are lost for good: else start them, and nothing is lost;
  - on one server of those that are left: on two of them it makes two groups;
  - on the one that has the most, by `leafd status`, or by the last entry of /raftz.

Lost is what the others agreed on without this server: a stream that was deleted then may be there again, a change
undone. No server loses a message that it has. Servers that come back must reach this one when they start: they leave
the old group, and are let in again."""

cluster = Group(name="cluster", help="Looks after a group of servers.")


@cluster.command("rescue")
@click.option("--store", "directory", metavar="DIR", type=PATH, help="The store_dir, in place of the configuration's.")
@configuration("The daemon's configuration: where the store is.")
@click.option("--yes", is_flag=True, help="Does not ask.")
@click.pass_context
def _rescue(context: click.Context, directory: Path | None, config: Path | None, yes: bool) -> None:
    """After a lost majority: has this server go on without the others at its next start."""
    from leafd.cli.store import StoreError, give_to_owner_of, locked, refuse_used
    from leafd.cli.store_words import place_of
    from leafd.cli.tables import say

    place = place_of(context, directory, config)
    with locked(place.directory) as holder:
        refuse_used(place.directory, holder, "its group is not rescued")
        if not yes:
            click.echo(_WARNING)
            click.confirm("Is that so?", abort=True)
        try:
            (place.directory / FILE).touch(mode=0o600)
            give_to_owner_of(place.directory, place.directory / FILE)
        except OSError as error:
            raise StoreError(f"{place.directory / FILE} cannot be made: {error.strerror}") from error
    say("The next start rescues the group: systemctl start leafd.")
    say(f"Until then, to take this back: rm {place.directory / FILE}")
