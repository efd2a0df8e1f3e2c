"""The jetstream blocks: the server's, and the limits an account can be given. The store itself is native/store."""

from __future__ import annotations

from typing import Annotated, Any

from leafd.config.schema.base import Duration, Flag, Number, StorageSize, Text, parse_duration
from leafd.config.schema.section import Reader, Section, Takes, later, option

_CLUSTER_ONLY = "it matters only in a cluster, which this build does not have"
_QUEUES = "this server's queues have bounds of their own"
_REFUSE_KEY = "encryption at rest is not in this build: the store would be plain; remove it and encrypt the file system"


class ServerLimits(Section):
    """Bounds for what clients may ask of JetStream."""

    max_ack_pending: Number = option(
        0, "Highest max_ack_pending a consumer may ask for; 0: no bound.", takes=Takes.LIVE
    )
    max_request_batch: Number = option(0, "Highest batch a pull request may ask for; 0: no bound.", takes=Takes.LIVE)
    duplicate_window: Duration = option(
        0, "Longest duplicate window a stream may ask for; 0: no bound.", takes=Takes.LIVE
    )
    default_max_consumers: Any = later("streams that set no limit have none", refuse=False)
    max_ha_assets: Any = later(_CLUSTER_ONLY, refuse=False)
    batch: Any = later("batch publishing has bounds of its own", refuse=False)


def _sync(value: object) -> object:
    if isinstance(value, str) and value.lower() == "always":
        return 0
    return parse_duration(value)


class JetStream(Section):
    """The server's jetstream block."""

    enabled: Flag = option(True, "Serve JetStream.", aliases=("enable",))
    store_dir: Text = option(
        "", "Directory of the store; this server's data lies in its jetstream/ below.", aliases=("storedir", "store")
    )
    max_memory_store: StorageSize | None = option(
        None,
        "Bytes of memory streams; absent or -1: three quarters of the memory.",
        aliases=("max_mem_store", "max_mem"),
        takes=Takes.LATER,
    )
    max_file_store: StorageSize | None = option(
        None,
        "Bytes that the store's files may take, its journal among them; absent or -1: three quarters of what is free "
        "on the disk or in the store already.",
        aliases=("max_file",),
        takes=Takes.LATER,
    )
    domain: Text = option("", "JetStream domain: $JS.<domain>.API reaches this server from beyond leaf links.")
    sync_interval: Annotated[int | None, Reader(_sync)] = option(
        None,
        'Absent or "always": a message is on disk before its ack. A duration: acks come '
        "at once and the disk is synced so often "
        "(a power cut then loses up to that much).",
        aliases=("sync",),
    )
    strict: Flag = option(True, "Refuse API requests with unknown fields.", takes=Takes.LIVE)
    limits: ServerLimits = option(ServerLimits, "Bounds for what clients may ask.")
    key: Any = later(_REFUSE_KEY, refuse=True, aliases=("ek", "encryption_key"))
    prev_key: Any = later(_REFUSE_KEY, refuse=True, aliases=("prev_ek", "prev_encryption_key"))
    cipher: Any = later("encryption at rest is not in this build", refuse=False)
    tpm: Any = later(_REFUSE_KEY, refuse=True)
    unique_tag: Any = later(_CLUSTER_ONLY, refuse=False)
    extension_hint: Any = later(_CLUSTER_ONLY, refuse=False)
    max_outstanding_catchup: Any = later(_CLUSTER_ONLY, refuse=False)
    max_buffered_size: Any = later(_QUEUES, refuse=False)
    max_buffered_msgs: Any = later(_QUEUES, refuse=False)
    request_queue_limit: Any = later(_QUEUES, refuse=False)
    info_queue_limit: Any = later(_QUEUES, refuse=False)
    meta_compact: Any = later(_CLUSTER_ONLY, refuse=False)
    meta_compact_size: Any = later(_CLUSTER_ONLY, refuse=False)
    meta_compact_sync: Any = later(_CLUSTER_ONLY, refuse=False)
    max_concurrent_io: Any = later(_QUEUES, refuse=False)


class AccountJetStream(Section):
    """An account's share of JetStream; -1: no limit."""

    max_memory: StorageSize = option(
        -1, "Bytes of memory streams.", aliases=("max_mem", "mem", "memory"), takes=Takes.LIVE
    )
    max_store: StorageSize = option(
        -1, "Bytes of file streams.", aliases=("max_file", "max_disk", "store", "disk"), takes=Takes.LIVE
    )
    max_streams: Number = option(-1, "Streams.", aliases=("streams",), takes=Takes.LIVE)
    max_consumers: Number = option(-1, "Consumers a stream.", aliases=("consumers",), takes=Takes.LIVE)
    max_bytes_required: Flag = option(
        False, "Every stream must set max_bytes.", aliases=("max_stream_bytes", "max_bytes"), takes=Takes.LIVE
    )
    mem_max_stream_bytes: StorageSize = option(
        -1, "Bytes of one memory stream.", aliases=("memory_max_stream_bytes",), takes=Takes.LIVE
    )
    disk_max_stream_bytes: StorageSize = option(
        -1, "Bytes of one file stream.", aliases=("store_max_stream_bytes",), takes=Takes.LIVE
    )
    max_ack_pending: Number = option(-1, "Highest max_ack_pending of a consumer.", takes=Takes.LIVE)
    cluster_traffic: Any = later(_CLUSTER_ONLY, refuse=False)


def switch(value: object) -> object:
    """enabled, disabled, true, false or a map, for both blocks: a map or None."""
    if value is True or (isinstance(value, str) and value.lower() in ("enabled", "enable")):
        return {}
    if value is False or (isinstance(value, str) and value.lower() in ("disabled", "disable")):
        return None
    if isinstance(value, str):
        raise ValueError(f"enabled or disabled is expected, not {value!r}")
    return value
