"""The columns of a stream's messages: their types, and how a record batch is put together from them.

Here: the schema, in Spark's words and in Arrow's; the columns that are the same in every row, or that
follow from others (where a sourced message came from); text that is not UTF-8. Not here: how columns are cut out of
received bytes (`batches`).

A message that its stream sourced from another one carries the header

    Nats-Stream-Source: <name>[:<hash of the API prefix>] <sequence> <filter> <destination> <subject> [<identity>]

which gives `origin_stream` and `origin_sequence`. The hash stands for the prefix with which the stream was reached,
such as $JS.box-0001.API; the stream's configuration names the prefixes, so `Origins` finds the domain of each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

COLUMNS = (
    "stream string, domain string, subject string, sequence bigint, timestamp timestamp, timestamp_ns bigint, "
    "headers array<struct<key string, value binary>>, data binary, "
    "origin_stream string, origin_domain string, origin_sequence bigint"
)
"""The schema in Spark's words; ARROW_SCHEMA says the same in Arrow's."""

FIELD_TYPE = pa.struct([("key", pa.string()), ("value", pa.binary())])
HEADERS_TYPE = pa.list_(pa.field("element", FIELD_TYPE))
TIMESTAMP_TYPE = pa.timestamp("us", tz="UTC")
ARROW_SCHEMA = pa.schema(
    [
        ("stream", pa.string()),
        ("domain", pa.string()),
        ("subject", pa.string()),
        ("sequence", pa.int64()),
        ("timestamp", TIMESTAMP_TYPE),
        ("timestamp_ns", pa.int64()),
        ("headers", HEADERS_TYPE),
        ("data", pa.binary()),
        ("origin_stream", pa.string()),
        ("origin_domain", pa.string()),
        ("origin_sequence", pa.int64()),
    ]
)

SOURCE_HEADER = b"Nats-Stream-Source"
API_DOMAIN_PARTS = 3  # of $JS.<domain>.API
HASH_SIZE = 8
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Rows:
    """A record batch and its sequences again, as numpy, for those who look for gaps."""

    batch: Any  # pyarrow.RecordBatch; pyarrow ships no types
    sequences: Any  # numpy int64


@dataclass(frozen=True, slots=True)
class Origins:
    """The domains behind the hashes of API prefixes that a stream's sources have."""

    domains: Mapping[str, str]

    @staticmethod
    def of(sources: Iterable[Mapping[str, Any]]) -> Origins:
        """From the sources of a stream's configuration."""
        prefixes = [str((source.get("external") or {}).get("api", "")) for source in sources]
        return Origins({short_hash(prefix): domain_of(prefix) for prefix in prefixes if domain_of(prefix)})


@dataclass(frozen=True, slots=True)
class Place:
    """The values that all rows of a read share."""

    stream: str
    domain: str = ""  # empty: none, or not known
    origins: Origins = Origins({})


@dataclass(slots=True)
class Parts:
    """A batch's columns as they were cut, all of the same length."""

    sequence: Any  # int64
    nanoseconds: Any  # int64, since 1970
    subject: Any  # binary or string
    headers: Any  # HEADERS_TYPE
    data: Any  # binary
    origin_stream: Any = None  # binary or string, null where a message was not sourced; None: none was
    origin_api: Any = None  # the hash of the prefix, empty without one
    origin_sequence: Any = None


def short_hash(text: str) -> str:
    """The servers' short name for a longer one: 8 bytes of SHA-256 in base 62."""
    return "".join(ALPHABET[byte % 62] for byte in hashlib.sha256(text.encode()).digest()[:HASH_SIZE])


def domain_of(prefix: str) -> str:
    """The domain in `$JS.<domain>.API`; empty when the prefix is of another shape."""
    parts = prefix.split(".")
    return parts[1] if len(parts) == API_DOMAIN_PARTS and parts[0] == "$JS" and parts[2] == "API" else ""


def no_headers(count: int) -> Any:
    """A headers column without any."""
    offsets = pa.array(np.zeros(count + 1, np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array([], FIELD_TYPE), type=HEADERS_TYPE)


def headers_of(offsets: Any, keys: Any, values: Any) -> Any:
    """A headers column from all rows' names and values, and where each row's begin."""
    fields = pa.StructArray.from_arrays([as_text(keys), values], fields=list(FIELD_TYPE))
    return pa.ListArray.from_arrays(offsets, fields, type=HEADERS_TYPE)


def as_text(column: Any) -> Any:
    """A column of strings, which Spark wants in UTF-8: what is not is replaced, byte by byte as Python does it."""
    if column.type == pa.string():
        return column
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if text is None else text.decode(errors="replace") for text in column.to_pylist()]
        return pa.array(texts, pa.string())


def source_of(value: bytes) -> tuple[bytes, bytes, int] | None:
    """Name, hash of the API prefix and sequence that a Nats-Stream-Source says; None if it is of another shape."""
    words = value.split(b" ")
    if len(words) < 2 or not words[1].isdigit() or len(words[1]) > len(str(2**63)) - 1 or int(words[1]) >= 2**63:
        return None
    name, _, rest = words[0].partition(b":")
    api = rest.partition(b":")[0]
    return (name, b"" if api.startswith(b"C=") else api, int(words[1])) if name else None


def assemble(place: Place, parts: Parts) -> Rows:
    """The record batch of the columns that were cut, and of those that are the same in each row."""
    count = len(parts.sequence)
    nothing = pa.nulls(count, pa.string())
    domain = pa.repeat(pa.scalar(place.domain, pa.string()), count) if place.domain else nothing
    microseconds = pa.array(parts.nanoseconds.to_numpy() // 1000)  # downwards, before 1970 too
    origin = (nothing, nothing, pa.nulls(count, pa.int64()))
    if parts.origin_stream is not None:
        origin = (as_text(parts.origin_stream), _domains(place.origins, parts.origin_api), parts.origin_sequence)
    columns = [
        pa.repeat(pa.scalar(place.stream, pa.string()), count),
        domain,
        as_text(parts.subject),
        parts.sequence,
        microseconds.view(TIMESTAMP_TYPE),
        parts.nanoseconds,
        parts.headers,
        parts.data,
        *origin,
    ]
    return Rows(pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA), parts.sequence.to_numpy())


def _domains(origins: Origins, hashes: Any) -> Any:
    """The domain of each row's hash; null where it is not known."""
    encoded = hashes.dictionary_encode()
    names = [origins.domains.get((text or b"").decode(errors="replace")) for text in encoded.dictionary.to_pylist()]
    return pa.array(names, pa.string()).take(encoded.indices)
