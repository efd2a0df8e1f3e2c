"""The jetstream blocks: the server's, and the limits an account can be given. The store itself is native/store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from leafd.config.schema.base import Duration, File, Flag, Number, Secret, StorageSize, Text, parse_duration
from leafd.config.schema.section import Reader, Section, Takes, later, option, shown

_COMPACT = "the log of the group of all servers is cut at each checkpoint of the store"
_QUEUES = "this server's queues have bounds of their own"
_REFUSE_TPM = "keys in a TPM are not in this build: give the key by key_file, as a systemd credential sealed to the TPM"


def _not_empty(value: object) -> object:
    """A key that is given is one: an empty variable must not leave a store in plain."""
    if value == "":
        raise ValueError("it is empty: give one, or leave it out")
    return value


_Key = Annotated[Secret, Reader(_not_empty)]
_KeyFile = Annotated[File, Reader(_not_empty)]


class BatchLimits(Section):
    """Bounds of atomic batches (Nats-Batch-Id). 0: the default."""

    max_inflight_per_stream: Number = option(
        50, "How many atomic batches may be open in a stream?", takes=Takes.LIVE, ge=0
    )
    max_inflight_total: Number = option(1000, "How many in all streams together?", takes=Takes.LIVE, ge=0)
    max_msgs: Number = option(1000, "How many messages may an atomic batch have?", takes=Takes.LIVE, ge=0)
    timeout: Duration = option(10_000_000_000, "A batch that gets no message for so long is dropped.", takes=Takes.LIVE)


class ServerLimits(Section):
    """Bounds for what clients may ask of JetStream."""

    max_ack_pending: Number = option(
        0, "The highest max_ack_pending that a consumer may have. 0: any.", takes=Takes.LIVE
    )
    max_request_batch: Number = option(
        0, "The largest batch that a pull request may ask for. 0: any.", takes=Takes.LIVE
    )
    duplicate_window: Duration = option(
        0, "The longest duplicate window that a stream may have. 0: any.", takes=Takes.LIVE
    )
    default_max_consumers: Number = option(
        0,
        "How many consumers may a stream have where neither it nor its account sets a limit? 0 or -1: any number "
        "(nats-server: 1000).",
        takes=Takes.LIVE,
    )
    max_ha_assets: Number = option(
        0,
        "How many streams may a server keep together with others? What the leader of all servers has here counts, for "
        "each of them. A consumer is no group of its own and is not counted. 0: any number.",
        takes=Takes.LIVE,
    )
    batch: BatchLimits = option(BatchLimits, "Atomic batches.")


def _sync(value: object) -> object:
    if isinstance(value, str) and value.lower() == "always":
        return 0
    return parse_duration(value)


def _cipher(value: object) -> object:
    known = {"chacha": "chacha", "chachapoly": "chacha", "aes": "aes"}
    if not isinstance(value, str) or value.lower() not in known:
        raise ValueError(f"chacha or aes is expected, not {shown(value)}")
    return known[value.lower()]


def _tag(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError(f"a text is expected, not {shown(value)}")
    return value.strip().lower()


class JetStream(Section):
    """The server's jetstream block."""

    enabled: Flag = option(True, "Serve streams and consumers at all.", aliases=("enable",))
    store_dir: Text = option(
        "",
        "The directory of the streams. The server's files are in jetstream/ below it.",
        aliases=("storedir", "store"),
    )
    max_memory_store: StorageSize | None = option(
        None,
        "How many bytes may all memory streams hold together? Absent or -1: three quarters of the memory.",
        aliases=("max_mem_store", "max_mem"),
        takes=Takes.LATER,
    )
    max_file_store: StorageSize | None = option(
        None,
        "How many bytes may the store take on the disk, its journal included? Absent or -1: three "
        "quarters of what is free there or already the store's.",
        aliases=("max_file",),
        takes=Takes.LATER,
    )
    domain: Text = option(
        "",
        "The name by which clients reach these streams from beyond a leaf link: $JS.<domain>.API. "
        "Leaf and hub need different domains.",
    )
    sync_interval: Annotated[int | None, Reader(_sync)] = option(
        None,
        'When is a message on disk? Absent or "always": before it is acknowledged. A duration: the '
        "disk is synced that often, and a power cut loses up to that much of what was acknowledged.",
        aliases=("sync",),
    )
    strict: Flag = option(True, "Are API requests with unknown fields refused?", takes=Takes.LIVE)
    limits: ServerLimits = option(ServerLimits, "The most that clients may ask for.")
    key: _Key = option(
        "",
        "Encrypts the store with this key; better $NAME of a credential or of the environment, or key_file, than the "
        "key itself.",
        aliases=("ek", "encryption_key"),
    )
    key_file: _KeyFile = option("", "A file with the key, in place of key.", example='"store-key"')
    prev_key: _Key = option(
        "",
        "The key before a change of key: what it encrypted is encrypted anew.",
        aliases=("prev_ek", "prev_encryption_key"),
    )
    prev_key_file: _KeyFile = option("", "A file with that key, as key_file.")
    cipher: Annotated[str, Reader(_cipher)] = option("chacha", "How the store is encrypted: chacha or aes.")
    meta_size: Number = option(
        0,
        "How many servers with JetStream, of this cluster and of those that gateways lead to, found the group that "
        "knows all streams? Each stream is on one of them and is reached from all. The same on each of the servers. "
        "0: as many as routes and gateways name, this server among them.",
        ge=0,
        le=9,
        example="3",
    )
    tpm: Any = later(_REFUSE_TPM, refuse=True)
    unique_tag: Annotated[str, Reader(_tag)] = option(
        "",
        "How a tag of server_tags begins that tells servers apart: one stream's replicas are on servers with different "
        "ones, and none is on a server without. What the leader of all servers has here counts.",
        takes=Takes.LIVE,
        example='"az:"',
    )
    extension_hint: Any = later("the JetStream of a leaf is never a part of its hub's", refuse=False)
    max_outstanding_catchup: Any = later("who gets a copy asks for each part of it", refuse=False)
    max_buffered_size: Any = later(_QUEUES, refuse=False)
    max_buffered_msgs: Any = later(_QUEUES, refuse=False)
    request_queue_limit: Any = later(_QUEUES, refuse=False)
    info_queue_limit: Any = later(_QUEUES, refuse=False)
    meta_compact: Any = later(_COMPACT, refuse=False)
    meta_compact_size: Any = later(_COMPACT, refuse=False)
    meta_compact_sync: Any = later(_COMPACT, refuse=False)
    max_concurrent_io: Any = later(_QUEUES, refuse=False)

    def check(self) -> None:
        if self.key and self.key_file:
            raise ValueError("key and key_file are two ways to give the same key: keep one")
        if self.prev_key and self.prev_key_file:
            raise ValueError("prev_key and prev_key_file are two ways to give the same key: keep one")
        if (self.prev_key or self.prev_key_file) and not (self.key or self.key_file):
            raise ValueError("prev_key is the key before a change of key: the new one is missing")


class AccountJetStream(Section):
    """An account's share of JetStream; -1: no limit."""

    max_memory: StorageSize = option(
        -1,
        "How many bytes may the account's memory streams hold? -1: no limit.",
        aliases=("max_mem", "mem", "memory"),
        takes=Takes.LIVE,
    )
    max_store: StorageSize = option(
        -1,
        "How many bytes may the account's file streams hold? -1: no limit.",
        aliases=("max_file", "max_disk", "store", "disk"),
        takes=Takes.LIVE,
    )
    max_streams: Number = option(
        -1, "How many streams may the account have? -1: no limit.", aliases=("streams",), takes=Takes.LIVE
    )
    max_consumers: Number = option(
        -1, "How many consumers may each stream have? -1: no limit.", aliases=("consumers",), takes=Takes.LIVE
    )
    max_bytes_required: Flag = option(
        False, "Must each stream be made with max_bytes?", aliases=("max_stream_bytes", "max_bytes"), takes=Takes.LIVE
    )
    mem_max_stream_bytes: StorageSize = option(
        -1,
        "How large may max_bytes of one memory stream be? -1: any size.",
        aliases=("memory_max_stream_bytes",),
        takes=Takes.LIVE,
    )
    disk_max_stream_bytes: StorageSize = option(
        -1,
        "How large may max_bytes of one file stream be? -1: any size.",
        aliases=("store_max_stream_bytes",),
        takes=Takes.LIVE,
    )
    max_ack_pending: Number = option(
        -1, "How many messages may a consumer leave unacknowledged at a time? -1: any number.", takes=Takes.LIVE
    )
    cluster_traffic: Any = later("what servers agree on travels in no account", refuse=False)


def check_together(server: JetStream | None, shares: Iterable[AccountJetStream | None]) -> None:
    """Refuses limits of accounts that come together to more than a limit that the server sets itself: each would
    promise an account room that another one can take. nats-server does not start with them (10047, 10028)."""
    if server is None or not server.enabled:
        return
    having = [one for one in shares if one is not None]
    for key, whole, parts in (
        ("max_file_store", server.max_file_store, [one.max_store for one in having]),
        ("max_memory_store", server.max_memory_store, [one.max_memory for one in having]),
    ):
        together = sum(part for part in parts if part > 0)
        if whole is not None and 0 <= whole < together:
            raise ValueError(
                f"jetstream {key} is {whole}, and the limits of the accounts come together to {together} bytes: "
                "raise it, or lower those"
            )


def switch(value: object) -> object:
    """enabled, disabled, true, false or a map, for both blocks: a map or None."""
    if value is True or (isinstance(value, str) and value.lower() in ("enabled", "enable")):
        return {}
    if value is False or (isinstance(value, str) and value.lower() in ("disabled", "disable")):
        return None
    if isinstance(value, str):
        raise ValueError(f"enabled or disabled is expected, not {shown(value)}")
    return value
