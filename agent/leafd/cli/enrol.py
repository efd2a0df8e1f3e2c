"""`leafd init leaf --enrol`, at a box, and what a hub's token has of its certificate.

    init leaf --enrol URL TOKEN    the key is written --> one login, with the key and the token --> the configuration

The key is on the disk before the hub hears of it, and stays there: where the power goes in between, or the hub does not
answer, the same command goes on with the same key, which the hub knows or does not. Not here: what init
writes otherwise (init.py), how a hub is reached (doctor/), the words of `leafd enrol` (enrol_words.py).
"""

from __future__ import annotations

import ssl
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from leafd.cli import init
from leafd.enrol.token import CERTIFICATE_MAX, Ticket, read_ticket
from leafd.errors import LeafdError, UsageError
from leafd.files import read_file

if TYPE_CHECKING:
    from leafd.config.schema.server import ServerConfig
    from leafd.doctor.findings import Finding

AUTHORITY: Final = "hub-ca.pem"
STEP_S: Final = 60.0
"""For each step of the login: the line may be a modem's, and what it is for happens once in a box's life."""
_TOKEN_FILE_MAX: Final = 16 << 10
_PEM_MAX: Final = 1 << 20


def is_secure(server: ServerConfig, url: str) -> bool:
    """Whether nobody on the way to that address of the hub learns a token."""
    return urlsplit(url).scheme in ("wss", "tls") or (server.leafnodes is not None and server.leafnodes.tls is not None)


def authority_of(server: ServerConfig) -> bytes:
    """DER of what boxes are to check the hub's TLS with: ca_file of the enrol block; else the listener's own chain, as
    far as it ends with one that signed itself; else nothing. Raises LeafdError."""
    block, leafnodes = server.enrol, server.leafnodes
    if block is not None and block.ca_file:
        try:
            data = read_file(block.ca_file, _PEM_MAX)
            found = [ssl.PEM_cert_to_DER_cert(one) for one in _pem_texts(data)]
        except (OSError, ValueError) as error:
            raise LeafdError(f"{block.ca_file}: {error}") from error
        if len(found) != 1 or len(found[0]) > CERTIFICATE_MAX:
            raise LeafdError(
                f"{block.ca_file}: one certificate of up to {CERTIFICATE_MAX} bytes is expected in a token"
            )
        return found[0]
    web = server.websocket
    tls = leafnodes.tls if leafnodes is not None else None
    if block is not None and urlsplit(block.url).scheme == "wss":
        tls = web.tls if web is not None else None
    if tls is None or not tls.material.pairs:
        return b""
    last = _pem_texts(tls.material.pairs[0].chain)[-1:]
    return next((ssl.PEM_cert_to_DER_cert(one) for one in last if _signed_itself(one)), b"")


def _pem_texts(data: bytes) -> list[str]:
    parts = data.decode("ascii", "replace").split(ssl.PEM_FOOTER)
    return [f"{one[one.index(ssl.PEM_HEADER) :]}{ssl.PEM_FOOTER}\n" for one in parts if ssl.PEM_HEADER in one]


def _signed_itself(pem: str) -> bool:
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=pem)
    except ssl.SSLError:
        return False
    return any(one.get("issuer") == one.get("subject") for one in context.get_ca_certs())


# ---- at the box


def enrol_leaf(plan: init.Plan, text: str, *, overwrite: bool) -> init.Made:
    """Has the hub enrol this box; what there is still to be written. Raises LeafdError."""
    ticket = read_ticket(_typed(text))
    plan = replace(plan, hub=init.hub_url(plan.hub))
    place = urlsplit(plan.hub)
    if "@" in place.netloc:
        raise UsageError("the hub's address has a login of its own: leave it out, the token and the key are the login")
    key, authority = plan.directory / f"{plan.name}.nk", plan.directory / AUTHORITY
    made = init.planned(plan)
    configuration = plan.directory / "leafd.conf"
    if configuration.exists() and not overwrite:
        raise LeafdError(f"{configuration}: there already; --force overwrites")
    first = {}
    if ticket.certificate:
        first[authority] = (ssl.DER_cert_to_PEM_cert(ticket.certificate), init.PLAIN)
    if not key.exists():
        first[key] = made.files[key]
    init.write(init.Made(first, ""), overwrite=True)
    _log_in(plan, ticket, key, authority)
    if ticket.certificate:
        made = init.planned(replace(plan, authority=str(authority)))
    left = {path: one for path, one in made.files.items() if path != key}
    return init.Made(left, f"The hub has enrolled {plan.name}, and knows it by {key} from now on.", made.left)


def _typed(text: str) -> str:
    """The token, or what is in the file of that name: @FILE, or - for what is typed or piped in."""
    if text == "-":
        return sys.stdin.readline(_TOKEN_FILE_MAX)
    if not text.startswith("@"):
        return text
    try:
        return read_file(text[1:], _TOKEN_FILE_MAX).decode("ascii", "replace")
    except OSError as error:
        raise LeafdError(f"{text[1:]}: {error.strerror}") from error


def _log_in(plan: init.Plan, ticket: Ticket, key: Path, authority: Path) -> None:
    """One login, over a link that offers nothing. Raises LeafdError."""
    import trio

    from leafd.config.schema.leafnodes import LeafRemote
    from leafd.doctor.findings import Level
    from leafd.doctor.hub import reach

    trusted: Any = {"ca_file": str(authority)} if ticket.certificate else None
    remote = LeafRemote(urls=(plan.hub,), nkey=str(key), tls=trusted)
    found: list[Finding] = []
    introduction = {"name": plan.name, "domain": plan.name, "auth_token": ticket.secret.text}

    async def once() -> bool:
        hub = await reach(remote, plan.hub, found.append, introduction, STEP_S)
        if hub is not None:
            with trio.move_on_after(1.0):
                await hub.session.close()
        return hub is not None

    if not trio.run(once):
        faults = [one for one in found if one.level is not Level.WELL]
        raise LeafdError("\n".join(map(partial(_told, key), faults)) or "the hub was not reached")


def _told(key: Path, finding: Finding) -> str:
    advice = "".join(f"\n  {one}" for one in (finding.owner, finding.operator) if one)
    return f"{finding.text}{advice}\n  When that is mended, the same command again goes on with the key {key}."
