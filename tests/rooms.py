"""The rooms of the tree: which may use which, and who owns a foreign library. tests/tidy.py judges by these tables.

Not here: the rules that read them, and all that is not about rooms (tidy.py).
"""

from __future__ import annotations

# C: the rooms that a room may include, beside itself and abi.h.
C_ROOMS: dict[str, set[str]] = {
    "base": set(),
    "text": {"base"},
    "net": {"base", "text"},
    "wire": {"base", "text"},
    "mqtt": {"base", "text"},
    "sessions": {"base", "text", "mqtt"},
    "raft": {"base"},
    "group": {"base", "raft", "store"},
    "route": {"base", "text"},
    "arrow": {"base", "text"},
    "disk": {"base", "text"},
    "store": {"base", "text", "disk"},
    "recovery": {"base", "text", "disk", "store"},
    "consume": {"base", "text", "store"},
    "exchange": {"base", "text"},
    "jetstream": {"base", "text", "wire", "store", "recovery", "consume", "exchange", "raft", "group"},
    "plane": {"base", "text", "net", "wire", "route", "store", "consume", "exchange", "jetstream"},
    "verbs": {"base", "text", "net", "route", "wire", "exchange", "plane", "mqtt", "sessions"},
    "meta": {"base", "net", "store", "exchange", "jetstream", "plane", "raft", "group"},
    "command": {"base", "text", "net", "wire", "route", "store", "exchange", "jetstream", "plane", "meta"},
    "driver": {
        *("base", "text", "net", "wire", "store", "consume", "exchange", "jetstream", "plane", "verbs", "command"),
        "meta",
    },
}
# A foreign library and the C files that know it, as patterns of names.
C_OWNERS = {
    "openssl": ("native/net/tls*", "native/disk/cipher.c"),
    "zlib.h": ("native/net/websocket_deflate.c",),
    "lmdb.h": ("native/disk/env_lmdb.h",),
}

# Python: a room may import rooms of a lower rank, never of its own or a higher one (but itself).
PYTHON_RANKS = {
    **dict.fromkeys(
        ("certificates", "errors", "fair", "gotime", "guard", "operator_log", "turns", "holding", "web_head"), 0
    ),
    **dict.fromkeys(("quoting", "group_status", "versions", "native", "hostnames", "copies"), 0),
    "gojson": 2,
    "gosyntax": 1,
    "status": 1,
    "records": -1,
    "config": 1,
    **{f"native_{name}": 1 for name in ("codes", "comers", "allowance", "authors", "ingests", "latency")},
    **{f"native_{name}": 1 for name in ("mqtt", "rows", "stats", "traces", "transports")},
    **{f"native_{name}": 5 for name in ("accounts", "connections", "consumers", "streams", "usage", "servers")},
    "native_functions": 4,
    "native_types": 2,
    "native_packing": 3,
    "native_store": 4,
    "native_meta": 4,
    "native_submits": 4,
    "native_commands": 6,
    "native_plane": 7,
    "auth": 3,
    "host": 3,
    "accounts": 4,
    "cluster": 4,
    "enrol": 4,
    "jetstream": 8,
    "links": 8,
    "monitor": 8,
    "declared": 9,
    "logins": 10,
    "daemon": 11,
    "__main__": 12,
    "__init__": 0,
}
# Rooms that stand apart, and all that they may know of leafd.
PYTHON_APART: dict[str, set[str]] = {
    "wire_client": set(),
    # (Of the C side only what looks at a store as files.)
    "cli": {
        *("errors", "config", "records", "quoting", "auth", "copies", "status", "group_status", "doctor", "enrol"),
        *("native", "native_packing", "native_store", "native_types"),
    },
    # (Of links/ the addresses, the request of WebSocket and how a connection to a hub is made.)
    "doctor": {
        *("errors", "config", "records", "quoting", "auth", "certificates", "copies", "links", "status", "web_head"),
        *("group_status", "wire_client"),
    },
}
# The package for Spark: what its rooms may know of each other (its other files are what they share), and of leafd.
SPARK_ROOMS: dict[str, set[str]] = {
    "source": set(),
    "sink": set(),
    "jobs": {"source", "datasource"},
    "datasource": {"source", "sink"},
}
SPARK_KNOWS = {"wire_client", "auth"}
# Rooms that decide without a plane: they must stay testable without the C extension.
PYTHON_PURE = {"config", "auth", "accounts"}
# A foreign library and the one module that knows it.
PYTHON_OWNERS = {"cffi": "agent/leafd/native.py", "_cffi_backend": "agent/leafd/native.py"}
NATIVE_OWNER = "agent/leafd/native.py"

# Where LMDB is read, and the store, and where answers of theirs come to.
READING_ROOMS = (
    *("disk", "store", "recovery", "consume", "group", "meta"),
    *("jetstream", "sessions", "mqtt", "plane", "verbs", "driver"),
)
# Who is asked to do something to one thing, and answers that it is not there; by a switch over how it was looked for.
DOERS = {
    "native/store/purge.c": "a message is deleted",
    "native/store/fill.c": "a hole is filled",
    "native/group/replica.c": "a message is deleted",
    "native/meta/meta.c": "a leader is to be another one; without JetStream there is none",
    "native/jetstream/append.c": "a subject is transformed, where it matches",
    "native/jetstream/binding.c": "a consumer is asked for its state, and has gone",
    "native/jetstream/binding_import.c": "a consumer is to stand elsewhere, and has gone",
    "native/jetstream/ingest_life.c": "a copy is asked how far it is, and there is none",
    "native/jetstream/jobs.c": "a job ends, since its stream goes",
    "native/jetstream/replicated.c": "a message is deleted; a group is joined",
    "native/jetstream/stream_jobs.c": "a message is asked for, and control is told",
    "native/plane/import.c": "an account is to import of another, which has gone",
    "native/plane/mapping.c": "a subject is mapped, where it matches",
    "native/plane/shadow.c": "two patterns have something in common, or nothing",
}
