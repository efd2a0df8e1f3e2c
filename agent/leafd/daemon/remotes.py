"""The hubs that a configuration names, as links/ dials them: with the account's number and what the login is signed
with. Files are read here, so that one that is missing is an error of the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from leafd.accounts.graph import Graph
from leafd.auth.authors import written
from leafd.auth.creds import signer_from_credentials, signer_from_seed
from leafd.config.schema.base import SECOND
from leafd.config.schema.leafnodes import LeafRemote
from leafd.config.schema.precedence import LeafLimits, LeafPriority
from leafd.config.schema.server import ServerConfig
from leafd.errors import ConfigError
from leafd.links.compression import Compression
from leafd.links.dialling import proxy_of
from leafd.links.leaf import Remote
from leafd.logins.handshakes import REMOTES
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.links.limits import Limits

_CONTEXTS = count(REMOTES)
REMOTE_AUTHOR: Final = "remote"


def remote_author(account: str, urls: Iterable[str]) -> str:
    """The author of messages that a dialled hub stores here, by the hub's address."""
    return written([REMOTE_AUTHOR, account, [url_place(url) for url in urls]])


def url_place(url: str) -> str:
    """The place in a URL, without the name and password that it may have."""
    return urlsplit(url).netloc.rpartition("@")[2]


@dataclass(frozen=True, slots=True)
class Dialled:
    """One remote as it was configured, and as it is dialled."""

    configured: LeafRemote
    remote: Remote

    @property
    def sending(self) -> tuple[tuple[str, ...], Limits | None]:
        """The priorities and limits for what is sent to the hub."""
        return sending(self.configured.priority, self.configured.limits)


def sending(priority: LeafPriority | None, limits: LeafLimits | None) -> tuple[tuple[str, ...], Limits | None]:
    """The priorities and limits that a link's blocks have; () and None where they are absent."""
    rules = priority.rules if priority else ()
    if limits is None:
        return rules, None
    from leafd.links.ledger import Calendar
    from leafd.links.limits import Limits, Span

    return rules, Limits(
        per_second=limits.bytes_per_second,
        per_day=limits.bytes_per_day,
        per_month=limits.bytes_per_month,
        calendar=Calendar(limits.zone, limits.time_zone, limits.month_begins),
        spans=tuple(Span(one.begin, one.end, frozenset(one.days), one.bytes_per_second, one.only) for one in limits.at),
    )


def _but_for_sending(remote: LeafRemote) -> LeafRemote:
    """The settings of a remote that a link has to begin anew for."""
    return remote.replaced(priority=None, limits=None)


def remotes_of(
    config: ServerConfig, graph: Graph, known: tuple[Dialled, ...] = (), place: Callable[[int], str] | None = None
) -> tuple[Dialled, ...]:
    """The remotes that are to be dialled. One that is among the known ones, but for what it is sent by, is that one.
    place: where the element of that number stands, for errors. Raises ConfigError."""
    left, found = list(known), []
    for number, one in enumerate(config.leafnodes.remotes if config.leafnodes else ()):
        account = graph.account(one.account)
        if one.disabled or account is None:
            continue
        same = next((old for old in left if _but_for_sending(old.configured) == _but_for_sending(one)), None)
        if same is not None:
            left.remove(same)
            found.append(same if same.configured == one else Dialled(one, same.remote))
            continue
        try:
            signer = signer_from_credentials(one.credentials) if one.credentials else None
            if signer is None and one.nkey:
                signer = signer_from_seed(one.nkey)
        except ConfigError as error:
            raise ConfigError(f"{place(number)}: {error}" if place else str(error)) from error
        remote = Remote(
            urls=one.urls,
            in_order=one.no_randomize,
            discovers=not one.ignore_discovered_servers,
            account=account.id,
            account_name=account.name,
            system=account.system,
            hub=one.hub,
            isolates=one.isolate_leafnode_interest,
            asks_to_isolate=one.request_isolation,
            deny_imports=one.deny_imports,
            deny_exports=one.deny_exports,
            author=remote_author(account.name, one.urls),
            sign=signer,
            tls=one.tls is not None or any(urlsplit(url).scheme in ("tls", "wss") for url in one.urls),
            ws_compression=one.ws_compression,
            ws_no_masking=one.ws_no_masking,
            compression=Compression(*one.compression),
            tls_first=one.tls is not None and one.tls.handshake_first[0],
            context=next(_CONTEXTS) if one.tls is not None else 0,
            dial_s=dial_seconds(config, one),
            info_s=one.first_info_timeout / SECOND,
            proxy=proxy_of(one),
        )
        found.append(Dialled(one, remote))
    return tuple(found)


def dial_seconds(config: ServerConfig, remote: LeafRemote) -> float:
    """How long a connection to that hub may take; 0: it is not said."""
    of_all = config.leafnodes.dial_timeout if config.leafnodes else 0
    return (remote.dial_timeout or of_all) / SECOND
