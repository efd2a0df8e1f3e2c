"""The mqtt block: the listener for devices that speak MQTT 3.1.1 or 5, and the logins of its own. Keys and names are
nats-server's; those that only leafd has are said to be so in differences.md. What a CONNECT proves is
auth/mqtt_connect.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from leafd.config.schema.base import (
    SECOND,
    Duration,
    Flag,
    Listen,
    Number,
    StorageSize,
    Strings,
    Text,
    zero_means_default,
)
from leafd.config.schema.section import Section, Takes, later, option
from leafd.config.schema.tls import Tls
from leafd.config.schema.websocket import OwnAuthorization, check_logins

if TYPE_CHECKING:
    from leafd.config.schema.server import ServerConfig

VERSIONS: Final = ("3.1.1", "5")
IN_FLIGHT: Final = 1024
ALIASES: Final = 16
_SHORT_MAX: Final = 65535
_MANY: Final = (1 << 32) - 1


class Mqtt(Section):
    """The mqtt block."""

    listen: Listen | None = option(None, "Where MQTT clients connect to.", example='"0.0.0.0:1883"')
    host: Text = option("", "The address alone. Empty: every address of the machine.", aliases=("net",))
    port: Number = option(0, "The port alone. 0: there is none. -1: any free port.", ge=-1, le=65535)
    tls: Tls | None = option(None, "The certificate for mqtts://.", takes=Takes.LIVE)
    authorization: OwnAuthorization | None = option(
        None, "A login for this listener, where there are no users.", aliases=("authentication",), takes=Takes.LIVE
    )
    no_auth_user: Text = option("", "The user that clients are here which send no credentials.", takes=Takes.LIVE)
    versions: Strings = option((), "The versions of MQTT that are spoken: 3.1.1, 5. Empty: both.", takes=Takes.LIVE)
    max_ack_pending: Annotated[Number, zero_means_default(IN_FLIGHT)] = option(
        IN_FLIGHT,
        "Messages with QoS 1 or 2 that a client has not acknowledged; the next one waits.",
        aliases=("max_pending", "max_inflight"),
        takes=Takes.LIVE,
        ge=1,
        le=_SHORT_MAX,
    )
    reject_qos2_publish: Flag = option(
        False, "Close clients that publish with QoS 2; those of MQTT 5 are told that it is not there.", takes=Takes.LIVE
    )
    downgrade_qos2_subscribe: Flag = option(False, "Grant QoS 1 to those who ask for 2.", takes=Takes.LIVE)
    receive_maximum: Number = option(
        IN_FLIGHT,
        "Messages with QoS 1 or 2 of a client that may wait for their acknowledgement; MQTT 5 is told.",
        takes=Takes.LIVE,
        ge=1,
        le=_SHORT_MAX,
    )
    topic_alias_maximum: Number = option(
        ALIASES, "Topics that a client of MQTT 5 may give a number. 0: none.", takes=Takes.LIVE, ge=0, le=256
    )
    max_packet_size: Number = option(
        0,
        "Bytes of a packet of a client. 0: max_payload, and 64 KiB for topic and properties.",
        takes=Takes.LIVE,
        ge=0,
        le=(1 << 28) - 1,
    )
    max_keep_alive: Duration = option(
        0,
        "The longest silence that a client of MQTT 5 may ask for; one that wants more, or no limit, is told this one."
        " In whole seconds, rounded up. 0: what clients say.",
        takes=Takes.LIVE,
        ge=0,
        le=_SHORT_MAX * SECOND,
    )
    ack_wait: Duration = option(
        0,
        "How long a client of 3.1.1 may take to acknowledge a message; then it is sent again. 0: until the client comes"
        " again, since TCP loses none, and the next copy would wait behind the first one on a slow line.",
        aliases=("ackwait",),
        takes=Takes.LIVE,
        ge=0,
    )
    max_session_expiry: Duration = option(
        0,
        "The longest time that a session is kept behind its connection, also of clients of 3.1.1; those of 5 are told."
        " In whole seconds, rounded up. 0: as long as they say.",
        takes=Takes.LIVE,
        ge=0,
        le=_MANY * SECOND,
    )
    max_message_expiry: Duration = option(
        0,
        "The longest time that a message waits for sessions, and that one is retained, whatever its publisher says. In"
        " whole seconds, rounded up. 0: as long as that says. It counts for messages that come from then on.",
        takes=Takes.LIVE,
        ge=0,
        le=_MANY * SECOND,
    )
    max_sessions: Number = option(
        0,
        "Sessions of an account that are kept behind their connections. 0: no bound.",
        takes=Takes.LIVE,
        ge=0,
        le=_MANY,
    )
    max_queued: Number = option(
        0,
        "Messages with QoS 1 or 2 that wait for a session, or for a shared subscription, beside max_ack_pending in"
        " flight. One more, and the oldest is dropped. 0: no bound.",
        takes=Takes.LIVE,
        ge=0,
        le=_MANY,
    )
    max_session_bytes: StorageSize = option(
        0,
        "Bytes of the messages that max_queued counts, with their topics and properties. One more, and the oldest are"
        " dropped until it has room; one that is larger than all of it waits alone. 0: no bound.",
        takes=Takes.LIVE,
        ge=0,
    )
    max_queued_bytes: StorageSize = option(
        0,
        "Bytes of the messages that wait for an account's sessions which outlive their connections, each counted once."
        " When they are reached, messages for any of these are refused; max_session_bytes bounds what each adds. A"
        " session that ends with its connection has max_pending. 0: as many as it may store.",
        takes=Takes.LIVE,
        ge=0,
    )
    max_retained: Number = option(
        0,
        "Retained messages of an account, one for each topic. 0: as many as it may store.",
        takes=Takes.LIVE,
        ge=0,
        le=_MANY,
    )
    max_retained_bytes: StorageSize = option(0, "Bytes of these. 0: as many as it may store.", takes=Takes.LIVE, ge=0)
    js_domain: Any = later(
        "sessions are not kept elsewhere: they are in this server's own domain", refuse=True, harmless=("",)
    )
    stream_replicas: Number = option(
        0,
        "Servers of a cluster that keep an account's sessions and retained messages, where they are made from now on."
        " 0: one.",
        takes=Takes.LIVE,
        ge=0,
        le=5,
    )
    consumer_replicas: Number = later("nats-server ignores it, too", refuse=False)
    consumer_memory_storage: Flag = later("a session has no consumer for each subscription", refuse=False)
    consumer_inactive_threshold: Duration = later(
        "a session has no consumer for each subscription", refuse=False, aliases=("consumer_auto_cleanup",)
    )
    js_api_timeout: Duration = later("sessions are not kept by requests", refuse=False, aliases=("api_timeout",))

    def address(self) -> tuple[str, int] | None:
        """Host and port, None when there is no listener."""
        found = self.listen if self.listen is not None else (self.host, self.port)
        return found if found[1] else None

    def check(self) -> None:
        if self.address() is None:
            return
        if self.tls is not None and not self.tls.material.pairs:
            raise ValueError("tls has no certificate, so no client could connect: add cert_file and key_file")
        for one in self.versions:
            if one not in VERSIONS:
                raise ValueError(f"versions: {one!r} is not spoken: take {' or '.join(VERSIONS)}")


def mqtt_address(server: ServerConfig) -> tuple[str, int] | None:
    """Host and port of the MQTT listener, None when there is none."""
    return server.mqtt.address() if server.mqtt is not None else None


def check_mqtt(server: ServerConfig, known: dict[str, str]) -> None:
    """How the block fits the others. Raises ValueError."""
    block = server.mqtt
    if block is None or block.address() is None:
        return
    clustered = server.cluster_address() is not None or server.gateway is not None
    if not server.server_name and clustered:
        raise ValueError("mqtt: it needs server_name where there is a cluster: add one")
    if server.jetstream is None or not server.jetstream.enabled:
        raise ValueError("mqtt: it needs jetstream, where sessions and retained messages are kept: add jetstream { }")
    check_logins("mqtt", block, server, known)
