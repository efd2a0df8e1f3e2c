"""The commands' words and options, and their exit codes.

    0  all is well
    1  it could not be done: no daemon answers, a file is wrong
    2  the command line is wrong
    3  it was done, and something needs attention: status found a problem, check has a warning, doctor a fault or a
       warning

What a command needs is imported when it runs: a command line is answered in a fraction of a second. What does not live
here: what a command finds out (init.py, leafd.status), how it is shown (tables.py, views.py), and the daemon's start
and check, which __main__ hands over: this room knows nothing of the daemon.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from leafd import cli
from leafd.cli import COMMANDS
from leafd.cli.enrol_words import enrol as enrol_words
from leafd.cli.hub_words import hub as hub_words
from leafd.cli.store_words import store
from leafd.errors import EXIT_FAILURE, LeafdError, UsageError
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.cli.pages import Monitor
    from leafd.cli.store import Place
    from leafd.cli.views import Intended
    from leafd.config.schema.server import ServerConfig

EXIT_USAGE: Final = 2
EXIT_ATTENTION: Final = 3
CONFIGURATION: Final = Path(cli.CONFIGURATION)
STORE: Final = "/var/lib/leafd"

Url = Annotated[str | None, typer.Option("--url", metavar="URL", help="The daemon's monitoring port.")]
Configuration = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="The daemon's configuration, which names that port."),
]
Authority = Annotated[Path | None, typer.Option("--ca", metavar="FILE", help="Certificates to trust, for https.")]
Json = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]
Account = Annotated[str | None, typer.Option("--account", metavar="NAME", help="One account only.")]

app = typer.Typer(
    name="leafd",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="A broker daemon for edge boxes. nats-server's flags start it: leafd -c FILE; leafd --help lists them.",
)


def _nobody(config: Path | None) -> tuple[Path, ServerConfig]:
    raise LeafdError(f"{config}: nobody is enrolled here")


@dataclass(frozen=True, slots=True)
class Hands:
    """What __main__ hands over. All raise LeafdError."""

    run: Callable[[Sequence[str]], int]
    """Serves, by these flags, until the end; the exit code."""
    check: Callable[[Path], Sequence[str]]
    """Reads a configuration as the daemon would; its warnings."""
    place: Callable[[Path | None], Place]
    """Where the daemon of a configuration (None: of the installed one) has its store, and what that is encrypted
    with."""
    plan: Callable[[Path, Monitor | None], Sequence[Intended]] = lambda _file, _monitor: ()
    """What a configuration declares of JetStream, against what its store has, or the daemon that answers there."""
    enrol: Callable[[Path | None], tuple[Path, ServerConfig]] = _nobody
    """Where the daemon of a configuration keeps who is enrolled, and the configuration."""


def main(words: Sequence[str], hands: Hands) -> int:
    """Runs a command; the exit code. Raises LeafdError."""
    try:
        app(list(words), prog_name="leafd", obj=hands)
    except SystemExit as end:  # how the library ends in any case
        return end.code if isinstance(end.code, int) else EXIT_FAILURE
    except UsageError as error:
        print(f"leafd: {error}", file=sys.stderr)
        return EXIT_USAGE
    return 0


def _end(*, well: bool) -> None:
    if not well:
        raise typer.Exit(EXIT_ATTENTION)


def _found(url: str | None, config: Path | None, ca: Path | None) -> Monitor:
    from leafd.cli.pages import find

    return find(url, config, ca)


@app.command("run", options_metavar="", context_settings={"ignore_unknown_options": True, "help_option_names": []})
def _run(
    context: typer.Context, flags: Annotated[list[str] | None, typer.Argument(metavar="[OPTIONS]")] = None
) -> None:
    """Serves, as leafd with the same options and no command does: leafd run -c FILE."""
    raise typer.Exit(context.obj.run(flags or ()))


@app.command("check")
def _check(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The configuration file.")] = CONFIGURATION,
    against: Annotated[
        Path | None,
        typer.Option(metavar="OLD", help="The file that a daemon runs with: what would a reload change?"),
    ] = None,
    running: Annotated[
        bool,
        typer.Option("--running", help="The same, of the daemon that answers at this configuration's monitoring port."),
    ] = False,
    url: Url = None,
    ca: Authority = None,
    json: Json = False,
) -> None:
    """Checks a configuration: each mistake with its file, line, column and what to change."""
    from leafd.cli.pages import unit_of
    from leafd.cli.views import show_check
    from leafd.config.credentials import borrow

    borrow(unit_of(file))
    warnings: Sequence[str] = context.obj.check(file)
    monitor = _found(url, file, ca) if running or url else None
    declared = context.obj.plan(file, monitor)
    _end(well=show_check(file, monitor or against, warnings, declared, as_json=json))


@app.command("status")
def _status(url: Url = None, config: Configuration = None, ca: Authority = None, json: Json = False) -> None:
    """The daemon at a glance: links, streams, disk, and what needs attention."""
    from leafd.cli.views import show_status

    _end(well=show_status(_found(url, config, ca), as_json=json))


@app.command("doctor")
def _doctor(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="The daemon's configuration.")
    ] = None,
    url: Url = None,
    ca: Authority = None,
    creds: Annotated[
        Path | None, typer.Option("--creds", metavar="FILE", help="Credentials or nkey seed of a user of the daemon.")
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=1.0, metavar="SECONDS", help="For all of it.")] = 30.0,
    json: Json = False,
) -> None:
    """Proves each flow between this box and its hubs, and says which side must change what."""
    from leafd.cli.doctor import examined, told  # here: the other commands do without what it needs

    _end(well=told(examined(config, url, ca, creds, timeout), json=json))


@app.command("links")
def _links(url: Url = None, config: Configuration = None, ca: Authority = None, json: Json = False) -> None:
    """Leaf links, and hubs that do not answer."""
    from leafd.cli.views import show_links

    _end(well=show_links(_found(url, config, ca), as_json=json))


@app.command("streams")
def _streams(
    url: Url = None, config: Configuration = None, ca: Authority = None, account: Account = None, json: Json = False
) -> None:
    """Streams: what they hold, and how far mirrors and sources are behind."""
    from leafd.cli.views import show_streams

    show_streams(_found(url, config, ca), account, as_json=json)


@app.command("consumers")
def _consumers(
    stream: Annotated[str | None, typer.Argument(help="One stream only.")] = None,
    url: Url = None,
    config: Configuration = None,
    ca: Authority = None,
    account: Account = None,
    json: Json = False,
) -> None:
    """Consumers: what they have still to get, and what they have not acknowledged."""
    from leafd.cli.views import show_consumers

    show_consumers(_found(url, config, ca), account, stream, as_json=json)


@app.command("boxes")
def _boxes(
    boxes: Annotated[str, typer.Argument(metavar="NAME", help="One of them, or a pattern: box-*.")] = "*",
    away: Annotated[bool, typer.Option("--away", help="Only those that have no link.")] = False,
    disk: Annotated[bool, typer.Option("--disk", help="Asks each, over its link, how much it stores.")] = False,
    url: Url = None,
    config: Configuration = None,
    ca: Authority = None,
    json: Json = False,
) -> None:
    """Boxes that are enrolled at this hub: link, last seen, how far behind, version."""
    from leafd.cli.views import show_boxes

    _end(well=show_boxes(_found(url, config, ca), boxes, away=away, disk=disk, as_json=json))


@app.command("init")
def _init(
    role: Annotated[str, typer.Argument(help="leaf or hub")],
    name: Annotated[str, typer.Option(prompt=True, help="Name of this server and of its JetStream domain.")],
    hub: Annotated[str, typer.Option(metavar="URL", help="A leaf's hub.")] = "",
    enrol: Annotated[
        tuple[str, str],
        typer.Option(
            "--enrol",
            metavar="URL TOKEN",
            help="A leaf's hub, and the token that its operator made; @FILE: it is in that file; -: it is typed.",
        ),
    ] = ("", ""),
    _enrols: Annotated[bool, typer.Option("--enrol-boxes", hidden=True)] = False,  # each hub does, by now
    address: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="A name or IP address by which boxes reach a hub; may stand repeatedly."),
    ] = None,
    tls: Annotated[
        bool, typer.Option(help="Whether a hub's leaf listener has TLS, by an authority of its own.")
    ] = True,
    ca: Annotated[
        str, typer.Option("--ca", metavar="FILE", help="The certificate that a leaf checks its hub with.")
    ] = "",
    creds: Annotated[
        str, typer.Option(metavar="FILE", help="Credentials from the hub's operator, in place of a key.")
    ] = "",
    account: Annotated[str, typer.Option(help="The account of the links, at the hub.")] = "BOXES",
    directory: Annotated[Path, typer.Option("--dir", help="Where the files go.")] = CONFIGURATION.parent,
    store: Annotated[str, typer.Option(help="Where streams are kept.")] = STORE,
    link: Annotated[str, typer.Option(help="How a leaf reaches its hub: cell, satellite or lan.")] = "",
    budget: Annotated[str, typer.Option(help="What its link may carry, both ways: 500MB/month, 20MB/day.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
) -> None:
    """Writes the configuration of a leaf or a hub, makes the key, and says what the other side has to enter."""
    from leafd.cli.init import Plan, planned, write
    from leafd.cli.tables import say

    if role not in ("leaf", "hub"):
        raise UsageError(f"init {role}: expected leaf or hub")
    if any(enrol) and (role != "leaf" or hub or creds):
        raise UsageError("--enrol is for a leaf, and takes the place of --hub and --creds")
    if (address or not tls) and role != "hub":
        raise UsageError("--address and --no-tls are for a hub")
    if ca and (role != "leaf" or any(enrol)):
        raise UsageError("--ca is for a leaf; a token brings the certificate along")
    if role == "leaf" and not hub and not any(enrol):
        hub = typer.prompt("Hub (host, host:port or URL)")
    directory, trusted = directory.absolute(), str(Path(ca).absolute()) if ca else ""
    plan = Plan(
        *(role, name, directory, store, hub or enrol[0], creds, account, link, budget, trusted),
        addresses=tuple(address or ()),
        tls=tls,
    )
    if any(enrol):
        from leafd.cli.enrol import enrol_leaf

        made = enrol_leaf(plan, enrol[1], overwrite=force)
    else:
        made = planned(plan)
    write(made, overwrite=force)
    for path in made.files:
        say(f"wrote {path}")
    say("")
    typer.echo(made.advice)


@app.command("completion")
def _completion(shell: Annotated[str, typer.Argument(help="bash, zsh or fish")] = "bash") -> None:
    """The completion of this command for a shell, to be put where the shell looks for it."""
    from leafd.cli.completion import script

    typer.echo(script(shell))


app.add_typer(store, name="store")
app.add_typer(enrol_words, name="enrol")
app.add_typer(hub_words, name="hub")

assert {one.name for one in app.registered_commands} | {one.name for one in app.registered_groups} == set(COMMANDS)
