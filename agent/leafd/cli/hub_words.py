"""`leafd hub ...`: boxes whose keys are entered at the hub, and the certificate that boxes check it with.

    leafd hub add NKEY NAME    the box that has that key; it needs no token, and may come at once
    leafd hub list             boxes that are enrolled, however they came (the same as leafd boxes)
    leafd hub remove NAME      ends one for good (the same as leafd enrol retire)

The daemon is asked over its socket, as by `leafd enrol`. What does not live here: tokens (enrol_words.py), what the
daemon does (daemon/boxes.py), how a certificate is made (authority.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leafd import cli
from leafd.cli.enrol_words import Configuration, Json, ask_daemon, retire

hub = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="At a hub: boxes whose keys are entered here, and the certificate of the leaf listener.",
)


@hub.command("add")
def _add(
    context: typer.Context,
    nkey: Annotated[str, typer.Argument(help="The box's public key (U...), which leafd init leaf prints.")],
    name: Annotated[str, typer.Argument(help="The box's name: its server_name, and its JetStream domain.")],
    config: Configuration = None,
) -> None:
    """Enters a box by its key: it may come at once, and streams that collect from boxes take from it."""
    from leafd.cli.tables import say

    ask_daemon(context, config, {"do": "add", "nkey": nkey, "name": name})
    say(f"box {name} is enrolled, and known by its key")


@hub.command("list")
def _list(context: typer.Context, config: Configuration = None, json: Json = False) -> None:
    """Boxes that are enrolled: link, last seen, how far behind, version."""
    from leafd.cli.pages import find
    from leafd.cli.views import show_boxes

    context.obj.enrol(config)
    show_boxes(find(None, config, None), "*", away=False, disk=False, as_json=json)


@hub.command("remove")
def _remove(
    context: typer.Context, name: Annotated[str, typer.Argument(help="Of the box.")], config: Configuration = None
) -> None:
    """Ends a box for good: its link at once, its key, its place in the streams that collect. What they have stays."""
    retire(context, name, config)


@hub.command("certificate")
def _certificate(
    address: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="A name or IP address by which boxes reach this hub; may stand repeatedly."),
    ] = None,
    name: Annotated[str, typer.Option(help="The hub's name, as given to leafd init hub.")] = "hub",
    directory: Annotated[Path, typer.Option("--dir", help="Where leafd init hub put its files.")] = Path(
        cli.CONFIGURATION
    ).parent,
) -> None:
    """Makes the leaf listener a new certificate, by the authority that leafd init hub made and boxes trust."""
    from leafd.cli.init import certificate, write
    from leafd.cli.tables import say

    made = certificate(directory.absolute(), name, tuple(address or ()))
    write(made, overwrite=True)
    for path in made.files:
        say(f"wrote {path}")
    say(made.advice)
