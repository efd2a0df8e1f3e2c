"""The limits of clients of MQTT, as values: mqtt_limits_t of abi_structs.h. Not here: the command that
says so (native_servers.py), what the configuration says (config/)."""

from __future__ import annotations

from enum import IntFlag

from leafd.native import abi
from leafd.records import dataclass


class MqttFlag(IntFlag):
    """The flags of MqttLimits (MQTT_* of abi_structs.h)."""

    VERSION_3 = abi.MQTT_VERSION_3
    VERSION_5 = abi.MQTT_VERSION_5
    REJECT_QOS2 = abi.MQTT_REJECT_QOS2
    DOWNGRADE_QOS2 = abi.MQTT_DOWNGRADE_QOS2


@dataclass(frozen=True, slots=True)
class MqttLimits:
    """mqtt_limits_t. 0: no limit; of max_packet: as max_payload says."""

    flags: int
    max_packet: int = 0
    receive_maximum: int = 1024
    topic_alias_maximum: int = 0
    max_ack_pending: int = 1024
    max_sessions: int = 0
    max_retained: int = 0
    keep_alive_max: int = 0
    ack_wait_ns: int = 0
    session_expiry_max_ns: int = 0
    message_expiry_max_ns: int = 0
    max_retained_bytes: int = 0
    max_queued_bytes: int = 0
    max_session_bytes: int = 0
    max_queued: int = 0
    replicas: int = 1
