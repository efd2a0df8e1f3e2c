"""configs/reference.conf, made from the models: every key with its help, its default, and when a change takes effect.

python -m leafd.config.reference > configs/reference.conf        (a test sees that it is fresh)
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, Final

from leafd.config.bind import inner_models
from leafd.config.schema.accounts import AccountLimits, ConfiguredAccount, MessageTracing
from leafd.config.schema.base import DURATION, duration_text
from leafd.config.schema.cluster import Cluster, ClusterAuthorization
from leafd.config.schema.enrol import Enrol
from leafd.config.schema.gateway import Gateway, GatewayAuthorization, RemoteGateway
from leafd.config.schema.jetstream import AccountJetStream, BatchLimits, JetStream, ServerLimits
from leafd.config.schema.leafnodes import LeafAuthorization, LeafNodes, LeafProxy, LeafRemote, LeafUser
from leafd.config.schema.mqtt import Mqtt
from leafd.config.schema.operator import Resolver
from leafd.config.schema.permissions import AuthCallout, Authorization, Permissions, Responses, Subjects, User
from leafd.config.schema.precedence import LeafLimits, LeafPriority, LeafSpan
from leafd.config.schema.section import Option, Section, Support, Takes, hints
from leafd.config.schema.server import ServerConfig
from leafd.config.schema.sharing import Export, Import, Latency, Origin
from leafd.config.schema.tls import CertificatePair, Tls
from leafd.config.schema.websocket import OwnAuthorization, WebSocket

WIDTH: Final = 110
HEAD: Final = """\
# Every key of leafd's configuration, with its default. Made by `python -m leafd.config.reference`; do not edit.
#
# The language is nats-server's: `key: value`, `key = value` or `key value`; maps in { }, lists in [ ]; # and //
# begin a comment; `include ./file`; $name is a key set before, an environment variable, or the text of a credential
# of systemd (LoadCredential=). Where a file is named, a name without / may be a credential's. Sizes: 64K = 64,000,
# 64KB = 64KiB = 65,536. Durations in quotes: "500ms", "10s", "2m", "1h30m". Keys are matched without regard to case.
# [live]: a reload (SIGHUP, leafd --signal reload) takes a change up. [later]: the change waits for a
# restart. A reload in which any other key has changed is refused as a whole. "Also" gives other spellings of a key.
# At the end of each block are the keys of nats-server that do not work here. "Refused": leafd does not start with
# them, for the reason in parentheses. "Taken, and without effect": leafd starts, says so, and goes on.
"""
BLOCKS: Final[tuple[tuple[str, type[Section]], ...]] = (
    ("the top", ServerConfig),
    ("authorization { }", Authorization),
    ("auth_callout { }", AuthCallout),
    ("a user: { }", User),
    ("permissions { }", Permissions),
    ("publish and subscribe { }", Subjects),
    ("allow_responses { }", Responses),
    ("accounts { NAME { } }", ConfiguredAccount),
    ("limits { } of an account", AccountLimits),
    ("jetstream { } of an account", AccountJetStream),
    ("msg_trace { } of an account", MessageTracing),
    ("an element of exports [ ]", Export),
    ("latency { } of an export", Latency),
    ("an element of imports [ ]", Import),
    ("stream { } and service { } of an import", Origin),
    ("resolver { }", Resolver),
    ("jetstream { }", JetStream),
    ("limits { } of jetstream", ServerLimits),
    ("batch { } of these limits", BatchLimits),
    ("cluster { }", Cluster),
    ("authorization { } of a cluster", ClusterAuthorization),
    ("gateway { }", Gateway),
    ("an element of gateways [ ]", RemoteGateway),
    ("authorization { } of a gateway", GatewayAuthorization),
    ("leafnodes { }", LeafNodes),
    ("an element of remotes [ ]", LeafRemote),
    ("proxy { } of that", LeafProxy),
    ("priority { } of that, and of leafnodes", LeafPriority),
    ("limits { } of that, and of leafnodes", LeafLimits),
    ("an element of at [ ]", LeafSpan),
    ("authorization { } of leafnodes", LeafAuthorization),
    ("a user of that", LeafUser),
    ("enrol { }", Enrol),
    ("websocket { }", WebSocket),
    ("mqtt { }", Mqtt),
    ("authorization { } of websocket and mqtt", OwnAuthorization),
    ("tls { }, the same wherever it stands", Tls),
    ("an element of certs [ ]", CertificatePair),
)


def render() -> str:
    """The whole file."""
    parts = [HEAD]
    for title, model in BLOCKS:
        parts.append(
            f"\n# ---- {title} {'-' * (WIDTH - len(title) - 8)}\n\n" + "\n".join(_block(model)).rstrip("\n") + "\n"
        )
    return "".join(parts)


def _block(model: type[Section]) -> Iterator[str]:
    for name, one in model.options.items():
        if one.support != Support.FULL:
            continue
        live = f" [{one.takes}]" if one.takes != Takes.RESTART else ""
        also = f" Also: {', '.join(one.aliases)}." if one.aliases else ""
        yield from textwrap.wrap(f"{one.help}{live}{also}", WIDTH, initial_indent="# ", subsequent_indent="# ")
        yield f"# {name}: {default_text(one, hints(model)[name])}"
        yield ""
    yield from not_working(model)


def not_working(model: type[Section]) -> Iterator[str]:
    """The keys of nats-server that are refused, and those that are without effect."""
    others = [(name, one) for name, one in model.options.items() if one.support != Support.FULL]
    for support, title in ((Support.REFUSED, "Refused"), (Support.IGNORED, "Taken, and without effect")):
        reasons: dict[str, list[str]] = {}
        for name, one in others:
            if one.support == support:
                reasons.setdefault(one.why, []).append(name)
        for why, names in reasons.items():
            yield from textwrap.wrap(
                f"{title}: {', '.join(names)} ({why}).",
                WIDTH,
                initial_indent="# ",
                subsequent_indent="#   ",
                break_on_hyphens=False,
            )


def default_text(one: Option, annotation: Any) -> str:
    """The default of a key, or an example where the option has one, as a file has it."""
    if one.example:
        return one.example
    _, held = inner_models(annotation)
    if held in ("one", "map"):
        return "{ }"
    if held == "list":
        return "[ ]"
    value = one.default
    if value is None:
        return "(absent)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | dict):
        return "[ ]" if isinstance(value, tuple) else "{ }"
    if isinstance(value, int) and DURATION in getattr(annotation, "__metadata__", ()):
        return f'"{duration_text(value)}"'
    return str(value) if isinstance(value, int) else f'"{value}"'


if __name__ == "__main__":
    print(render(), end="")
