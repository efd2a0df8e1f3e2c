"""All streams and consumers that exist, by account and name, with the ids that the plane knows them by.

Loaded from the stored definitions at start; changed only after the plane has said that a change is on disk.
Not here: rules (stream_rules.py, consumer_rules.py), counters (the plane has them).
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import field, fields
from typing import Final

import trio

from leafd import native_types as t
from leafd.gojson import JsonError, decode, dump, loose, written
from leafd.gotime import format_time, parse_time
from leafd.jetstream.models.consumer import ConsumerConfig
from leafd.jetstream.models.stream import INTEREST, WORKQUEUE, StreamConfig
from leafd.jetstream.subject_index import SubjectIndex
from leafd.jetstream.taken import Reserved, Taken
from leafd.records import dataclass
from leafd.turns import ITEM_WEIGHT

NO_LIMIT: Final = -1
TEMPLATE_RECORD: Final = b"template/"
"""The beginning of the keys of stored templates."""


@dataclass(frozen=True, slots=True)
class JetStreamLimits:
    """The limits of an account; -1 = no limit, byte counts in bytes."""

    max_memory: int = NO_LIMIT
    max_store: int = NO_LIMIT
    max_streams: int = NO_LIMIT
    max_consumers: int = NO_LIMIT
    max_ack_pending: int = NO_LIMIT
    memory_max_stream_bytes: int = NO_LIMIT
    store_max_stream_bytes: int = NO_LIMIT
    max_bytes_required: bool = False
    tiers: tuple[tuple[str, JetStreamLimits], ...] = ()
    """The limits by number of replicas, if there are such. The others are then those of one replica."""

    def of(self, replicas: int) -> JetStreamLimits | None:
        """The limits on streams and consumers with so many replicas; None: such may not be."""
        if not self.tiers:
            return self
        return next((limits for name, limits in self.tiers if name == f"R{max(replicas, 1)}"), None)

    def tier(self, replicas: int) -> int:
        """The number of replicas of those that share these limits with one that has so many; 0: all do."""
        return max(replicas, 1) if self.tiers else 0


@dataclass(frozen=True, slots=True)
class Settings:
    """The server's own part in decisions. Times in ns, 0 = no limit but for the two store sizes."""

    server_name: str
    domain: str = ""
    cluster_name: str = ""
    strict: bool = True
    max_memory: int = 1 << 62
    max_store: int = 1 << 62
    max_ack_pending: int = 0
    max_request_batch: int = 0
    duplicate_window: int = 0
    default_max_consumers: int = 0
    shared: bool = False
    """Whether this server's streams are those of a group of servers, several of which may keep one together."""

    @property
    def cluster(self) -> dict[str, str] | None:
        """The cluster member of consumers' infos."""
        return {"name": self.cluster_name, "leader": self.server_name} if self.shared else None


def weight_of(config: StreamConfig) -> int:
    """The cost of writing a stream's configuration down, or of judging it."""
    sources = (*config.sources, config.mirror) if config.mirror else config.sources
    items = len(config.subjects) + len(config.metadata or ())
    return ITEM_WEIGHT * (items + sum(4 + len(source.subject_transforms) for source in sources))


@dataclass(frozen=True, slots=True)
class Aside:
    """A stored stream or consumer that could not be taken up: it keeps its data and is served by nobody. It can be
    asked why, and be deleted; its name stays taken until then."""

    id: int
    reason: str
    definition: bytes


@dataclass(frozen=True, slots=True)
class Group:
    """The servers that keep a stream together: the name of their group, and each with its disk, as they founded it."""

    name: int
    members: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Consumer:
    """One consumer. created: Unix ns, kept for ever."""

    id: int
    name: str
    config: ConsumerConfig
    created: int
    shape: object = None
    """The form that reports have made of the configuration (plain.py), until it changes."""

    @property
    def weight(self) -> int:
        """The cost of writing it down (turns.py)."""
        return ITEM_WEIGHT * (len(self.config.filters) + len(self.config.metadata or ()) + len(self.config.backoff))

    @property
    def hidden(self) -> bool:
        """Made by a mirror or source elsewhere: in no list and no count."""
        return self.config.direct

    @property
    def counted(self) -> bool:
        """Whether limits on consumers see it."""
        return not (self.config.direct or self.config.sourcing)


@dataclass(slots=True, eq=False)
class Stream:
    """One stream with its consumers, also by the plane's ids. lock: held while its consumers change. What is counted
    and sorted of consumers is kept as they come, change and go: no request looks at all of them for it."""

    id: int
    account: JetStreamAccount
    config: StreamConfig
    created: int
    consumers: dict[str, Consumer] = field(default_factory=dict)
    aside: dict[str, Aside] = field(default_factory=dict)
    lock: trio.Lock = field(default_factory=trio.Lock)
    by_id: dict[int, Consumer] = field(default_factory=dict)
    _coming: dict[int, bool] = field(default_factory=dict)
    """Consumers that the plane is being told of, and whether it has removed them again since."""
    template: str = ""
    """The stream template that made it."""
    author: str = ""
    """The client that made or changed it last, if it publishes by itself (publishing.py), .."""
    denied: frozenset[str] = frozenset()
    """.. and to which subjects it does not, since its author may not."""
    names: list[str] = field(default_factory=list)
    """Names of the consumers that clients may see, in their order."""
    copies: set[str] | None = None
    """Durable consumers of copies that were not looked at yet (copiers.py)."""
    counted: int = 0
    """Consumers that limits see."""
    unfiltered: int = 0
    """Counted consumers that take all messages."""
    filters: SubjectIndex | None = None
    """A workqueue's: the subjects that each of the counted consumers takes."""
    group: Group | None = None
    """The servers that keep it; None: this server alone."""
    lead: int = 0
    """How often this server began or ceased to lead that group, and .."""
    led: bool = False
    """.. whether it leads, and has all the consumers. Only then it knows which there are."""
    redefined: trio.Event | None = None
    """Set when the stream here is like that group's last definition."""
    given_upto: int | None = None
    """Up to here copies elsewhere may have been given it when this process began; None: it has made the stream."""
    copied: bool = False
    """Whether a copy elsewhere has been given anything since, or may have been."""
    known: bool = False
    """Whether a copy elsewhere has come since that has nothing but what this store may have given."""
    told_put_back: bool = False
    """Whether the log has it that a copy elsewhere is further."""
    shape: object = None
    """The form that reports have made of the configuration (plain.py), until it changes."""

    @property
    def weight(self) -> int:
        """The cost of writing it down (turns.py)."""
        return weight_of(self.config)

    @property
    def name(self) -> str:
        """The stream's name, which cannot change."""
        return self.config.name

    @property
    def visible(self) -> int:
        """How many consumers clients may see."""
        return len(self.names)

    @contextmanager
    def coming(self, consumer: Consumer) -> Iterator[None]:
        """While the plane is told of a consumer, which add_consumer() adds then. A plane that removes it at once, since
        nobody uses it, says so before the one who asked goes on."""
        if consumer.id not in self.by_id:
            self._coming[consumer.id] = False
        try:
            yield
        except BaseException:
            self._coming.pop(consumer.id, None)
            raise

    def gone_early(self, consumer_id: int) -> None:
        """The plane has removed a consumer that is not served yet, if it is one that comes."""
        if consumer_id in self._coming:
            self._coming[consumer_id] = True

    def add_consumer(self, consumer: Consumer) -> bool:
        """The consumer exists from here on. False: it is gone already."""
        if self._coming.pop(consumer.id, False):
            return False
        before = self.consumers.get(consumer.name)
        if before is not None:
            self.remove_consumer(before)
        self.consumers[consumer.name] = consumer
        self.by_id[consumer.id] = consumer
        if not consumer.hidden:
            insort(self.names, consumer.name)
            if consumer.config.sourcing:
                self.copies = set() if self.copies is None else self.copies
                self.copies.add(consumer.name)
        self._count(consumer, 1)
        if consumer.counted and self.config.retention == WORKQUEUE:
            if self.filters is None:
                self.filters = SubjectIndex()
            self.filters.put(consumer.name, consumer.config.filters)
        return True

    def remove_consumer(self, consumer: Consumer) -> None:
        """The consumer is gone. One of the same name that came after it stays."""
        self.by_id.pop(consumer.id, None)
        if self.consumers.get(consumer.name) is not consumer:
            return
        del self.consumers[consumer.name]
        if not consumer.hidden:
            del self.names[bisect_left(self.names, consumer.name)]
        if self.copies is not None:
            self.copies.discard(consumer.name)
        self._count(consumer, -1)
        if self.filters is not None:
            self.filters.drop(consumer.name)

    def change_consumer(self, consumer: Consumer, config: ConsumerConfig) -> None:
        """The consumer is like this from here on."""
        self.remove_consumer(consumer)
        consumer.config, consumer.shape = config, None
        self.add_consumer(consumer)

    def _count(self, consumer: Consumer, by: int) -> None:
        self.counted += by * consumer.counted
        self.unfiltered += by * (consumer.counted and not consumer.config.filters)
        if self.account.streams.get(self.name) is self:
            self.account.consumers += by * (not consumer.hidden)

    @property
    def lacks_consumers(self) -> bool:
        """Whether what nobody else wants is kept, since nobody knows what those that are aside want."""
        return bool(self.aside) and self.config.retention == INTEREST and self.group is None

    @property
    def flags(self) -> int:
        """Flags for the plane beside those of its configuration."""
        lacks = t.StreamFlag.LACKS_CONSUMERS if self.lacks_consumers else 0
        return lacks if self.group is None else t.StreamFlag.REPLICATED

    def lose_consumers(self) -> None:
        """Another server has them, or they are taken over anew."""
        self.aside.clear()
        for consumer in list(self.consumers.values()):
            self.remove_consumer(consumer)

    def listed(self) -> list[Consumer]:
        """The consumers that clients may see, by name."""
        return [self.consumers[name] for name in self.names]


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """Makes a stream of each subject that a message comes for and no stream takes (templates.py). config: of these
    streams, without a name. subscriptions: the plane's, one a subject. author:
    of these streams."""

    name: str
    config: StreamConfig
    max_streams: int
    subscriptions: tuple[int, ...] = ()
    author: str = ""


@dataclass(slots=True, eq=False)
class JetStreamAccount:
    """One account's JetStream. lock: held while its streams change. templates: None until it has had one."""

    id: int
    name: str
    limits: JetStreamLimits = JetStreamLimits()
    enabled: bool = True
    system: bool = False
    streams: dict[str, Stream] = field(default_factory=dict)
    aside: dict[str, Aside] = field(default_factory=dict)
    owners_aside: set[str] = field(default_factory=set)
    """Streams that had consumers aside when they were taken up."""
    templates: dict[str, Template] | None = None
    api_total: int = 0
    api_errors: int = 0
    lock: trio.Lock = field(default_factory=trio.Lock)
    taken: Taken = field(default_factory=Taken)
    names: list[str] = field(default_factory=list)
    """Names of the streams, in their order."""
    consumers: int = 0
    """Consumers of all its streams that clients may see."""
    cluster: dict[str, str] | None = None
    """The place of its consumers, for their infos."""
    elsewhere: tuple[tuple[int, int, int], ...] = ()
    """The bytes of its streams that other servers alone have (allowed.py)."""

    @property
    def restoring(self) -> dict[str, StreamConfig]:
        """Streams that a backup is becoming, with what they reserve."""
        return self.taken.restoring

    def sorted_streams(self) -> list[Stream]:
        """All its streams by name."""
        return [self.streams[name] for name in self.names]


class Catalogue:
    """Accounts by id and name; streams also by id; and the next free ids."""

    def __init__(self) -> None:
        self.accounts: dict[int, JetStreamAccount] = {}
        self.by_name: dict[str, JetStreamAccount] = {}
        self.look_up: Callable[[str], Awaitable[object]] | None = None
        """Has an account be known that nobody has used here yet; it may be an operator's."""
        self.queued: dict[tuple[int, str], int] = {}
        """Requests that wait for a stream to be made, by account and name: later ones about it come behind them."""
        self.reserved = Reserved()
        self.lacking: set[int] = set()
        """The streams of which the plane has been told that consumers of theirs are aside, by their numbers."""
        self._streams: dict[int, Stream] = {}
        self._next_stream = 1
        self._next_consumer = 1

    def add_account(self, account: JetStreamAccount) -> None:
        """Makes an account known; its streams come with load or with requests."""
        self.accounts[account.id] = account
        self.by_name[account.name] = account
        account.taken.count_in(self.reserved)

    async def known(self, name: str) -> JetStreamAccount | None:
        """An account by its name, which is looked for if it is not known; None: there is none."""
        if name not in self.by_name and self.look_up is not None:
            await self.look_up(name)
        return self.by_name.get(name)

    def streams(self) -> Iterator[Stream]:
        """Every stream of every account."""
        return iter(list(self._streams.values()))

    def stream(self, stream_id: int) -> Stream | None:
        """A stream by the plane's id."""
        return self._streams.get(stream_id)

    def consumer(self, stream_id: int, consumer_id: int) -> tuple[Stream, Consumer] | None:
        """A consumer by the plane's ids."""
        stream = self._streams.get(stream_id)
        consumer = stream.by_id.get(consumer_id) if stream else None
        return (stream, consumer) if stream and consumer else None

    def new_stream_id(self) -> int:
        """An id that no stored stream has."""
        self._next_stream += 1
        return self._next_stream - 1

    def new_consumer_id(self) -> int:
        """An id that no stored consumer of the node has."""
        self._next_consumer += 1
        return self._next_consumer - 1

    def keep_ids(self, *, stream: int = 0, consumer: int = 0) -> None:
        """Ids that are stored, whether they can be served or not, are not given out again."""
        self._next_stream = max(self._next_stream, stream + 1)
        self._next_consumer = max(self._next_consumer, consumer + 1)

    def add_stream(self, stream: Stream) -> None:
        """The stream exists from here on."""
        account = stream.account
        if stream.name not in account.streams:
            insort(account.names, stream.name)
        account.streams[stream.name] = stream
        account.consumers += stream.visible
        self._streams[stream.id] = stream
        account.taken.put(stream.config)

    def change_stream(self, stream: Stream, config: StreamConfig) -> None:
        """The stream is like this from here on."""
        stream.config, stream.shape = config, None
        stream.account.taken.put(config)

    def note_lacking(self, stream_id: int, *, lacks: bool) -> None:
        """The plane has been told whether consumers of that stream are aside."""
        (self.lacking.add if lacks else self.lacking.discard)(stream_id)

    def remove_stream(self, stream: Stream) -> None:
        """The stream is gone, and its consumers with it."""
        account = stream.account
        if self._streams.pop(stream.id, None) is None:
            return
        self.lacking.discard(stream.id)
        del account.streams[stream.name]
        del account.names[bisect_left(account.names, stream.name)]
        account.consumers -= stream.visible
        account.taken.drop(stream.name)


# Stored definitions: {"account": name, "created": time, "config": {...}} of a stream, {"name": ...} of a consumer. A
# stream that a backup is becoming has "restoring": true, too, and one that a template has made "template": its name.


def stream_definition(stream: Stream, *, restoring: bool = False) -> bytes:
    """The durable record of a stream."""
    members = {
        "account": stream.account.name,
        "created": format_time(stream.created),
        "config": written(stream.config),
    }
    if stream.template:
        members["template"] = stream.template
    if stream.author:
        members["author"] = stream.author
    if stream.group is not None:
        members["group"] = {"name": stream.group.name, "members": [list(one) for one in stream.group.members]}
    return dump(members | {"restoring": True} if restoring else members)


def is_half(body: bytes) -> bool:
    """Whether a stored stream was being restored when the server ended."""
    try:
        return b'"restoring"' in body and loose(body).get("restoring") is True
    except JsonError:
        return False


def template_of(body: bytes) -> str:
    """The template that made a stored stream."""
    return _text_of(body, "template")


def author_of(body: bytes) -> str:
    """In whose name a stored stream publishes."""
    return _text_of(body, "author")


def group_of(body: bytes) -> Group | None:
    """The servers that keep a stored stream. Raises KeyError, TypeError, ValueError: what is there says nothing."""
    found = loose(body).get("group") if b'"group"' in body else None
    if found is None:
        return None
    return Group(int(found["name"]), tuple((int(peer), int(disk)) for peer, disk in found["members"]))


def _text_of(body: bytes, member: str) -> str:
    found = loose(body).get(member) if f'"{member}"'.encode() in body else ""
    return found if isinstance(found, str) else ""


def consumer_definition(consumer: Consumer) -> bytes:
    """The durable record of a consumer."""
    return dump({"name": consumer.name, "created": format_time(consumer.created), "config": written(consumer.config)})


def names_in(body: bytes) -> tuple[str, str]:
    """Account and name that a stored definition of a stream or consumer speaks of, as far as they can be read."""
    try:
        record = loose(body)
    except JsonError:
        return "", ""
    config = record.get("config")
    names = (record.get("account"), record.get("name") or (config.get("name") if isinstance(config, dict) else ""))
    account, name = (one if isinstance(one, str) else "" for one in names)
    return account, name


def read_stream(body: bytes) -> tuple[str, int, StreamConfig]:
    """Account name, time of creation and configuration of a stored stream."""
    record = loose(body)
    config = decode(StreamConfig, json.dumps(record["config"]).encode(), strict=False)
    return record["account"], parse_time(record["created"]), config


def stored_stream(stream_id: int, account: JetStreamAccount, created: int, config: StreamConfig, body: bytes) -> Stream:
    """A stored stream, of which that was read. Raises KeyError, TypeError, ValueError."""
    made_by, author, group = template_of(body), author_of(body), group_of(body)
    return Stream(stream_id, account, config, created, template=made_by, author=author, group=group)


def read_consumer(body: bytes) -> tuple[str, int, ConsumerConfig]:
    """Name, time of creation and configuration of a stored consumer."""
    record = loose(body)
    config = decode(ConsumerConfig, json.dumps(record["config"]).encode(), strict=False)
    return record["name"], parse_time(record["created"]), config


def stored_config(config: StreamConfig) -> StreamConfig:
    """A request's configuration without what only the request carries."""
    if type(config) is StreamConfig:
        return config
    return StreamConfig(**{one.name: getattr(config, one.name) for one in fields(StreamConfig)})
