"""`leafd hub ...`: boxes whose keys are entered at the hub, and the certificate that boxes check it with.

    leafd hub add NKEY NAME    the box that has that key; it needs no token, and may come at once
    leafd hub list             boxes that are enrolled, however they came (the same as leafd boxes)
    leafd hub remove NAME      ends one for good (the same as leafd enrol retire)

The daemon is asked over its socket, as by `leafd enrol`. Not here: tokens (enrol_words.py), what the
daemon does (daemon/boxes.py), how a certificate is made (authority.py).
"""

from __future__ import annotations

from pathlib import Path

import click

from leafd import cli
from leafd.cli.enrol_words import ask_daemon, retire
from leafd.cli.options import PATH, Group, as_json, configuration

hub = Group(name="hub", help="At a hub: boxes whose keys are entered here, and the certificate of the leaf listener.")
_configuration = configuration("The daemon's configuration.")


@hub.command("add")
@click.argument("nkey", help="The box's public key (U...), which leafd init leaf prints.")
@click.argument("name", help="The box's name: its server_name, and its JetStream domain.")
@_configuration
@click.pass_context
def _add(context: click.Context, nkey: str, name: str, config: Path | None) -> None:
    """Enters a box by its key: it may come at once, and streams that collect from boxes take from it."""
    from leafd.cli.tables import say

    ask_daemon(context, config, {"do": "add", "nkey": nkey, "name": name})
    say(f"box {name} is enrolled, and known by its key")


@hub.command("list")
@_configuration
@as_json
@click.pass_context
def _list(context: click.Context, config: Path | None, json: bool) -> None:
    """Boxes that are enrolled: link, last seen, how far behind, version."""
    from leafd.cli.pages import find
    from leafd.cli.views import show_boxes

    context.obj.enrol(config)
    show_boxes(find(None, config, None), "*", away=False, disk=False, as_json=json)


@hub.command("remove")
@click.argument("name", help="Of the box.")
@_configuration
@click.pass_context
def _remove(context: click.Context, name: str, config: Path | None) -> None:
    """Ends a box for good: its link at once, its key, its place in the streams that collect. What they have stays."""
    retire(context, name, config)


@hub.command("certificate")
@click.option(
    "--address",
    metavar="HOST",
    multiple=True,
    help="A name or IP address by which boxes reach this hub; may stand repeatedly.",
)
@click.option("--name", metavar="NAME", default="hub", help="The hub's name, as given to leafd init hub.")
@click.option(
    "--dir",
    "directory",
    metavar="DIR",
    type=PATH,
    default=Path(cli.CONFIGURATION).parent,
    help="Where leafd init hub put its files.",
)
def _certificate(address: tuple[str, ...], name: str, directory: Path) -> None:
    """Makes the leaf listener a new certificate, by the authority that leafd init hub made and boxes trust."""
    from leafd.cli.init import certificate, write
    from leafd.cli.tables import say

    made = certificate(directory.absolute(), name, address)
    write(made, overwrite=True)
    for path in made.files:
        say(f"wrote {path}")
    say(made.advice)
