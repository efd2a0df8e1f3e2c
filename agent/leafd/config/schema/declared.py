"""The JetStream assets that an account declares: four maps, of which only the names matter here.

Not here: the keys of a stream, a consumer or a bucket, which are those of the JetStream API
(leafd/declared).
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from leafd.config.schema.section import AS_WRITTEN, Takes, option

AsWritten = Annotated[dict[str, Any], AS_WRITTEN]
KINDS: Final = ("streams", "consumers", "kv", "objects")
_WHERE: Final = " Below accounts: of that account; at the top: of the account $G."

STREAMS: Final = option(
    {},
    "Streams that are made and kept as they are written here: { NAME { keys of the file that `nats stream add --config`"
    ' takes } }. Times may also be texts as "24h", sizes 10GB. Two more keys: remove: true removes the stream,'
    " allow_data_loss: true lets a change evict messages." + _WHERE,
    takes=Takes.LIVE,
    example='{ ORDERS { subjects: ["orders.>"], max_age: "24h" } }',
)
CONSUMERS: Final = option(
    {},
    "Durable consumers, by stream and name: { STREAM { NAME { keys of the file that `nats consumer add --config`"
    " takes } } }; remove and allow_data_loss as above." + _WHERE,
    takes=Takes.LIVE,
    example="{ ORDERS { worker { ack_policy: explicit } } }",
)
KV: Final = option(
    {},
    "Key-value buckets: { NAME { description, history, storage, ttl, marker_ttl, replicas, max_value_size,"
    " max_bucket_size, tags, cluster, compress, metadata, republish { src, dest, headers_only }, mirror, mirror_domain,"
    " sources } }, as `nats kv add` has them; remove and allow_data_loss as above." + _WHERE,
    takes=Takes.LIVE,
    example="{ CONFIG { history: 5 } }",
)
OBJECTS: Final = option(
    {},
    "Buckets of objects: { NAME { description, storage, ttl, replicas, max_bucket_size, tags, cluster, compress,"
    " metadata } }, as `nats object add` has them; remove and allow_data_loss as above." + _WHERE,
    takes=Takes.LIVE,
    example="{ FILES { max_bucket_size: 1GB } }",
)
