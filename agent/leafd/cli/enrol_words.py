"""`leafd enrol ...`, at a hub: tokens for boxes, and their retirement; words, options and what is shown.

The daemon is asked over its socket, which lies in a directory that root and its own user alone may use.
Not here: what the daemon does (leafd/enrol), what a box does (enrol.py).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from leafd.cli.options import Group, as_json, configuration
from leafd.errors import LeafdError, UsageError

enrol = Group(
    name="enrol", help="At a hub: tokens with which boxes enrol themselves, and boxes that are gone for good."
)
_configuration = configuration("The daemon's configuration.")


def ask_daemon(context: click.Context, config: Path | None, what: Mapping[str, Any]) -> dict[str, Any]:
    """The daemon's answer, by the daemon's configuration file. Raises LeafdError."""
    from leafd.enrol.port import ask

    directory, _ = context.obj.enrol(config)
    return ask(directory, what)


@enrol.command("token")
@click.option("--name", metavar="NAME", required=True, help="The box's name, or a pattern of names: box-*.")
@click.option("--expires", metavar="TIME", default="24h", help="How long it is good for: 30m, 24h, 7d.")
@click.option("--uses", metavar="NUMBER", default=1, help="For how many boxes, with a pattern: a factory's key.")
@_configuration
@as_json
@click.pass_context
def _token(context: click.Context, name: str, expires: str, uses: int, config: Path | None, json: bool) -> None:
    """Makes a token, prints it, and says what to type at the box. Only a hash of it is kept here."""
    from leafd.cli.enrol import authority_of, is_secure
    from leafd.cli.init import LEAF_PORT
    from leafd.cli.tables import as_json
    from leafd.enrol.token import Ticket, read_secret

    _, server = context.obj.enrol(config)
    certificate = authority_of(server)
    asked = {"do": "token", "pattern": name, "uses": uses, "lasts_s": _seconds(expires)}
    made = ask_daemon(context, config, asked)
    secret = read_secret(made["token"])
    if secret is None:
        raise LeafdError("the daemon's token is not understood: is it of the same version?")
    ticket = Ticket(secret, certificate)
    if json:
        as_json({"token": ticket.text, "id": made["id"], "expires": made["expires"]})
        return
    click.echo(ticket.text)
    url, who = made["url"] or f"nats-leaf://THIS-HOST:{LEAF_PORT}", name if "*" not in name else "NAME"
    note = (
        f"\nUntil {_clock(made['expires'])}, on the box, with the token in the place of TOKEN:\n\n"
        f"    leafd init leaf --name {who} --enrol {url} TOKEN --force\n"
    )
    if not is_secure(server, url):
        note += "\nThe leaf listener has no TLS: a listener on the way learns the token,\nand may be faster with it."
    print(note, file=sys.stderr)


@enrol.command("tokens")
@_configuration
@as_json
@click.pass_context
def _tokens(context: click.Context, config: Path | None, json: bool) -> None:
    """Tokens that can still enrol a box. The tokens themselves are not kept, only their ids."""
    from leafd.cli.tables import as_json, show

    found = ask_daemon(context, config, {"do": "tokens"})["tokens"]
    if json:
        as_json(found)
        return
    rows = [(one["id"], one["pattern"], f"{one['used']} of {one['uses']}", _clock(one["expires"])) for one in found]
    show("", ("id", "boxes", "used", "until"), rows)


@enrol.command("revoke")
@click.argument("id", help="Of a token.")
@_configuration
@click.pass_context
def _revoke(context: click.Context, id: str, config: Path | None) -> None:
    """Revokes a token. Boxes that have enrolled with it stay."""
    from leafd.cli.tables import say

    ask_daemon(context, config, {"do": "revoke", "id": id.upper()})
    say(f"token {id.upper()} enrols nobody any more")


@enrol.command("retire")
@click.argument("name", help="Of the box.")
@_configuration
@click.pass_context
def _retire(context: click.Context, name: str, config: Path | None) -> None:
    """Ends a box for good: its link at once, its key, its place in the streams that collect. What they have stays."""
    retire(context, name, config)


def retire(context: click.Context, name: str, config: Path | None) -> None:
    """Has the daemon end a box, and says so. Raises LeafdError."""
    from leafd.cli.tables import say

    found = ask_daemon(context, config, {"do": "retire", "name": name})
    say(f"box {name} is retired" + (", and its link is closed" if found["linked"] else ""))


def _clock(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _seconds(text: str) -> int:
    from leafd.config.schema.base import SECOND, parse_duration

    try:
        number = text.removesuffix("d")
        seconds = int(number) * 86_400 if number != text else parse_duration(text) // SECOND
    except ValueError as error:
        raise UsageError(f"--expires {text}: expected a time like 30m, 24h or 7d") from error
    if seconds <= 0:
        raise UsageError(f"--expires {text}: a token that has expired is of no use")
    return seconds
