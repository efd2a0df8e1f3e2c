"""Rows of what applications do beyond publishing to one reader: many readers, large messages, keys and values, direct
gets, fetches, filters, many subjects, streams, consumers and connections, atomic batches.

All are held to the same: 1.3 times nats-server's rate, 0.4 of its processor time, not more of the memory that the
kernel cannot take back, and no longer answers in the worst of 1,000 cases. Not here: how a server is
measured (rows.py), the rows of the main paths (rows.py, links.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from tests.bench.process import Api, Process, api
from tests.bench.rows import (
    DEFAULT,
    LEAFD,
    PLAIN,
    SIZE,
    STREAM,
    Figures,
    Goal,
    Row,
    Variant,
    expect_stored,
    fresh_each_time,
    hold_idle,
    load,
    make_stream,
    stream_config,
)

Opened = Callable[[Variant, bool], contextlib.AbstractContextManager[Callable[[], Figures]]]
BUCKET = "KV_BENCH"
KEYS = 10_000
IN_FLIGHT = 500
MANY = 1_000

RATE = (
    Goal("rate", "a second", 1.3),
    Goal("cpu_us", "us CPU each", 0.4, at_most=True),
    Goal("private_peak_mb", "MB private", 1.0, at_most=True),
)
ANSWERED = (*RATE, Goal("p999_us", "us, 99.9 %", 1.0, at_most=True))


def plain(scenario: str, messages: int, **options: object) -> Opened:
    """A scenario that needs nothing made before."""

    def opened(variant: Variant, quick: bool) -> contextlib.AbstractContextManager[Callable[[], Figures]]:
        count = messages // 10 if quick else messages
        return fresh_each_time(variant, lambda process: load(process, scenario, count, **options))

    return opened


def prepared(
    prepare: Callable[[Process, bool], None], messages: int, scenario: str = "ask", **options: object
) -> Opened:
    """A scenario on a new server, when `prepare` has made what it needs."""

    def opened(variant: Variant, quick: bool) -> contextlib.AbstractContextManager[Callable[[], Figures]]:
        count = messages // 10 if quick else messages

        def measure(process: Process) -> Figures:
            prepare(process, quick)
            return load(process, scenario, count, **options)

        return fresh_each_time(variant, measure)

    return opened


def publish(size: int, messages: int) -> Opened:
    """Into a stream, all of it stored in the end."""

    def opened(variant: Variant, quick: bool) -> contextlib.AbstractContextManager[Callable[[], Figures]]:
        count = messages // 10 if quick else messages

        def measure(process: Process) -> Figures:
            make_stream(process)
            figures = load(process, "ask", count, subject="bench.1", size=size, in_flight=IN_FLIGHT)
            expect_stored(process, count)
            return figures

        return fresh_each_time(variant, measure)

    return opened


def atomic(messages: int) -> Opened:
    """In batches, each of which is stored whole or not at all; all of them in the end."""

    def opened(variant: Variant, quick: bool) -> contextlib.AbstractContextManager[Callable[[], Figures]]:
        count = messages // 10 if quick else messages

        def measure(process: Process) -> Figures:
            with api(process) as connection:
                connection.must(f"$JS.API.STREAM.CREATE.{STREAM}", stream_config() | {"allow_atomic": True})
            figures = load(process, "batch", count, subject="bench.1", size=SIZE, batch=100, in_flight=4)
            expect_stored(process, count)
            return figures

        return fresh_each_time(variant, measure)

    return opened


def a_stream(process: Process, quick: bool) -> None:
    make_stream(process)


def a_bucket(process: Process, quick: bool) -> None:
    """As the clients' key-value buckets: one value a key."""
    config = stream_config(BUCKET, "$KV.BENCH.>") | {
        "max_msgs_per_subject": 1,
        "discard": "new",
        "allow_rollup_hdrs": True,
        "deny_delete": True,
    }
    with api(process) as connection:
        connection.must(f"$JS.API.STREAM.CREATE.{BUCKET}", config)


def a_full_bucket(process: Process, quick: bool) -> None:
    a_bucket(process, quick)
    load(process, "ask", KEYS, subject="$KV.BENCH.key", subjects=KEYS, size=SIZE, in_flight=IN_FLIGHT)


def a_full_stream(messages: int) -> Callable[[Process, bool], None]:
    """Its subjects are bench.m.0 to bench.m.999, in turn."""

    def prepare(process: Process, quick: bool) -> None:
        make_stream(process)
        count = messages // 10 if quick else messages
        load(process, "ask", count, subject="bench.m", subjects=MANY, size=SIZE, in_flight=1000)
        expect_stored(process, count)

    return prepare


def durable(connection: Api, name: str, **more: object) -> None:
    config = {"durable_name": name, "name": name, "deliver_policy": "all", "ack_policy": "explicit"} | more
    connection.must(f"$JS.API.CONSUMER.CREATE.{STREAM}.{name}", {"stream_name": STREAM, "config": config})


def with_consumer(fill: Callable[[Process, bool], None], **more: object) -> Callable[[Process, bool], None]:
    def prepare(process: Process, quick: bool) -> None:
        fill(process, quick)
        with api(process) as connection:
            durable(connection, "C", max_ack_pending=10_000, **more)

    return prepare


def many_streams(process: Process, quick: bool) -> None:
    with api(process) as connection:
        for number in range(MANY):
            config = stream_config(f"S{number}", f"bench.{number}")
            connection.must(f"$JS.API.STREAM.CREATE.S{number}", config)


def many_consumers(process: Process, quick: bool) -> None:
    """Each with a subject of its own, so that each message is one consumer's."""
    make_stream(process)
    with api(process) as connection:
        for number in range(MANY):
            durable(connection, f"C{number}", filter_subject=f"bench.{number}")


@contextlib.contextmanager
def idle(variant: Variant, quick: bool) -> Iterator[Callable[[], Figures]]:
    """10,000 connections that have logged in and do nothing."""
    count = 1_000 if quick else 10_000
    with fresh_each_time(variant, lambda process: hold_idle(process, count), PLAIN) as once:
        yield once


def row(name: str, title: str, opened: Opened, goals: tuple[Goal, ...] = ANSWERED) -> Row:
    return Row(name, title, (LEAFD, DEFAULT), goals, opened)


WIDE_ROWS = (
    row("fan-8", "core publish to 8 subscribers", plain("fan", 1_000_000, size=SIZE, connections=8), RATE),
    row("queue-8", "core publish to a queue group of 8", plain("queue", 2_000_000, size=SIZE, connections=8), RATE),
    row("core-1k", "core publish to one subscriber, 1 KB", plain("core", 1_000_000, size=1024), RATE),
    row("core-16k", "core publish to one subscriber, 16 KB", plain("core", 200_000, size=16_384), RATE),
    row("publish-1k", "JetStream publish, 1 KB, 500 in flight", publish(1024, 200_000)),
    row("publish-16k", "JetStream publish, 16 KB, 500 in flight", publish(16_384, 40_000)),
    row(
        "kv-put",
        "keys put, 10,000 of them, 500 in flight",
        prepared(a_bucket, 200_000, subject="$KV.BENCH.key", subjects=KEYS, size=SIZE, in_flight=IN_FLIGHT),
    ),
    row(
        "kv-get",
        "keys got (direct get of the last message of a subject), 500 in flight",
        prepared(
            a_full_bucket,
            200_000,
            subject=f"$JS.API.DIRECT.GET.{BUCKET}.$KV.BENCH.key",
            subjects=KEYS,
            size=0,
            in_flight=IN_FLIGHT,
        ),
    ),
    row(
        "kv-get-1",
        "keys got, one at a time",
        prepared(a_full_bucket, 20_000, subject=f"$JS.API.DIRECT.GET.{BUCKET}.$KV.BENCH.key", subjects=KEYS, size=0),
    ),
    row(
        "fetch-500",
        "fetches of 500, one after the other, every message acked",
        prepared(with_consumer(a_full_stream(500_000)), 500_000, "fetch", stream=STREAM, consumer="C", batch=500),
    ),
    row(
        "filtered",
        "a consumer of one message in 1,000, of 1,000,000",
        prepared(
            with_consumer(a_full_stream(1_000_000), filter_subject="bench.m.7"),
            1_000,
            "fetch",
            stream=STREAM,
            consumer="C",
            batch=10,
        ),
    ),
    row(
        "subjects-100k",
        "JetStream publish to 100,000 subjects, 500 in flight",
        prepared(a_stream, 200_000, subject="bench.s", subjects=100_000, size=SIZE, in_flight=IN_FLIGHT),
    ),
    row(
        "subjects-1m",
        "JetStream publish to 1,000,000 subjects, 500 in flight",
        prepared(a_stream, 1_000_000, subject="bench.s", subjects=1_000_000, size=SIZE, in_flight=IN_FLIGHT),
    ),
    row(
        "streams-1000",
        "JetStream publish into 1,000 streams in turn, 500 in flight",
        prepared(many_streams, 200_000, subject="bench", subjects=MANY, size=SIZE, in_flight=IN_FLIGHT),
    ),
    row(
        "consumers-1000",
        "JetStream publish into a stream with 1,000 consumers, 500 in flight",
        prepared(many_consumers, 200_000, subject="bench", subjects=MANY, size=SIZE, in_flight=IN_FLIGHT),
    ),
    row(
        "idle-10k",
        "10,000 idle connections",
        idle,
        (Goal("private_mb", "MB private", 1.0, at_most=True), Goal("each_kb", "KB each", 1.0, at_most=True)),
    ),
    row("atomic-100", "atomic batches of 100 messages, 4 in flight, nothing synced by nats-server", atomic(200_000)),
    row(
        "ask-16x1",
        "JetStream publish, 16 clients, one in flight each, nothing synced by nats-server",
        prepared(a_stream, 32_000, subject="bench.1", size=SIZE, connections=16),
    ),
)
