"""The data source's options: names, defaults, bounds, and what each is for.

Parsed once, on the driver; executors get the frozen result by pickle. Option names are case-insensitive,
as everywhere in Spark, and follow the names of Spark's Kafka source where the meaning is the same.
Everything here is pure.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from .wire import Address, Login, parse_servers

EARLIEST = "earliest"
LATEST = "latest"

Place = str | int  # a word such as LATEST, or a sequence
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Options:
    """What a query wants of which stream."""

    addresses: tuple[Address, ...]
    login: Login
    api: str  # prefix of the JetStream API, without a dot at its end
    stream: str
    subject: str  # filter when reading, default target when writing; empty is none
    starting: Place  # EARLIEST, LATEST or a sequence
    starting_time: str  # RFC 3339; wins over `starting`
    ending: Place  # LATEST or a sequence, which is still read
    max_messages: int  # a trigger; 0 is no limit
    max_bytes: int  # a trigger; 0 is no limit
    partitions: int
    partition_rows_min: int  # do not split a range into pieces smaller than this
    fetch_messages: int
    fetch_bytes: int
    fail_on_data_loss: bool
    include_headers: bool
    timeout: float  # of one answer, in seconds
    retry: float  # for how long to dial anew without having got on, in seconds
    message_id_column: str
    dead_letter_subject: str  # where rows go that cannot be published; empty: they end the task
    write_id: str  # names a batch write, so that the same write made again publishes nothing twice
    in_flight: int  # publishes that may await their acknowledgement

    def subject_of(self, endpoint: str) -> str:
        return f"{self.api}.{endpoint}"


class _Reader:
    """Reads a case-insensitive mapping and remembers what nobody asked for."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        self._asked: set[str] = set()

    def text(self, name: str, default: str = "") -> str:
        self._asked.add(name.lower())
        return self._given.get(name.lower(), default)

    def parsed(self, name: str, default: Value, parse: Callable[[str], Value], wanted: str) -> Value:
        text = self.text(name)
        if text == "":
            return default
        try:
            return parse(text)
        except ValueError:
            raise ValueError(f"option {name} is {text!r}, but must be {wanted}") from None

    def unknown(self) -> list[str]:
        # Spark adds options of its own, all of which it names so.
        ours = ("path", "header", "checkpointlocation")
        return sorted(n for n in self._given if n not in self._asked and n not in ours and not n.startswith("spark."))


def _positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise ValueError
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if value <= 0:
        raise ValueError
    return value


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def _sequence(*words: str) -> Callable[[str], Place]:
    def parse(text: str) -> Place:
        return text.lower() if text.lower() in words else _positive(text)

    return parse


def _time(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError
    return text


def _name(text: str) -> str:
    if not text or set(text) & set(" .*>/\\\t\r\n"):
        raise ValueError
    return text


def _api_prefix(reader: _Reader) -> str:
    domain = reader.parsed("domain", "", _name, "a JetStream domain's name")
    prefix = reader.text("apiPrefix").rstrip(".")
    if domain and prefix:
        raise ValueError("options domain and apiPrefix exclude each other")
    return prefix or (f"$JS.{domain}.API" if domain else "$JS.API")


def parse_options(given: Mapping[str, str], *, writing: bool = False) -> Options:
    """Options as the user gave them, checked; a ValueError says what is wrong and what is wanted."""
    reader = _Reader(given)
    servers = reader.text("servers") or reader.text("url") or "nats://127.0.0.1:4222"
    reader.text("url"), reader.text("idColumn")
    stream = reader.parsed("stream", "", _name, "the name of a stream")
    if not stream and not writing:
        raise ValueError("option stream is missing: which stream is to be read?")
    start_words, end_words = _sequence(EARLIEST, LATEST), _sequence(LATEST)
    starting: Place = EARLIEST
    ending: Place = LATEST
    options = Options(
        addresses=parse_servers(servers),
        login=Login(reader.text("user"), reader.text("password"), reader.text("token")),
        api=_api_prefix(reader),
        stream=stream,
        subject=reader.text("subject"),
        starting=reader.parsed("startingSequence", starting, start_words, "earliest, latest or a sequence"),
        starting_time=reader.parsed("startingTime", "", _time, "a time such as 2026-01-31T00:00:00Z"),
        ending=reader.parsed("endingSequence", ending, end_words, "latest or a sequence"),
        max_messages=reader.parsed("maxMessagesPerTrigger", 0, _positive, "a positive number"),
        max_bytes=reader.parsed("maxBytesPerTrigger", 0, _positive, "a positive number"),
        partitions=reader.parsed("numPartitions", os.cpu_count() or 1, _positive, "a positive number"),
        partition_rows_min=reader.parsed("minPartitionMessages", 10_000, _positive, "a positive number"),
        fetch_messages=reader.parsed("fetchMessages", 16_384, _positive, "a positive number"),
        fetch_bytes=reader.parsed("fetchBytes", 8 << 20, _positive, "a positive number"),
        fail_on_data_loss=reader.parsed("failOnDataLoss", True, _truth, "true or false"),
        include_headers=reader.parsed("includeHeaders", True, _truth, "true or false"),
        timeout=reader.parsed("timeoutSeconds", 10.0, _seconds, "a positive number"),
        retry=reader.parsed("retrySeconds", 60.0, _seconds, "a positive number"),
        message_id_column=reader.text("messageIdColumn") or reader.text("idColumn"),
        dead_letter_subject=reader.text("deadLetterSubject"),
        write_id=reader.text("writeId"),
        in_flight=reader.parsed("maxInFlight", 4096, _positive, "a positive number"),
    )
    if unknown := reader.unknown():
        raise ValueError(f"no such option: {', '.join(unknown)}")
    return options
