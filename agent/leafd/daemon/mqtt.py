"""The listener of MQTT clients: what the plane is told of it, and the bounds that the block has for streams. Logins
are those of all clients (clients.py).

Imported only where the block is configured. Not here: the block (config/schema/mqtt.py), packets and
sessions (the plane).
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from leafd import native_types as t
from leafd.config.schema.base import SECOND
from leafd.config.schema.mqtt import VERSIONS, Mqtt
from leafd.gojson import written
from leafd.host.listeners import MQTT_LISTENER, address_of
from leafd.links.addresses import host_port

if TYPE_CHECKING:
    from leafd.config.schema.server import ServerConfig
    from leafd.daemon.current import Current
    from leafd.host.log import Log
    from leafd.jetstream.service import JetStream
    from leafd.native_plane import Plane

RETAINED = "$MQTT_rmsgs"
"""The stream of an account's retained messages (native/verbs/mqtt_retain.c)."""
_VERSIONS = {"3.1.1": t.MqttFlag.VERSION_3, "5": t.MqttFlag.VERSION_5}


def _seconds(ns: int) -> int:
    """As packets say a time. Rounded up: 0 would be no bound."""
    return -(-ns // SECOND)


def limits_of(block: Mqtt) -> t.MqttLimits:
    """The block's limits, as the plane takes them."""
    flags = t.MqttFlag(0)
    for one in block.versions or VERSIONS:
        flags |= _VERSIONS[one]
    flags |= t.MqttFlag.REJECT_QOS2 if block.reject_qos2_publish else 0
    flags |= t.MqttFlag.DOWNGRADE_QOS2 if block.downgrade_qos2_subscribe else 0
    return t.MqttLimits(
        flags=int(flags),
        max_packet=block.max_packet_size,
        receive_maximum=block.receive_maximum,
        topic_alias_maximum=block.topic_alias_maximum,
        max_ack_pending=block.max_ack_pending,
        keep_alive_max=_seconds(block.max_keep_alive),
        ack_wait_ns=block.ack_wait,
        session_expiry_max_ns=_seconds(block.max_session_expiry) * SECOND,
        message_expiry_max_ns=block.max_message_expiry,
        max_sessions=block.max_sessions,
        max_retained=block.max_retained,
        max_retained_bytes=block.max_retained_bytes,
        max_queued=block.max_queued,
        max_queued_bytes=block.max_queued_bytes,
        max_session_bytes=block.max_session_bytes,
        replicas=max(1, block.stream_replicas),
    )


async def bound_retained(jetstream: JetStream, current: Current, log: Log) -> None:
    """Gives the streams of retained messages that are there the bounds of the block. New ones are made with them.
    A copy of another server's has that server's."""
    block = current.config.mqtt
    if block is None:
        return
    bounds = {"max_msgs": block.max_retained or -1, "max_bytes": block.max_retained_bytes or -1}
    for account in list(jetstream.catalogue.by_name.values()):
        stream = account.streams.get(RETAINED)
        if stream is None or stream.config.mirror is not None or stream.config.sources:
            continue
        config = written(stream.config)
        if bounds == {key: config.get(key, -1) for key in bounds}:
            continue
        refused = await jetstream.order(account.name, f"STREAM.UPDATE.{RETAINED}", config | bounds)
        if refused:
            log.error(f"Stream {RETAINED} of account {account.name} does not get the bounds of mqtt: {refused}")
        else:
            log.info(f"Stream {RETAINED} of account {account.name} has the bounds of mqtt now")


def listen_mqtt(plane: Plane, config: ServerConfig, log: Log, sock: socket.socket | None = None) -> None:
    """Clients may come from here on, by what the block says. None: after a reload."""
    block = config.mqtt
    if block is None:
        return
    secure = block.tls is not None
    plane.mqtt(limits_of(block))
    descriptor = 0
    if sock is not None:
        host, port = address_of(sock)
        log.info(f"Listening for MQTT clients on {'tls' if secure else 'mqtt'}://{host_port(host, port)}")
        descriptor = sock.detach()
    plane.listen(MQTT_LISTENER, descriptor, t.ConnKind.MQTT, secure=secure, proxied=config.proxy_protocol)
