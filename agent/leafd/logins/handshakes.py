"""How connections get TLS: which contexts the plane has, by number, and what INFO says of it.

    wanted(configuration) --make(), in a thread--> Made --put(), in the order of a reload--> the plane

A context is made of a tls block's bytes. One that has not changed stays, and with it the sessions that are taken up
again; connections keep the context that they began with. Not here: the block (config/schema/tls.py),
handshakes (native/net).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from leafd import native_types as t
from leafd.config.schema.tls import LINK_TIMEOUT, Tls
from leafd.errors import ConfigError
from leafd.links.leafs import DEFAULT_TLS
from leafd.native_connections import Connections
from leafd.native_functions import drop_tls, make_tls
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.config.schema.gateway import Gateway
    from leafd.config.schema.leafnodes import LeafRemote
    from leafd.config.schema.server import ServerConfig
    from leafd.config.tls_files import TlsOptions
    from leafd.links.leaf import Remote

CLIENTS: Final = 1
LEAFS: Final = 2
HUBS: Final = DEFAULT_TLS
"""Hubs that want TLS though their remote has no tls block: whom the machine trusts, is trusted."""
WEB: Final = 4
ROUTES: Final = 5
ROUTES_DIALLED: Final = 6
GATEWAYS: Final = 7
GATEWAYS_DIALLED: Final = 8
MQTT: Final = 9
REMOTES: Final = 16
"""And on: the remotes with a block of their own."""
GATEWAYS_REMOTE: Final = 1 << 16
"""And on: the clusters with a block of their own."""


class Dialled(Protocol):
    """A hub that is dialled."""

    @property
    def configured(self) -> LeafRemote: ...
    @property
    def remote(self) -> Remote: ...


class Configuration(Protocol):
    """The part of a configuration that this room needs."""

    @property
    def config(self) -> ServerConfig: ...
    @property
    def remotes(self) -> Sequence[Dialled]: ...


def secure_of(tls: Tls | None, context: int, *, optional: bool = False) -> t.Secure | None:
    """How connections of a listener with this block get TLS; None: they do not."""
    if tls is None:
        return None
    first, wait_ns = tls.handshake_first
    flags = t.SecureFlag.FIRST if first else t.SecureFlag(0)
    if optional and (not first or wait_ns):
        flags |= t.SecureFlag.OPTIONAL
    return t.Secure(context, int(flags), wait_ns)


def info_of(tls: Tls | None, *, optional: bool = False) -> dict[str, Any]:
    """The members of INFO about TLS."""
    if tls is None:
        return {}
    info = {"tls_available" if optional else "tls_required": True}
    return info | ({"tls_verify": True} if tls.verifies else {})


@dataclass(frozen=True, slots=True)
class Wanted:
    """One context that a configuration asks for. options None: the default of the end that dials."""

    number: int
    options: TlsOptions | None
    client: bool


@dataclass(frozen=True, slots=True)
class Made:
    """Contexts that the plane is to have, and those that go."""

    contexts: tuple[tuple[Wanted, int], ...] = ()
    gone: tuple[int, ...] = ()


class Handshakes:
    """Owner of the plane's contexts of TLS."""

    def __init__(self, plane: Connections) -> None:
        self._plane = plane
        self._there: dict[int, Wanted] = {}

    def make(self, compiled: Configuration) -> Made:
        """The contexts that are new in a configuration: made on a thread of its own. Raises ConfigError."""
        wanted = {one.number: one for one in _wanted(compiled)}
        made: list[tuple[Wanted, int]] = []
        try:
            for one in wanted.values():
                if self._there.get(one.number) != one:
                    made.append((one, make_tls(*_parts(one))))
        except t.PlaneError as error:
            self.drop(Made(tuple(made)))
            raise ConfigError(f"tls: {error}") from error
        gone = tuple(number for number in self._there if number not in wanted and number != HUBS)
        return Made(tuple(made), gone)

    def drop(self, made: Made) -> None:
        """Drops contexts that are not needed after all."""
        for _, context in made.contexts:
            drop_tls(context)

    async def put(self, made: Made) -> None:
        """From here on these are the contexts of new connections."""
        for one, context in made.contexts:
            self._there[one.number] = one
            await self._plane.put_tls(one.number, context)

    async def clear(self, made: Made) -> None:
        """Clears contexts that no new connection gets."""
        for number in made.gone:
            self._there.pop(number, None)
            await self._plane.put_tls(number, 0)

    async def need_default(self) -> None:
        """Makes the context of hubs without a block, once."""
        if HUBS not in self._there:
            one = Wanted(HUBS, None, client=True)
            await self.put(Made(((one, make_tls(*_parts(one))),)))


def _wanted(compiled: Configuration) -> list[Wanted]:
    config, found = compiled.config, []
    if config.tls is not None:
        found.append(Wanted(CLIENTS, config.tls.compiled(), client=False))
    if config.leafnodes is not None and config.leafnodes.tls is not None and config.leaf_address() is not None:
        found.append(Wanted(LEAFS, config.leafnodes.tls.compiled(LINK_TIMEOUT), client=False))
    if config.websocket is not None and config.websocket.tls is not None and config.web_address() is not None:
        found.append(Wanted(WEB, config.websocket.tls.compiled(LINK_TIMEOUT), client=False))
    if config.mqtt is not None and config.mqtt.tls is not None and config.mqtt.address() is not None:
        found.append(Wanted(MQTT, config.mqtt.tls.compiled(LINK_TIMEOUT), client=False))
    if config.cluster is not None and config.cluster.tls is not None and config.cluster_address() is not None:
        # Both ends of a route show a certificate, as with the reference.
        mutual = replace(config.cluster.tls.compiled(LINK_TIMEOUT), verify=True)
        found += [Wanted(ROUTES, mutual, client=False), Wanted(ROUTES_DIALLED, mutual, client=True)]
    if config.gateway is not None and config.gateway.address() is not None:
        found += _of_gateways(config.gateway)
    for one in compiled.remotes:
        if one.configured.tls is not None and one.remote.context:
            found.append(Wanted(one.remote.context, one.configured.tls.compiled(LINK_TIMEOUT), client=True))
    return found


def _of_gateways(block: Gateway) -> list[Wanted]:
    """Both ends of a gateway show a certificate, too."""
    found = []
    if block.tls is not None:
        mutual = replace(block.tls.compiled(LINK_TIMEOUT), verify=True)
        found += [Wanted(GATEWAYS, mutual, client=False), Wanted(GATEWAYS_DIALLED, mutual, client=True)]
    for number, one in enumerate(block.remotes):
        if one.tls is not None:
            found.append(Wanted(GATEWAYS_REMOTE + number, one.tls.compiled(LINK_TIMEOUT), client=True))
    return found


def _parts(one: Wanted) -> tuple[t.TlsSettings, t.TlsTexts]:
    options = one.options
    flags = t.TlsFlag.CLIENT if one.client else t.TlsFlag(0)
    if options is None:
        return t.TlsSettings(int(flags | t.TlsFlag.VERIFY), timeout_ns=LINK_TIMEOUT), t.TlsTexts()
    if (not options.insecure) if one.client else options.verify:
        flags |= t.TlsFlag.VERIFY
    settings = t.TlsSettings(int(flags), options.min_version, min(options.rate, 0xFFFFFFFF), options.timeout_ns)
    pairs = [text for pair in options.material.pairs for text in (pair.chain, pair.key)]
    return settings, t.TlsTexts(
        options.material.ca, options.cipher_suites, options.curves, options.pinned, tuple(pairs)
    )
