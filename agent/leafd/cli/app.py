"""The commands' words and options, and their exit codes.

    0  all is well
    1  it could not be done: no daemon answers, a file is wrong
    2  the command line is wrong
    3  it was done, and something needs attention: status found a problem, check has a warning, doctor a fault or a
       warning

What a command needs is imported when it runs: a command line is answered in a fraction of a second. Not here: what a
command finds out (init.py, leafd.status), how it is shown (tables.py, views.py), and the daemon's start and check,
which __main__ hands over: this room knows nothing of the daemon.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from leafd import cli
from leafd.cli import COMMANDS, COMPLETING
from leafd.cli.cluster_words import cluster as cluster_words
from leafd.cli.enrol_words import enrol as enrol_words
from leafd.cli.hub_words import hub as hub_words
from leafd.cli.options import PATH, Group, account, as_json, authority, configuration, end, text, url
from leafd.cli.store_words import store
from leafd.errors import EXIT_FAILURE, LeafdError, UsageError
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.cli.pages import Monitor
    from leafd.cli.store import Place
    from leafd.cli.views import Intended
    from leafd.config.schema.server import ServerConfig

EXIT_USAGE: Final = 2
CONFIGURATION: Final = Path(cli.CONFIGURATION)
STORE: Final = "/var/lib/leafd"

app = Group(
    name="leafd",
    help="A broker daemon for edge boxes. nats-server's flags start it: leafd -c FILE; leafd --help lists them.",
)
_port = configuration("The daemon's configuration, which names that port.")


def _nobody(config: Path | None) -> tuple[Path, ServerConfig]:
    raise LeafdError(f"{config}: nobody is enrolled here")


@dataclass(frozen=True, slots=True)
class Hands:
    """The functions that __main__ hands over. All raise LeafdError."""

    run: Callable[[Sequence[str]], int]
    """Serves, by these flags, until the end; the exit code."""
    check: Callable[[Path], Sequence[str]]
    """Reads a configuration as the daemon would; its warnings."""
    place: Callable[[Path | None], Place]
    """Finds the store of a configuration's daemon (None: of the installed one), and what that is encrypted
    with."""
    plan: Callable[[Path, Monitor | None], Sequence[Intended]] = lambda _file, _monitor: ()
    """Compares a configuration's JetStream with its store, or with the daemon that answers there."""
    enrol: Callable[[Path | None], tuple[Path, ServerConfig]] = _nobody
    """Finds the register of enrolled boxes of a configuration's daemon, and the configuration."""


def main(words: Sequence[str], hands: Hands) -> int:
    """Runs a command; the exit code. Raises LeafdError."""
    try:
        app.main(list(words), prog_name="leafd", complete_var=COMPLETING, obj=hands)
    except SystemExit as end:  # how the library ends in any case
        return end.code if isinstance(end.code, int) else EXIT_FAILURE
    except UsageError as error:
        print(f"leafd: {error}", file=sys.stderr)
        return EXIT_USAGE
    return 0


def _found(url: str | None, config: Path | None, ca: Path | None) -> Monitor:
    from leafd.cli.pages import find

    return find(url, config, ca)


@app.command(
    "run",
    options_metavar="",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("flags", metavar="[OPTIONS]", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def _run(context: click.Context, flags: tuple[str, ...]) -> None:
    """Serves, as leafd with the same options and no command does: leafd run -c FILE."""
    context.exit(context.obj.run(flags))


@app.command("check")
@click.argument("file", type=PATH, default=CONFIGURATION, help=f"The configuration file; without it {CONFIGURATION}.")
@click.option(
    "--against", metavar="OLD", type=PATH, help="The file that a daemon runs with: what would a reload change?"
)
@click.option(
    "--running", is_flag=True, help="The same, of the daemon that answers at this configuration's monitoring port."
)
@url
@authority
@as_json
@click.pass_context
def _check(
    context: click.Context,
    file: Path,
    against: Path | None,
    running: bool,
    url: str | None,
    ca: Path | None,
    json: bool,
) -> None:
    """Checks a configuration: each mistake with its file, line, column and what to change."""
    from leafd.cli.pages import unit_of
    from leafd.cli.views import show_check
    from leafd.config.credentials import borrow

    borrow(unit_of(file))
    warnings: Sequence[str] = context.obj.check(file)
    monitor = _found(url, file, ca) if running or url else None
    declared = context.obj.plan(file, monitor)
    end(well=show_check(file, monitor or against, warnings, declared, as_json=json))


@app.command("status")
@url
@_port
@authority
@click.option("--all", "every", is_flag=True, help="All rows of each table, not only those that need somebody most.")
@as_json
def _status(url: str | None, config: Path | None, ca: Path | None, every: bool, json: bool) -> None:
    """The daemon at a glance: links, streams, disk, and what needs attention."""
    from leafd.cli.views import show_status

    end(well=show_status(_found(url, config, ca), as_json=json, every=every))


@app.command("doctor")
@configuration("The daemon's configuration.")
@url
@authority
@click.option("--creds", metavar="FILE", type=PATH, help="Credentials or nkey seed of a user of the daemon.")
@click.option("--timeout", metavar="SECONDS", type=click.FloatRange(min=1.0), default=30.0, help="For all of it.")
@as_json
def _doctor(
    config: Path | None, url: str | None, ca: Path | None, creds: Path | None, timeout: float, json: bool
) -> None:
    """Proves each flow between this box and its hubs, and says which side must change what."""
    from leafd.cli.doctor import examined, told  # here: the other commands do without what it needs

    end(well=told(examined(config, url, ca, creds, timeout), json=json))


@app.command("links")
@url
@_port
@authority
@as_json
def _links(url: str | None, config: Path | None, ca: Path | None, json: bool) -> None:
    """Leaf links, and hubs that do not answer."""
    from leafd.cli.views import show_links

    end(well=show_links(_found(url, config, ca), as_json=json))


@app.command("streams")
@url
@_port
@authority
@account
@as_json
def _streams(url: str | None, config: Path | None, ca: Path | None, account: str | None, json: bool) -> None:
    """Streams: what they hold, and how far mirrors and sources are behind."""
    from leafd.cli.views import show_streams

    show_streams(_found(url, config, ca), account, as_json=json)


@app.command("consumers")
@click.argument("stream", required=False, help="One stream only.")
@url
@_port
@authority
@account
@as_json
def _consumers(
    stream: str | None, url: str | None, config: Path | None, ca: Path | None, account: str | None, json: bool
) -> None:
    """Consumers: what they have still to get, and what they have not acknowledged."""
    from leafd.cli.views import show_consumers

    show_consumers(_found(url, config, ca), account, stream, as_json=json)


@app.command("boxes")
@click.argument("boxes", metavar="[NAME]", default="*", help="One of them, or a pattern: box-*; without it all.")
@click.option("--away", is_flag=True, help="Only those that have no link.")
@click.option("--disk", is_flag=True, help="Asks each, over its link, how much it stores.")
@url
@_port
@authority
@as_json
def _boxes(
    boxes: str, away: bool, disk: bool, url: str | None, config: Path | None, ca: Path | None, json: bool
) -> None:
    """Boxes that are enrolled at this hub: link, last seen, how far behind, version."""
    from leafd.cli.views import show_boxes

    end(well=show_boxes(_found(url, config, ca), boxes, away=away, disk=disk, as_json=json))


@app.command("init")
@click.argument("role", help="leaf or hub")
@click.option("--name", metavar="NAME", prompt=True, help="Name of this server and of its JetStream domain.")
@text("--hub", metavar="URL", help="A leaf's hub.")
@click.option(
    "--enrol",
    metavar="URL TOKEN",
    nargs=2,
    default=("", ""),
    show_default=False,
    help="A leaf's hub, and the token that its operator made; @FILE: it is in that file; -: it is typed.",
)
@click.option("--enrol-boxes", is_flag=True, hidden=True, expose_value=False)  # each hub does, by now
@click.option(
    "--address",
    metavar="HOST",
    multiple=True,
    help="A name or IP address by which boxes reach a hub; may stand repeatedly.",
)
@click.option("--tls/--no-tls", default=True, help="Whether a hub's leaf listener has TLS, by an authority of its own.")
@text("--ca", metavar="FILE", help="The certificate that a leaf checks its hub with.")
@text("--creds", metavar="FILE", help="Credentials from the hub's operator, in place of a key.")
@click.option("--account", metavar="NAME", default="BOXES", help="The account of the links, at the hub.")
@click.option("--dir", "directory", metavar="DIR", type=PATH, default=CONFIGURATION.parent, help="Where the files go.")
@click.option("--store", metavar="DIR", default=STORE, help="Where streams are kept.")
@text("--link", metavar="PROFILE", help="How a leaf reaches its hub: cell, satellite or lan.")
@text("--budget", metavar="RATE", help="What its link may carry, both ways: 500MB/month, 20MB/day.")
@click.option("--mqtt", is_flag=True, help="Devices speak MQTT to it.")
@click.option(
    "--from-mosquitto",
    "mosquitto",
    metavar="FILE",
    type=PATH,
    help="Take over listeners, users and ACLs of a mosquitto.conf; what cannot be taken is named.",
)
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
def _init(
    role: str,
    name: str,
    hub: str,
    enrol: tuple[str, str],
    address: tuple[str, ...],
    tls: bool,
    ca: str,
    creds: str,
    account: str,
    directory: Path,
    store: str,
    link: str,
    budget: str,
    mqtt: bool,
    mosquitto: Path | None,
    force: bool,
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
    if (mqtt or mosquitto) and role != "leaf":
        raise UsageError("--mqtt and --from-mosquitto are for a leaf")
    if ca and (role != "leaf" or any(enrol)):
        raise UsageError("--ca is for a leaf; a token brings the certificate along")
    if role == "leaf" and not hub and not any(enrol):
        hub = click.prompt("Hub (host, host:port or URL)")
    directory, trusted = directory.absolute(), str(Path(ca).absolute()) if ca else ""
    plan = Plan(
        *(role, name, directory, store, hub or enrol[0], creds, account, link, budget, trusted),
        addresses=address,
        mqtt=mqtt,
        mosquitto=mosquitto,
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
    click.echo(made.advice)
    if made.left:
        click.echo(f"\n{made.left}", nl=False)


@app.command("completion")
@click.argument("shell", default="bash", help="bash, zsh or fish; without it bash.")
def _completion(shell: str) -> None:
    """The completion of this command for a shell, to be put where the shell looks for it."""
    from leafd.cli.completion import script

    click.echo(script(app, shell))


app.add_command(store)
app.add_command(enrol_words)
app.add_command(hub_words)
app.add_command(cluster_words)

assert set(app.commands) == set(COMMANDS)
