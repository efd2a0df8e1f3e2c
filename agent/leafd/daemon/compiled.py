"""A configuration as the rooms use it: the account graph, the policies of logins, the hubs to dial.

The server holds one Compiled and replaces it as a whole when a reload takes effect. Not here: the
plane's limits, which depend on the machine as well (store.py); how one Compiled follows another (takeover.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from leafd import native_types as t
from leafd.accounts.graph import Graph, Numbers, compile_graph
from leafd.auth.policy import Policy, compile_leaf_policy, compile_own_policy, compile_policy
from leafd.config.schema.server import ServerConfig
from leafd.config.schema.tls import LINK_TIMEOUT, login_timeout
from leafd.daemon.remotes import Dialled, remotes_of
from leafd.errors import ConfigError
from leafd.logins.client import Terms
from leafd.logins.handshakes import CLIENTS, LEAFS, MQTT, secure_of
from leafd.logins.leaf_logins import LeafTerms
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.daemon.operator import Operated
    from leafd.enrol.register import Register
    from leafd.jetstream.catalogue import Settings

SECOND: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Compiled:
    """The tables made of one configuration."""

    config: ServerConfig
    graph: Graph
    policy: Policy
    leaf_policy: Policy
    remotes: tuple[Dialled, ...]
    operated: Operated | None = None
    """In operator mode: where graph and policies come from."""
    signing_seed: str = ""
    """In operator mode: what signs the users of boxes that are enrolled here, .."""
    signing_key: str = ""
    """.. and its public key."""

    @property
    def serves_jetstream(self) -> bool:
        """Whether there is a store."""
        return self.config.jetstream is not None and self.config.jetstream.enabled

    @property
    def has_tls(self) -> bool:
        """Whether the plane speaks TLS."""
        leafnodes = self.config.leafnodes
        accepts = self.config.tls is not None or (leafnodes is not None and leafnodes.tls is not None)
        own = (self.config.websocket, self.config.mqtt)
        accepts = accepts or any(block is not None and block.tls is not None for block in own)
        accepts = accepts or (self.config.cluster is not None and self.config.cluster.tls is not None)
        gateway = self.config.gateway
        accepts = accepts or (gateway is not None and any(gateway.tls_blocks()))
        return accepts or any(one.remote.context for one in self.remotes)

    @property
    def domain(self) -> str:
        """The JetStream domain, or the empty string."""
        return self.config.jetstream.domain if self.config.jetstream and self.serves_jetstream else ""

    @property
    def dials_hubs(self) -> bool:
        """Whether any remote is configured, also one that is disabled."""
        return bool(self.config.leafnodes and self.config.leafnodes.remotes)

    @property
    def judges_elsewhere(self) -> bool:
        """Whether logins may be judged by a service: the configuration's, or that of an account with a JWT."""
        return self.policy.callout is not None or self.policy.trust is not None

    @property
    def client_terms(self) -> Terms:
        """The terms of clients' logins."""
        timeout_ns = login_timeout(self.config.authorization, self.config.tls)
        terms = Terms(
            self.policy,
            self.graph,
            self.config.max_payload,
            max(self.config.max_subscriptions, 0),
            timeout_ns / SECOND,
            max(self.config.max_connections, 0),
            secure=secure_of(self.config.tls, CLIENTS, optional=self.config.allow_non_tls),
            proxied=self.config.proxy_protocol,
        )
        terms = replace(terms, web=self._web_terms(terms, timeout_ns))
        return terms if self.config.mqtt is None else replace(terms, mqtt=self._mqtt_terms(terms))

    def _web_terms(self, terms: Terms, timeout_ns: int) -> Terms | None:
        """The terms of logins over WebSocket, where they differ."""
        web = self.config.websocket
        if web is None:
            return None
        own = web.authorization.timeout if web.authorization else 0
        info: dict[str, Any] = {"tls_required": True, "tls_available": True} if web.tls is not None else {}
        if web.tls is not None and web.tls.verifies:
            info["tls_verify"] = True
        return replace(
            terms,
            policy=self.web_policy,
            timeout_s=(own or timeout_ns) / SECOND,
            secure=None,
            info=info,
            ping_interval_ns=self.web_ping_ns,
        )

    def _mqtt_terms(self, terms: Terms) -> Terms:
        """The terms of logins by MQTT; over WebSocket the handshake was before. Devices are waited for as links are."""
        block = self.config.mqtt
        own = block.authorization.timeout if block is not None and block.authorization is not None else 0
        tls = block.tls if block is not None else None
        shared = self.config.authorization
        patient = not own and (shared is None or "timeout" not in shared.given)
        timeout_s = (own or login_timeout(shared, tls, LINK_TIMEOUT)) / SECOND
        framed = replace(terms, policy=self.mqtt_policy, secure=None, info={}, web=None)
        framed = replace(framed, timeout_s=timeout_s, patient=patient)
        # As with https, nothing comes before the handshake.
        secure = t.Secure(MQTT, int(t.SecureFlag.FIRST), 0) if tls is not None else None
        return replace(framed, secure=secure, web=framed)

    @property
    def web_ping_ns(self) -> int:
        """How often leaf links over WebSocket are asked for a PONG, where that is another time than elsewhere."""
        return self.config.websocket.ping_interval if self.config.websocket is not None else 0

    @property
    def web_policy(self) -> Policy:
        """The policy for clients over WebSocket."""
        return compile_own_policy(self.config, self.policy, self.config.websocket)

    @property
    def mqtt_policy(self) -> Policy:
        """The policy for clients of MQTT."""
        return compile_own_policy(self.config, self.policy, self.config.mqtt)

    @property
    def leaf_secure(self) -> t.Secure | None:
        """How leaf nodes that connect get TLS, if so."""
        return secure_of(self.config.leafnodes.tls if self.config.leafnodes else None, LEAFS)

    @property
    def leaf_terms(self) -> LeafTerms:
        """The terms of leaf nodes' logins."""
        authorization = self.config.leafnodes.authorization if self.config.leafnodes else None
        tls = self.config.leafnodes.tls if self.config.leafnodes else None
        timeout_ns = login_timeout(authorization, tls, LINK_TIMEOUT)
        own = authorization is not None and bool(authorization.users or authorization.user or authorization.nkey)
        web = self.config.websocket
        web_policy = None
        if web is not None and web.no_auth_user and not own:
            web_policy = replace(self.leaf_policy, no_auth_user=self.leaf_policy.person(web.no_auth_user))
        return LeafTerms(self.leaf_policy, self.graph, timeout_ns / SECOND, own, web_policy)


def compile_config(
    config: ServerConfig,
    numbers: Numbers,
    known: tuple[Dialled, ...] = (),
    remote_place: Callable[[int], str] | None = None,
    operated: Operated | None = None,
    register: Register | None = None,
) -> Compiled:
    """Compiles a configuration. known: remotes that are dialled already and stay the same objects if they have not
    changed. remote_place: where the remote of that number stands, for errors. operated: of the configuration before.
    register: of boxes that are enrolled. Raises ConfigError."""
    if config.operated:
        from leafd.daemon.operator import compile_operator

        made = compile_operator(config, numbers, operated)
        graph = made.accounts.graph
        remotes = remotes_of(config, graph, known, remote_place)
        seed, key = signing_seed(config.enrol.signing_key) if config.enrol is not None else ("", "")
        return Compiled(config, graph, made.policy, made.policy, remotes, made, seed, key)
    graph = compile_graph(config, numbers)
    return Compiled(
        config,
        graph,
        compile_policy(config),
        _leaf_policy(config, register),
        remotes_of(config, graph, known, remote_place),
    )


def _leaf_policy(config: ServerConfig, register: Register | None) -> Policy:
    policy = compile_leaf_policy(config)
    if register is None or config.enrol is None:
        return policy
    from leafd.enrol.people import widened  # here: most configurations enrol nobody

    return widened(policy, config.enrol, register)


def signing_seed(path: str) -> tuple[str, str]:
    """The seed of an account's signing key that a file holds, and its public key. Raises ConfigError."""
    import re

    from leafd.auth.nkeys import PREFIX_ACCOUNT, is_public_key, sign
    from leafd.files import read_file

    try:
        found = re.search(r"\bSA[A-Z2-7]{56}\b", read_file(path, 64 << 10).decode("ascii", "replace"))
        key = sign(found[0], "")[0] if found is not None else ""
    except (OSError, ValueError) as error:
        raise ConfigError(f"enrol: signing_key {path}: {error}") from error
    if found is None or not is_public_key(key, PREFIX_ACCOUNT):
        raise ConfigError(f"enrol: signing_key {path} holds no seed of an account's signing key (SA...)")
    return found[0], key


def jetstream_settings(config: ServerConfig, limits: t.Limits, server_name: str, domain: str) -> Settings:
    """The settings for JetStream of a configuration that has it."""
    from leafd.config.schema.cluster import group_size
    from leafd.config.schema.gateway import cluster_name
    from leafd.jetstream.catalogue import Settings

    assert config.jetstream is not None
    bounds = config.jetstream.limits
    return Settings(
        server_name=server_name,
        domain=domain,
        strict=config.jetstream.strict,
        max_memory=limits.max_memory_store,
        max_store=limits.max_file_store,
        max_ack_pending=bounds.max_ack_pending,
        max_request_batch=bounds.max_request_batch,
        duplicate_window=bounds.duplicate_window,
        default_max_consumers=bounds.default_max_consumers,
        cluster_name=cluster_name(config) if group_size(config) else "",
        shared=group_size(config) > 0,
    )
