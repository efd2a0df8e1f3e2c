"""`leafd init`: the configuration of a leaf or a hub, a key for the link, and what the other side has to enter.

What is written is read by the configuration's own reader before anything touches the disk. Not here:
the questions (app.py), how a certificate is made (authority.py).
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from leafd.auth import nkeys
from leafd.cli import authority
from leafd.config.bind import load_text
from leafd.errors import LeafdError, UsageError
from leafd.records import dataclass

LEAF_PORT: Final = 7422
_PORTS: Final = {"ws": 80, "wss": 443}
"""The port of a proxy in front of a hub, where the address has none."""
SERVICE: Final = "leafd"
"""The user and group of the package's service."""
PLAIN: Final = 0o644
SECRET: Final = 0o600
OWNERS: Final = 0o400
"""The mode of a secret that the service has no use for."""
_BUDGET: Final = re.compile(r"(\d+(?:\.\d+)?) ?([kKmMgG])[bB]?/(day|month)")
_UNITS: Final = {"k": 10**3, "m": 10**6, "g": 10**9}
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of an `init`."""

    role: str
    """"leaf" or "hub"."""
    name: str
    """The name of the server and of its JetStream domain."""
    directory: Path
    """The directory of configuration and key."""
    store: str
    hub: str = ""
    """URL of the hub, of a leaf."""
    credentials: str = ""
    """A file that the hub's operator handed out, in place of a key."""
    account: str = "BOXES"
    """The links' account at the hub."""
    link: str = ""
    """The kind of line to the hub: one of PROFILES; empty: not said."""
    budget: str = ""
    """The budget of the link, like 500MB/month; empty: not said."""
    authority: str = ""
    """A leaf's file of the certificate that the hub's TLS is checked with, if there is one."""
    addresses: tuple[str, ...] = ()
    """Names and IP addresses by which boxes reach a hub; empty: those that the machine knows of itself."""
    mqtt: bool = False
    """Devices speak MQTT to it."""
    mosquitto: Path | None = None
    """The mosquitto.conf whose listeners, users and ACLs it takes over."""
    tls: bool = True
    """The hub's leaf listener has TLS, by an authority of its own."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The settings that fit one kind of link, beyond those that leafd finds out by itself (windows, patience, loss:
    plane/window.h)."""

    about: str
    """In a comment of the file."""
    remote: tuple[str, ...]
    """Settings of the remote."""
    web: tuple[str, ...] = ()
    """Addresses over WebSocket."""
    hub: str = ""
    """The text for the hub's operator."""


_PATIENT_HUB: Final = (
    "A hub that is a nats-server gives a leaf two seconds to log in, too few for this link: its leafnodes block needs "
    "authorization { timeout: 60 }. A leafd hub needs nothing."
)
PROFILES: Final = {
    "lan": Profile("a cable or Wi-Fi: nothing is gained by compressing", ("compression: off",)),
    "cell": Profile(
        "a cell modem: slow, lossy, at times away; each byte is paid for",
        ("compression: s2_best",),
        ("ws_compression: true",),
        _PATIENT_HUB,
    ),
    "satellite": Profile(
        "a satellite: seconds away",
        ("compression: s2_best", 'dial_timeout: "30s"', 'first_info_timeout: "60s"'),
        ("ws_compression: true",),
        _PATIENT_HUB,
    ),
}


@dataclass(frozen=True, slots=True)
class Made:
    """The files by their paths, with their contents and modes, and what is to be done next."""

    files: Mapping[Path, tuple[str, int]]
    advice: str
    left: str = ""
    """The parts that could not be taken over, and why."""


def planned(plan: Plan) -> Made:
    """The files and the text that init makes. Raises UsageError."""
    if _NAME.fullmatch(plan.name) is None:
        raise UsageError(
            f"name {plan.name!r}: up to 64 letters, digits, - and _: it is a part of subjects and of files' names"
        )
    if plan.link and (plan.role != "leaf" or plan.link not in PROFILES):
        raise UsageError(f"--link {plan.link}: expected {', '.join(PROFILES)}, of a leaf")
    if plan.budget and plan.role != "leaf":
        raise UsageError(
            "--budget: a leaf's; a hub has limits { bytes_per_day: ... } in its leafnodes block, for each leaf"
        )
    made = _with_mqtt(plan, _leaf(plan) if plan.role == "leaf" else _hub(plan))
    _read_back(made)
    return made


def _with_mqtt(plan: Plan, made: Made) -> Made:
    """With the blocks for MQTT, where they are wanted. Raises LeafdError."""
    if not plan.mqtt and plan.mosquitto is None:
        return made
    from leafd.cli.mosquitto import LOCAL, read

    taken = read(plan.mosquitto) if plan.mosquitto is not None else None
    blocks = taken.blocks() if taken is not None else LOCAL
    file = plan.directory / "leafd.conf"
    text, mode = made.files[file]
    # With hashes of passwords in it, not everybody reads it.
    secret = taken is not None and any(one.password for one in taken.users.values())
    files = {**made.files, file: (text + blocks, SECRET if secret else mode)}
    if taken is None or not taken.left:
        return Made(files, made.advice)
    left = "".join(f"    {line}\n" for line in taken.left)
    return Made(files, made.advice, f"Not taken over from {plan.mosquitto}:\n\n{left}")


def _read_back(made: Made) -> None:
    """The configuration's own reader takes it. It reads the certificates too, which are not in their place yet. Raises
    ConfigError."""
    with tempfile.TemporaryDirectory(prefix="leafd-init-") as folder:
        copies = {path: Path(folder) / path.name for path in made.files if path.suffix in (".pem", ".key")}
        for path, copy in copies.items():
            copy.touch(SECRET)
            copy.write_text(made.files[path][0])
        for path, (text, _) in made.files.items():
            if path.suffix == ".conf":
                for one, copy in copies.items():
                    text = text.replace(_quoted(str(one)), _quoted(str(copy)))
                load_text(text, str(path))


def write(made: Made, *, overwrite: bool) -> None:
    """Puts the files in place. One that is there is an error, unless it may be overwritten. Raises LeafdError."""
    there = [str(path) for path in made.files if path.exists()]
    if there and not overwrite:
        raise LeafdError(f"{' and '.join(there)}: there already; --force overwrites")
    group = _service_group()
    for path, (text, mode) in made.files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f".{path.name}.new")
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK, mode)
            with open(descriptor, "w", encoding="utf-8") as file:
                if mode == SECRET and group is not None:
                    os.fchown(descriptor, -1, group)
                    mode |= 0o040
                os.fchmod(descriptor, mode)
                file.write(text)
                file.flush()
                os.fsync(descriptor)
            partial.replace(path)
        except OSError as error:
            raise LeafdError(f"{path}: {error.strerror}") from error


def _service_group() -> int | None:
    """The service's group, where root writes: a key that only root can read would keep the service from its hub."""
    import grp

    try:
        return grp.getgrnam(SERVICE).gr_gid if os.geteuid() == 0 else None
    except KeyError:
        return None


def _quoted(text: str) -> str:
    """A string of the configuration language."""
    return json.dumps(text, ensure_ascii=False)


def _common(plan: Plan) -> str:
    return (
        f"server_name: {_quoted(plan.name)}\n"
        "http: 127.0.0.1:8222\n"
        f"jetstream {{ store_dir: {_quoted(plan.store)}, domain: {_quoted(plan.name)} }}\n"
    )


def _leaf(plan: Plan) -> Made:
    url = hub_url(plan.hub)
    key, files = plan.directory / f"{plan.name}.nk", {}
    if plan.credentials:
        login, advice = (
            f"credentials: {_quoted(plan.credentials)}",
            "The hub knows this box by its credentials: nothing is to be entered there.",
        )
    else:
        seed = nkeys.new_seed(nkeys.PREFIX_USER)
        public, _ = nkeys.sign(seed, "")
        files[key] = (seed + "\n", SECRET)
        login = f"nkey: {_quoted(str(key))}"
        advice = (
            f"At the hub:\n\n    leafd hub add {public} {plan.name}\n\n"
            f"A hub that is a nats-server has a line for it among the users of its account (here {plan.account}), and "
            f"is reloaded:\n\n    {{ nkey: {public} }} # {plan.name}\n"
        )
    if plan.authority:
        login += f", tls {{ ca_file: {_quoted(plan.authority)} }}"
    text = (
        f"# A leaf of {url}, written by `leafd init`. `man leafd.conf` explains every key.\n"
        "listen: 127.0.0.1:4222\n" + _common(plan) + f"leafnodes {{\n{_remote(plan, url, login)}}}\n"
    )
    hub = PROFILES[plan.link].hub if plan.link else ""
    return Made({plan.directory / "leafd.conf": (text, PLAIN), **files}, f"{advice}\n{hub}\n" if hub else advice)


def _remote(plan: Plan, url: str, login: str) -> str:
    limits = _limits(plan.budget) if plan.budget else ()
    if not plan.link and not limits:
        return f"  remotes: [ {{ url: {_quoted(url)}, {login} }} ]\n"
    profile = PROFILES.get(plan.link)
    settings = (*profile.remote, *(profile.web if urlsplit(url).scheme in _PORTS else ())) if profile else ()
    lines = "".join(f"    {line}\n" for line in (f"url: {_quoted(url)}", login, *settings, *limits))
    about = f"  # By {profile.about} (`leafd init leaf --link {plan.link}`).\n" if profile else ""
    return f"{about}  remotes: [ {{\n{lines}  }} ]\n"


def _limits(budget: str) -> tuple[str, ...]:
    """The lines of a remote for a budget. Providers count in powers of 1,000; a month is spread over its days, so that
    its last days have something left. Raises UsageError."""
    found = _BUDGET.fullmatch(budget)
    number = float(found.group(1)) * _UNITS[found.group(2).lower()] if found is not None else 0.0
    if found is None or number < 1:
        raise UsageError(f'--budget {budget}: write it like "500MB/month" or "20MB/day"')
    size = int(number)
    if found.group(3) == "day":
        return (f"limits: {{ bytes_per_day: {size} }}",)
    return (
        "# month_begins is the day on which the provider's month begins; a day may take a 31st of it.",
        f"limits: {{ bytes_per_month: {size}, month_begins: 1, bytes_per_day: {size // 31} }}",
    )


_STREAMS: Final = """\
    # TELEMETRY collects from the stream of that name of each box that is enrolled; boxes have copies of COMMANDS.
    streams {
      TELEMETRY { sources: [ { boxes: "*", name: TELEMETRY } ] }
      COMMANDS { subjects: ["commands.>"] }
    }
"""


def _hub(plan: Plan) -> Made:
    """With a user for the hub's own programs: without any user a server takes everybody, so also unknown boxes."""
    key, seed = plan.directory / f"{plan.name}-programs.nk", nkeys.new_seed(nkeys.PREFIX_USER)
    public, _ = nkeys.sign(seed, "")
    files, secured, said = _secured(plan)
    url = f"nats-leaf://{_host(plan.addresses[0])}:{LEAF_PORT}" if plan.addresses else ""
    reached = f", url: {_quoted(url)}" if url else ""
    text = (
        "# A hub of leaf nodes, written by `leafd init`. `man leafd.conf` explains every key.\n"
        "listen: 127.0.0.1:4222\n"
        + _common(plan)
        + f"leafnodes {{\n  listen: 0.0.0.0:{LEAF_PORT}\n{secured}"
        + "  # Boxes hear what the hub wants, not what other boxes want. Delete this where boxes reach each other.\n"
        + "  isolate_leafnode_interest: true\n}\n"
        + f"accounts {{\n  {plan.account} {{\n    jetstream: enabled\n"
        + f"    users: [ {{ nkey: {public} }} ] # programs at the hub, by the key in {key}\n"
        + f"{_STREAMS}  }}\n}}\n"
        + "# Boxes come with a token (`leafd enrol token`), or their keys are entered (`leafd hub add`).\n"
        + f"enrol {{ account: {_quoted(plan.account)}{reached} }}\n"
    )
    advice = (
        f"{said}\n\n"
        "For each box. It prints a token, and what to type at the box:\n\n"
        "    leafd enrol token --name NAME\n\n"
        "Programs at the hub log in with a key:\n\n"
        f"    nats --nkey {key} ..."
    )
    return Made({**files, key: (seed + "\n", SECRET), plan.directory / "leafd.conf": (text, PLAIN)}, advice)


def _secured(plan: Plan) -> tuple[dict[Path, tuple[str, int]], str, str]:
    """Files of the leaf listener's TLS, its lines of the configuration, and what is said of it. Raises LeafdError."""
    if not plan.tls:
        return {}, "", "No TLS: a stranger on the way between a box and this hub reads and changes all."
    if not authority.is_possible():
        return (
            {},
            "",
            "NO TLS: there is no openssl command here to make certificates with.\n"
            "A stranger on the way between a box and this hub reads and changes all.\n"
            "Install openssl and run this again with --force, or give the leafnodes\n"
            "block certificates that you have: tls { cert_file: FILE, key_file: FILE }",
        )
    place = authority.paths(plan.directory, plan.name)
    addresses = plan.addresses or authority.usual_addresses()
    issued = authority.issue(place, plan.name, addresses)
    files = {place.certificate: (issued.certificate, PLAIN), place.key: (issued.key, SECRET)}
    if issued.authority:
        files |= {place.authority: (issued.authority, PLAIN), place.authority_key: (issued.authority_key, OWNERS)}
    lines = f"  tls {{ cert_file: {_quoted(str(place.certificate))}, key_file: {_quoted(str(place.key))} }}\n"
    said = (
        f"TLS: boxes check this hub by {place.authority}.\n"
        f"A token brings it along. The certificate is for {', '.join(addresses)}.\n"
        "Where boxes reach the hub by another name:\n\n"
        "    leafd hub certificate --address NAME"
    )
    return files, lines, said


def certificate(directory: Path, name: str, addresses: tuple[str, ...]) -> Made:
    """A new certificate for the listener of a hub that init has set up. Raises LeafdError."""
    place = authority.paths(directory, name)
    if not place.authority.exists():
        raise LeafdError(f"{place.authority} is not there: it is made by leafd init hub --name {name}")
    issued = authority.issue(place, name, addresses or authority.usual_addresses())
    files = {place.certificate: (issued.certificate, PLAIN), place.key: (issued.key, SECRET)}
    return Made(files, "A reload takes it up: systemctl reload leafd")


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def hub_url(hub: str) -> str:
    """The address of a hub's leaf listener, from what people write. Raises UsageError."""
    url = hub if "://" in hub else f"nats-leaf://{hub}"
    try:
        place = urlsplit(url)
        port = place.port
    except ValueError as error:
        raise UsageError(f"hub {hub!r}: {error}") from error
    if not place.hostname:
        raise UsageError(f"hub {hub!r}: expected HOST, HOST:PORT or a URL such as nats-leaf://HOST:{LEAF_PORT}")
    if port is not None:
        return url
    login, at, _ = place.netloc.rpartition("@")
    host = f"[{place.hostname}]" if ":" in place.hostname else place.hostname
    return place._replace(netloc=f"{login}{at}{host}:{_PORTS.get(place.scheme, LEAF_PORT)}").geturl()
