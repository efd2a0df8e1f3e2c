"""The data source's options: names, defaults, where each is of use, and what it is for.

One table, OPTIONS, which the parser and the page of options (`option_page`) are made of. It is no pydantic model, as
the files of jobs are: executors import this module for the frozen result, and have what pyspark needs and no more.
Parsed once, on the driver; executors get the frozen result by pickle. Option names are case-insensitive, as everywhere
in Spark, and are those of Spark's Kafka source where the meaning is the same. How a value is read is `option_values`.
Everything here is pure.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from . import option_values as values
from .identity import Login
from .option_values import EARLIEST, LATEST, Place, Places, Times
from .wire import Address, parse_servers

__all__ = ["BATCH", "EARLIEST", "LATEST", "OPTIONS", "STREAM", "WRITE", "Options", "Place", "parse_options"]

# The uses of the data source.
BATCH = "batch"
STREAM = "streaming"
WRITE = "write"
READ = frozenset({BATCH, STREAM})
ALL = frozenset({BATCH, STREAM, WRITE})

POSITIVE = "a positive number"
TIME = "a time with its zone, such as 2026-01-31T00:00:00Z, or milliseconds since 1970"
UNKNOWN_PARALLELISM = 200  # as Spark's own spark.sql.shuffle.partitions
ROWS_MIN = 10_000
ROWS_MIN_UNKNOWN = 50_000  # where the number of cores is not known: pieces worth a task of their own


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    meaning: str
    parse: Callable[[str], Any] = str
    wanted: str = ""  # what a value must be
    default: Any = ""
    shown: str = ""  # the default in words, where the value says little
    uses: frozenset[str] = READ
    aliases: tuple[str, ...] = ()
    group: str = ""


def _positive(name: str, default: int, meaning: str, **more: Any) -> Option:
    return Option(name, meaning, values.positive, POSITIVE, default, **more)


_CONNECTION = (
    Option(
        "servers",
        "Where to connect, with commas between several: `nats://host:4222`, `tls://host`. A name and a password may "
        "stand before the host.",
        default="nats://127.0.0.1:4222",
        uses=ALL,
        aliases=("url",),
    ),
    Option("user", "The name of a user.", uses=ALL),
    Option("password", "The user's password.", uses=ALL),
    Option("token", "A token, where the server wants one.", uses=ALL),
    Option(
        "nkey",
        "An nkey's seed, or the file that has it. A file is looked for on the machine that dials, text travels with "
        "the query; this holds for the four options below too.",
        uses=ALL,
    ),
    Option("credentials", "A JWT and its seed as `nsc` writes them, or that file.", uses=ALL),
    Option("caFile", "Certificates to trust, in place of the system's.", uses=ALL),
    Option("certFile", "The client's certificate.", uses=ALL),
    Option("keyFile", "The certificate's key, where certFile does not hold it.", uses=ALL),
    Option(
        "domain", "The JetStream domain that the streams are in.", values.name, "a JetStream domain's name", uses=ALL
    ),
    Option("apiPrefix", "The prefix of the JetStream API, where an account imports it under another one.", uses=ALL),
    Option(
        "timeoutSeconds",
        "How long to wait for one answer.",
        values.seconds,
        POSITIVE,
        10.0,
        uses=ALL,
    ),
    Option(
        "retrySeconds",
        "How long to dial anew without having got on. What no retry can mend (a missing permission, a wrong password, "
        "a domain that is not there) ends the query at once.",
        values.seconds,
        POSITIVE,
        60.0,
        uses=ALL,
    ),
)
_WHICH = (
    Option(
        "stream",
        "The stream to read, or several with commas between them.",
        values.names,
        "names of streams with commas between them",
        (),
        uses=ALL,
    ),
    Option(
        "streamPattern",
        "A regular expression (Python's) that the whole name of a stream must match. Streams that appear later are "
        "found and read from their beginning.",
        values.pattern,
        "a regular expression",
    ),
    Option(
        "subject",
        "When reading: only messages of this subject, which may have wildcards. When writing: the subject of rows "
        "that have none.",
        values.subject_filter,
        "one subject such as s.3 or s.* (several: option subjects)",
        uses=ALL,
    ),
    Option(
        "subjects",
        "Only messages of these subjects, with commas between them; they must not overlap.",
        values.subject_filters,
        "subjects with commas between them",
        (),
    ),
)
_WHERE = (
    Option(
        "startingOffsets",
        "Where a query without a checkpoint begins: `earliest`, `latest`, a sequence, or JSON with one for each "
        'stream, `{"A": 101, "B": "earliest"}` (-2 is earliest, -1 latest). A query with a checkpoint goes on there.',
        values.places(EARLIEST, LATEST),
        "earliest, latest or a sequence, or JSON with one for each stream",
        EARLIEST,
        aliases=("startingSequence",),
    ),
    Option(
        "startingTimestamp",
        "Begin at the first message stored at or after this time; wins over the options below.",
        values.time_of,
        TIME,
        aliases=("startingTime",),
    ),
    Option(
        "startingOffsetsByTimestamp",
        'The same for each stream, as JSON: `{"A": "2026-01-31T00:00:00Z"}`; wins over startingOffsets.',
        values.times_by_stream,
        "JSON with a time for each stream",
        {},
        shown="",
    ),
    Option(
        "endingOffsets",
        "Where a batch read ends: `latest`, or the last sequence to read, or JSON with one for each stream.",
        values.places(LATEST),
        "latest or a sequence, or JSON with one for each stream",
        LATEST,
        uses=frozenset({BATCH}),
        aliases=("endingSequence",),
    ),
    Option(
        "endingTimestamp",
        "Read what was stored before this time; wins over the options below.",
        values.time_of,
        TIME,
        uses=frozenset({BATCH}),
        aliases=("endingTime",),
    ),
    Option(
        "endingOffsetsByTimestamp",
        "The same for each stream, as JSON; wins over endingOffsets.",
        values.times_by_stream,
        "JSON with a time for each stream",
        {},
        shown="",
        uses=frozenset({BATCH}),
    ),
    Option(
        "failOnDataLoss",
        "Whether the query ends when messages were purged or deleted before it read them, or a stream was deleted, "
        "made anew or restored from an older copy. Without it the query reads on with what is there. What a stream's "
        "own limits removed is never an error, but a line in the log with a count.",
        values.truth,
        "true or false",
        True,
    ),
    Option(
        "pushFilters",
        "Whether conditions of a `where` decide what is read at all (below: Filters).",
        values.truth,
        "true or false",
        False,
        uses=frozenset({BATCH}),
    ),
    Option("includeHeaders", "Whether the column of headers is filled.", values.truth, "true or false", True),
)
_TRIGGERS = frozenset({STREAM})
_HOW_MUCH = (
    _positive(
        "maxOffsetsPerTrigger",
        0,
        "At most so many sequences a batch, over all streams in proportion to what each holds.",
        shown="no limit",
        uses=_TRIGGERS,
        aliases=("maxMessagesPerTrigger",),
    ),
    _positive(
        "minOffsetsPerTrigger",
        0,
        "No batch before so many sequences are there, or maxTriggerDelay has passed since the last one.",
        shown="1",
        uses=_TRIGGERS,
    ),
    Option(
        "maxTriggerDelay",
        "How long minOffsetsPerTrigger may hold a batch back.",
        values.duration,
        "a time span such as 15m or 30s",
        900.0,
        shown="15m",
        uses=_TRIGGERS,
    ),
    _positive(
        "maxBytesPerTrigger",
        0,
        "At most so many bytes of payload a batch, in proportion to what each stream holds; one message of a stream "
        "always fits. The count is exact: the stream's leader tells each message's size, without its payload.",
        shown="no limit",
        uses=_TRIGGERS,
    ),
    _positive(
        "parallelism",
        0,
        "At most so many tasks a batch.",
        shown="the session's default parallelism where leafd_spark.datasource.register was called, otherwise a task "
        f"for each {ROWS_MIN_UNKNOWN:,} messages and at most {UNKNOWN_PARALLELISM}",
        aliases=("numPartitions",),
    ),
    _positive("minPartitions", 0, "At least so many tasks a batch, however small.", shown="none"),
    _positive("maxRecordsPerPartition", 0, "At most so many sequences a task.", shown="no limit"),
    _positive("minPartitionMessages", 0, "No smaller pieces than this, unless minPartitions asks.", shown="10,000"),
    _positive("fetchMessages", 16_384, "How many messages a task asks for at a time."),
    _positive("fetchBytes", 8 << 20, "How many bytes a task asks for at a time."),
)
_WRITES = frozenset({WRITE})
_WRITING = (
    Option(
        "messageIdColumn",
        "The column whose values become the messages' ids. Without it a message's id comes from its content.",
        uses=_WRITES,
        aliases=("idColumn",),
    ),
    Option(
        "deadLetterSubject",
        "Where rows go that cannot be published, such as one above the server's max_payload. Without it they end the "
        "task.",
        uses=_WRITES,
    ),
    Option(
        "writeId",
        "Names a batch write, so that the same write made again publishes nothing twice.",
        uses=_WRITES,
    ),
    _positive("maxInFlight", 4096, "How many messages may await their acknowledgement.", uses=_WRITES),
)
GROUPS: dict[str, tuple[Option, ...]] = {
    "Connection": _CONNECTION,
    "Which messages": _WHICH,
    "From where to where": _WHERE,
    "How much at a time": _HOW_MUCH,
    "Writing": _WRITING,
}
OPTIONS = tuple(option for group in GROUPS.values() for option in group)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a query: which streams, and how they are read."""

    addresses: tuple[Address, ...]
    login: Login
    api: str  # prefix of the JetStream API, without a dot at its end
    streams: tuple[str, ...]  # none: those of the pattern
    stream_pattern: str
    stream: str  # the first, or the one that a task reads; empty if there is none
    subject: str  # filter when reading, default target when writing; empty is none
    subjects: tuple[str, ...]  # all filters; none: every message
    starting: Places
    starting_time: Times  # wins over `starting`
    ending: Places  # a sequence is still read
    ending_time: Times  # messages from then on are not read; wins over `ending`
    max_messages: int  # a trigger; 0 is no limit
    min_messages: int
    max_trigger_delay: float  # seconds
    max_bytes: int  # a trigger; 0 is no limit
    partitions: int
    partition_rows_min: int  # do not split a range into pieces smaller than this
    partitions_min: int
    partition_rows_max: int
    fetch_messages: int
    fetch_bytes: int
    fail_on_data_loss: bool
    include_headers: bool
    push_filters: bool
    timeout: float  # of one answer, in seconds
    retry: float  # for how long to dial anew without having got on, in seconds
    message_id_column: str
    dead_letter_subject: str  # where rows go that cannot be published; empty: they end the task
    write_id: str  # names a batch write, so that the same write made again publishes nothing twice
    in_flight: int  # publishes that may await their acknowledgement

    def subject_of(self, endpoint: str) -> str:
        return f"{self.api}.{endpoint}"


@dataclass
class _Given:
    """The options as they were given, read by the table; what is wrong with them is collected."""

    use: str
    values: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> Any:
        """The value of one, or its default."""
        option = _NAMED[name.lower()]
        return self.values.get(option.name, option.default)


_NAMED = {spelling.lower(): option for option in OPTIONS for spelling in (option.name, *option.aliases)}
# Spark adds options of its own, all of which it names so.
_SPARKS = ("path", "header", "checkpointlocation")


def _given(given: Mapping[str, str], use: str) -> _Given:
    """Every option is one of ours, of use here, given under one name, and has a value of its kind."""
    found = _Given(use)
    seen: dict[str, str] = {}
    for spelling, text in sorted((name.lower(), text) for name, text in given.items()):
        if spelling in _SPARKS or spelling.startswith("spark."):
            continue
        option = _NAMED.get(spelling)
        if option is None:
            near = difflib.get_close_matches(spelling, _NAMED, 1)
            hint = f"; do you mean {_spelt(near[0])}?" if near else ""
            found.faults.append(f"no such option: {spelling}{hint}")
        elif use not in option.uses and text != "":
            uses = " and ".join(sorted(option.uses))
            found.faults.append(f"option {option.name} is of no use here ({use}): it is for {uses}")
        elif seen.setdefault(option.name, spelling) != spelling:
            found.faults.append(f"options {seen[option.name]} and {spelling} mean the same: give one of them")
        elif text != "":
            try:
                found.values[option.name] = option.parse(text)
            except ValueError:
                found.faults.append(f"option {_spelt(spelling)} is {text!r}, but must be {option.wanted}")
    return found


def _spelt(lower: str) -> str:
    """A name as the page has it."""
    option = _NAMED[lower]
    return next(name for name in (option.name, *option.aliases) if name.lower() == lower)


def _api_prefix(given: _Given) -> str:
    domain = str(given["domain"])
    prefix = str(given["apiPrefix"]).rstrip(".")
    if domain and prefix:
        given.faults.append("options domain and apiPrefix exclude each other")
    return prefix or (f"$JS.{domain}.API" if domain else "$JS.API")


def _login(given: _Given) -> Login:
    return Login(
        user=given["user"],
        password=given["password"],
        token=given["token"],
        nkey=given["nkey"],
        credentials=given["credentials"],
        ca_file=given["caFile"],
        cert_file=given["certFile"],
        key_file=given["keyFile"],
    )


def _check(given: _Given, named: Set[str]) -> Iterator[str]:
    """The conflicts between two options. named: those that were given, right or wrong."""
    if given["stream"] and given["streamPattern"]:
        yield "options stream and streamPattern exclude each other"
    if given.use != WRITE and not named & {"stream", "streampattern"}:
        yield "option stream is missing: which stream is to be read?"
    if given["subject"] and given["subjects"]:
        yield "options subject and subjects exclude each other"
    for name in ("startingOffsets", "startingOffsetsByTimestamp", "endingOffsets", "endingOffsetsByTimestamp"):
        places = given[name]
        if isinstance(places, Mapping) and given["stream"] and (strange := sorted(set(places) - set(given["stream"]))):
            yield f"option {name} names {', '.join(strange)}, which option stream does not"
    if 0 < given["maxOffsetsPerTrigger"] < given["minOffsetsPerTrigger"]:
        yield "option minOffsetsPerTrigger is above maxOffsetsPerTrigger"


def _addresses(given: _Given) -> tuple[Address, ...]:
    try:
        return parse_servers(given["servers"])
    except ValueError as error:
        given.faults.append(str(error))
        return ()


def parse_options(
    options: Mapping[str, str], *, writing: bool = False, streaming: bool = False, parallelism: int = 0
) -> Options:
    """Options as the user gave them, checked; a ValueError has a line for all that is wrong, with what is wanted.

    `parallelism` is the session's default, 0 if it is not known.
    """
    given = _given(options, WRITE if writing else STREAM if streaming else BATCH)
    given.faults += _check(given, {name.lower() for name, text in options.items() if text != ""})
    addresses, api = _addresses(given), _api_prefix(given)
    if given.faults:
        raise ValueError("\n".join(given.faults))
    subjects: tuple[str, ...] = given["subjects"] or ((given["subject"],) if given["subject"] else ())
    tasks = given["parallelism"] or parallelism
    return Options(
        addresses=addresses,
        login=_login(given),
        api=api,
        streams=given["stream"],
        stream_pattern=given["streamPattern"],
        stream=next(iter(given["stream"]), ""),
        subject=subjects[0] if len(subjects) == 1 else "",
        subjects=subjects,
        starting=given["startingOffsets"],
        starting_time=given["startingTimestamp"] or given["startingOffsetsByTimestamp"],
        ending=given["endingOffsets"],
        ending_time=given["endingTimestamp"] or given["endingOffsetsByTimestamp"],
        max_messages=given["maxOffsetsPerTrigger"],
        min_messages=given["minOffsetsPerTrigger"],
        max_trigger_delay=given["maxTriggerDelay"],
        max_bytes=given["maxBytesPerTrigger"],
        partitions=tasks or UNKNOWN_PARALLELISM,
        partition_rows_min=given["minPartitionMessages"] or (ROWS_MIN if tasks else ROWS_MIN_UNKNOWN),
        partitions_min=given["minPartitions"],
        partition_rows_max=given["maxRecordsPerPartition"],
        fetch_messages=given["fetchMessages"],
        fetch_bytes=given["fetchBytes"],
        fail_on_data_loss=given["failOnDataLoss"],
        include_headers=given["includeHeaders"],
        push_filters=given["pushFilters"],
        timeout=given["timeoutSeconds"],
        retry=given["retrySeconds"],
        message_id_column=given["messageIdColumn"],
        dead_letter_subject=given["deadLetterSubject"],
        write_id=given["writeId"],
        in_flight=given["maxInFlight"],
    )
