"""The commands' words and options, and their exit codes.

    0  all is well
    1  it could not be done: no daemon answers, a file is wrong
    2  the command line is wrong
    3  it was done, and something needs attention: status found a problem, check has a warning, doctor a fault or a
       warning

What does not live here: what a command finds out (status.py, init.py), how it is shown (tables.py), and the daemon's
start and check, which __main__ hands over: this room knows nothing of the daemon.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from leafd.cli import COMMANDS
from leafd.cli.init import Plan, planned, write
from leafd.cli.pages import CONFIGURATION, Monitor, find
from leafd.cli.tables import ago, as_json, say, show, size
from leafd.errors import EXIT_FAILURE, UsageError
from leafd.status import STREAMS_PAGE, Link, Status, consumers, copies, links, status, streams

EXIT_USAGE: Final = 2
EXIT_ATTENTION: Final = 3
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


def main(words: Sequence[str], check: Callable[[Path], Sequence[str]]) -> int:
    """Runs a command; the exit code. check: reads a configuration as the daemon would, gives its warnings, raises
    LeafdError. Raises LeafdError, too."""
    try:
        app(list(words), prog_name="leafd", obj=check)
    except SystemExit as end:  # how the library ends in any case
        return end.code if isinstance(end.code, int) else EXIT_FAILURE
    except UsageError as error:
        print(f"leafd: {error}", file=sys.stderr)
        return EXIT_USAGE
    return 0


def _end(*, well: bool) -> None:
    if not well:
        raise typer.Exit(EXIT_ATTENTION)


@app.command("check")
def _check(
    context: typer.Context, file: Annotated[Path, typer.Argument(help="The configuration file.")] = CONFIGURATION
) -> None:
    """Checks a configuration: each mistake with its file, line, column and what to change."""
    warnings: Sequence[str] = context.obj(file)
    for line in warnings:
        say(f"warning: {line}")
    say(f"{file}: valid" + (f", {len(warnings)} warnings" if warnings else ""))
    _end(well=not warnings)


@app.command("status")
def _status(url: Url = None, config: Configuration = None, ca: Authority = None, json: Json = False) -> None:
    """The daemon at a glance: links, streams, disk, and what needs attention."""
    monitor = find(url, config, ca)
    found = status(monitor.page("/varz"), monitor.page("/leafz"), monitor.page(STREAMS_PAGE))
    if json:
        as_json(found)
    else:
        _show_status(found)
    _end(well=not found.problems)


def _show_status(found: Status) -> None:
    limit = f" of {size(found.memory_limit)}" if found.memory_limit else ""
    show(
        "",
        ("", ""),
        [
            ("server", f"{found.name}, version {found.version}, up {found.uptime}"),
            ("domain", found.domain or "-"),
            ("memory, CPU", f"{size(found.memory_bytes)}{limit}, {found.cpu_percent} %"),
            ("clients", found.clients),
            ("streams", f"{found.streams:,} with {found.messages:,} messages and {found.consumers:,} consumers"),
            (
                "store",
                f"{size(found.stored_bytes)} of {size(found.stored_max)}; {size(found.disk_free)} free on its disk",
            ),
        ],
    )
    if found.links:
        _show_links(found.links)
    if found.copies:
        say("")
        show(
            "Mirrors and sources",
            ("stream", "kind", "of", ">behind", "heard"),
            [(one.stream, one.kind, one.origin, one.behind, ago(one.heard_s)) for one in found.copies],
        )
    say("")
    for line in found.problems:
        say(f"! {line}")
    if not found.problems:
        say("nothing needs attention")


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
    monitor = find(url, config, ca)
    found = tuple(links(monitor.page("/varz"), monitor.page("/leafz")))
    if json:
        as_json(found)
    else:
        _show_links(found)
    _end(well=all(one.up for one in found))


def _show_links(found: Sequence[Link]) -> None:
    say("")
    show(
        "Links",
        ("to", "", "account", "address", "state", "rtt", ">in", ">out"),
        [
            (
                one.peer or "-",
                one.role,
                one.account,
                one.address,
                "up" if one.up else f"down: {one.error}",
                one.rtt,
                size(one.bytes_in),
                size(one.bytes_out),
            )
            for one in found
        ],
    )


def _streams_page(monitor: Monitor, account: str | None) -> dict[str, object]:
    from urllib.parse import quote

    return monitor.page(STREAMS_PAGE + (f"&acc={quote(account, safe='')}" if account else ""))


@app.command("streams")
def _streams(
    url: Url = None, config: Configuration = None, ca: Authority = None, account: Account = None, json: Json = False
) -> None:
    """Streams: what they hold, and how far mirrors and sources are behind."""
    page = _streams_page(find(url, config, ca), account)
    found, behind = tuple(streams(page)), {(one.account, one.stream): one.behind for one in copies(page)}
    if json:
        as_json(found)
        return
    show(
        "",
        ("stream", "account", "storage", ">messages", ">size", ">first", ">last", "newest", ">consumers", ">behind"),
        [
            (
                *(one.name, one.account, one.storage, one.messages, size(one.bytes), one.first, one.last),
                *(one.last_time[:19].replace("T", " "), one.consumers, behind.get((one.account, one.name), "")),
            )
            for one in found
        ],
    )


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
    found = tuple(consumers(_streams_page(find(url, config, ca), account)))
    if stream is not None:
        found = tuple(one for one in found if one.stream == stream)
    if json:
        as_json(found)
        return
    show(
        "",
        ("consumer", "stream", "account", ">pending", ">unacknowledged", ">redelivered", ">pulls waiting", ""),
        [
            (
                *(one.name, one.stream, one.account, one.pending, one.unacknowledged, one.redelivered, one.waiting),
                "paused" if one.paused else "",
            )
            for one in found
        ],
    )


@app.command("init")
def _init(
    role: Annotated[str, typer.Argument(help="leaf or hub")],
    name: Annotated[str, typer.Option(prompt=True, help="Name of this server and of its JetStream domain.")],
    hub: Annotated[str, typer.Option(metavar="URL", help="A leaf's hub.")] = "",
    creds: Annotated[
        str, typer.Option(metavar="FILE", help="Credentials from the hub's operator, in place of a key.")
    ] = "",
    account: Annotated[str, typer.Option(help="The account of the links, at the hub.")] = "BOXES",
    directory: Annotated[Path, typer.Option("--dir", help="Where the files go.")] = CONFIGURATION.parent,
    store: Annotated[str, typer.Option(help="Where streams are kept.")] = STORE,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
) -> None:
    """Writes the configuration of a leaf or a hub, makes the key, and says what the other side has to enter."""
    if role not in ("leaf", "hub"):
        raise UsageError(f"init {role}: expected leaf or hub")
    if role == "leaf" and not hub:
        hub = typer.prompt("Hub (host, host:port or URL)")
    made = planned(Plan(role, name, directory, store, hub, creds, account))
    write(made, overwrite=force)
    for path in made.files:
        say(f"wrote {path}")
    say("")
    typer.echo(made.advice)


@app.command("completion")
def _completion(shell: Annotated[str, typer.Argument(help="bash, zsh or fish")] = "bash") -> None:
    """The completion of this command for a shell, to be put where the shell looks for it."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # (it is in no __all__)

    if shell not in ("bash", "zsh", "fish"):
        raise UsageError(f"completion {shell}: expected bash, zsh or fish")
    typer.echo(get_completion_script(prog_name="leafd", complete_var="_LEAFD_COMPLETE", shell=shell))


assert {one.name for one in app.registered_commands} == set(COMMANDS) - {"run"}
