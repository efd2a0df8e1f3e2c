"""The streams of a JetStream in another process: from a store's records, or from a daemon's report. Not here: reading
the files or the pages (leafd/cli)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from leafd.declared.steps import PresentStream, told_stream
from leafd.gojson import JsonError, decode
from leafd.gotime import TimeError
from leafd.jetstream.catalogue import read_consumer, read_stream
from leafd.jetstream.models.consumer import ConsumerConfig
from leafd.jetstream.models.stream import StreamConfig
from leafd.jetstream.rules.versioning import static_consumer, static_stream
from leafd.native_store import STATE, StreamState, stream_state
from leafd.native_types import Record

REPORT: Final = "/jsz?config=true&consumers=true"
_Streams = dict[str, dict[str, PresentStream]]
"""By account and name."""


def of_records(records: Iterable[tuple[int, bytes, bytes]]) -> _Streams:
    """The streams of a store's records (native_store.Look.records()). What cannot be read is left out, as a start
    leaves it unserved."""
    states: dict[int, StreamState] = {}
    streams: dict[int, tuple[str, StreamConfig]] = {}
    consumers: dict[int, dict[str, ConsumerConfig]] = {}
    for kind, key, value in records:
        stream = int.from_bytes(key[:4])
        try:
            if kind == STATE:
                states[stream] = stream_state(value)
            elif kind == Record.STREAM:
                account, _, config = read_stream(value)
                streams[stream] = account, config
            elif kind == Record.CONSUMER:
                name, _, consumer = read_consumer(value)
                consumers.setdefault(stream, {})[name] = consumer
        except (JsonError, TimeError, LookupError, TypeError, ValueError):
            continue
    found: _Streams = {}
    for stream, (account, config) in streams.items():
        state = states.get(stream) or StreamState(1, 0, 0, 0, 0, 0)
        found.setdefault(account, {})[config.name] = PresentStream(
            config, state.messages, state.bytes, state.subjects, None, consumers.get(stream, {})
        )
    return found


def of_report(report: dict[str, Any]) -> _Streams:
    """The streams of the daemon that answered REPORT."""
    found: _Streams = {}
    for account in report.get("account_details") or ():
        for stream in account.get("stream_detail") or ():
            state = stream.get("state") or {}
            config = static_stream(decode(StreamConfig, json.dumps(stream["config"]).encode(), strict=False))
            consumers = {
                one["name"]: static_consumer(decode(ConsumerConfig, json.dumps(one["config"]).encode(), strict=False))
                for one in stream.get("consumer_detail") or ()
            }
            found.setdefault(account["name"], {})[config.name] = told_stream(config, state, consumers)
    return found
