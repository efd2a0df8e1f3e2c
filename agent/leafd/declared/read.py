"""From a configuration's maps to what they declare: every key, its type and its place.

The keys of a stream and of a consumer are those of the JetStream API's JSON, which the `nats` command line's files
have, too; such a file, or an info with the configuration in it, may be included as it is. Beyond JSON a time may be a
text ("24h") and a size end in K, M, G or T. Not here: which values are allowed together
(leafd/jetstream: the API judges them).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

from leafd.accounts.graph import GLOBAL, Graph
from leafd.config.bind import Loaded, add_mistake
from leafd.config.schema.base import parse_duration, parse_storage_size
from leafd.config.schema.declared import KINDS
from leafd.config.schema.section import Path, kind, shown
from leafd.declared.assets import BoxSource, Declared, DeclaredConsumer, DeclaredStream
from leafd.declared.buckets import KeyValue, Objects, key_value_stream, objects_stream
from leafd.enrol.names import RULE, is_pattern
from leafd.errors import ConfigError
from leafd.gojson import (
    DURATION,
    Choice,
    Flag,
    Integer,
    JsonError,
    Kind,
    ListOf,
    Nested,
    Struct,
    Text,
    TextMap,
    Time,
    decode,
)
from leafd.jetstream.models.consumer import ConsumerConfig
from leafd.jetstream.models.stream import StreamConfig, StreamSource
from leafd.jetstream.subjects import valid_name

REMOVE: Final = "remove"
MAY_LOSE: Final = "allow_data_loss"
SOURCES: Final = "sources"
BOXES: Final = "boxes"
_CONFIG: Final = "config"  # of an info, as `nats stream info --json` shows it
_NULL: Final = "null"  # of JSON, as the configuration language reads it
_CODE_POINT: Final = re.compile(r"\\u([0-9a-fA-F]{4})")
_OPERATED: Final = (
    "with an operator accounts come from JWTs, and only streams that collect from boxes of enrol { account } are "
    "declared here: make others by the API"
)
_Record = TypeVar("_Record", bound=Struct)


def read(loaded: Loaded, graph: Graph) -> Declared:
    """All that it declares. graph: which accounts have JetStream. Raises ConfigError with one line per problem."""
    reading = _Reading(loaded, graph)
    reading.account(GLOBAL, ())
    for name in loaded.server.accounts:
        reading.account(name, ("accounts", name))
    if reading.errors:
        raise ConfigError("\n".join(dict.fromkeys(reading.errors)))
    return Declared(tuple(reading.streams.values()), tuple(reading.consumers.values()))


class _Reading:
    """One configuration on its way; collects errors, so that all of them are told at once."""

    def __init__(self, loaded: Loaded, graph: Graph) -> None:
        self._loaded = loaded
        self._graph = graph
        self.errors: list[str] = []
        self.streams: dict[tuple[str, str], DeclaredStream] = {}
        self.consumers: dict[tuple[str, str, str], DeclaredConsumer] = {}

    def account(self, name: str, path: Path) -> None:
        """The declarations of one account's block, or of the top of the file."""
        server = self._loaded.server
        block = server.accounts[name] if path else server
        given = {one: members for one in KINDS if (members := getattr(block, one))}
        if not given:
            return
        share = self._graph.by_name.get(name)
        if server.operated and server.enrol is not None and server.jetstream is not None and server.jetstream.enabled:
            name = server.enrol.account  # the only account that the file names
        elif share is None or share.jetstream is None or server.operated:
            self._wrong((*path, next(iter(given))), self._no_jetstream(name))
        for other in given if server.operated else ():
            if other != "streams":
                self._wrong((*path, other), _OPERATED)
        for stream, config in self._named(given, "streams", path):
            self._stream(name, stream, config, (*path, "streams", stream))
        for bucket, config in self._named(given, "kv", path):
            made = partial(self._made, KeyValue, key_value_stream)
            self._bucket(name, f"KV_{bucket}", config, (*path, "kv", bucket), made)
        for bucket, config in self._named(given, "objects", path):
            made = partial(self._made, Objects, objects_stream)
            self._bucket(name, f"OBJ_{bucket}", config, (*path, "objects", bucket), made)
        for stream, config in self._named(given, "consumers", path):
            for consumer, inner in self._named({stream: config}, stream, (*path, "consumers")):
                self._consumer(name, stream, consumer, inner, (*path, "consumers", stream, consumer))

    def _no_jetstream(self, name: str) -> str:
        server = self._loaded.server
        if server.jetstream is None or not server.jetstream.enabled:
            return "there is no JetStream: add jetstream: enabled at the top"
        if server.operated:
            return _OPERATED
        if name == GLOBAL:
            return f"the account {GLOBAL} has no JetStream where there are accounts: declare this in one of them"
        return f"the account {name} has no JetStream: add jetstream: enabled to it"

    # ---- names

    def _named(self, blocks: dict[str, Any], key: str, path: Path) -> list[tuple[str, dict[str, Any]]]:
        found = []
        for name, members in (blocks.get(key) or {}).items():
            here = (*path, key, name)
            if isinstance(members, dict):
                found.append((name, members))
            elif here not in self._loaded.constants:
                self._wrong(here, f"{name}: a map in braces is expected here, not {kind(members)}")
        return found

    def _stream(self, account: str, name: str, members: dict[str, Any], path: Path) -> None:
        remove, may_lose, rest = self._switches(members, path)
        if not valid_name(name):
            self._wrong(path, f"{shown(name)} cannot be a stream's name: it has a blank or one of . * > / \\")
            return
        rest, within = _of_info(rest, path)
        if rest.get("name", name) != name:
            self._wrong((*within, "name"), f"name: the stream is called {shown(name)} by its block: remove one of them")
        rest, boxes = self._boxes(account, rest, within)
        if self._loaded.server.operated and not boxes and not remove:
            self._wrong(path, _OPERATED)
        config = None if remove else self._record(StreamConfig, rest | {"name": name}, within)
        found = DeclaredStream(account, name, config, may_lose, f'stream "{name}"', self._place(path), boxes)
        self._put(found, path)

    def _boxes(self, account: str, members: dict[str, Any], path: Path) -> tuple[dict[str, Any], tuple[BoxSource, ...]]:
        """The sources that stand for enrolled boxes; and the other keys."""
        given = members.get(SOURCES)
        if not isinstance(given, list) or not any(isinstance(one, dict) and BOXES in one for one in given):
            return members, ()
        left, found = [], []
        for number, one in enumerate(given):
            here = (*path, SOURCES, number)
            if not isinstance(one, dict) or BOXES not in one:
                left.append(one)
                continue
            block = self._loaded.server.enrol
            if block is None or block.account != account:
                self._wrong(
                    (*here, BOXES), f"{BOXES}: no boxes are enrolled in this account: enrol {{ account }} has it"
                )
            if not isinstance(one[BOXES], str) or not is_pattern(one[BOXES]):
                self._wrong((*here, BOXES), f"{BOXES}: a pattern of names is expected: {RULE}, and * for any of these")
            if "external" in one or not one.get("name"):
                self._wrong((*here, BOXES), f"{BOXES}: it takes the name of the boxes' stream, and no external")
            source = self._record(StreamSource, {key: value for key, value in one.items() if key != BOXES}, here)
            if source is not None:
                found.append(BoxSource(str(one[BOXES]), source))
        return members | {SOURCES: left}, tuple(found)

    def _bucket(
        self,
        account: str,
        stream: str,
        members: dict[str, Any],
        path: Path,
        made: Callable[[dict[str, Any], Path], StreamConfig | None],
    ) -> None:
        remove, may_lose, rest = self._switches(members, path)
        config = None if remove else made(rest, path)
        self._put(DeclaredStream(account, stream, config, may_lose, f'bucket "{path[-1]}"', self._place(path)), path)

    def _made(
        self,
        struct: type[_Record],
        stream: Callable[[str, _Record], StreamConfig],
        members: dict[str, Any],
        path: Path,
    ) -> StreamConfig | None:
        options = self._record(struct, members, path)
        if options is None:
            return None
        try:
            return stream(str(path[-1]), options)
        except ValueError as error:
            self._wrong((*path, str(error).partition(" ")[0]), str(error))
            return None

    def _put(self, stream: DeclaredStream, path: Path) -> None:
        before = self.streams.setdefault((stream.account, stream.name), stream)
        if before is not stream:
            self._wrong(path, f"{stream.shown} is the {before.shown} at {before.place}: keep one")

    def _consumer(self, account: str, stream: str, name: str, members: dict[str, Any], path: Path) -> None:
        remove, may_lose, rest = self._switches(members, path)
        if not valid_name(name):
            self._wrong(path, f"{shown(name)} cannot be a consumer's name: it has a blank or one of . * > / \\")
            return
        rest, within = _of_info(rest, path)
        for key in ("name", "durable_name"):
            if rest.get(key, name) != name:
                self._wrong((*within, key), f"{key}: the consumer is called {shown(name)} by its block: remove one")
        named = rest | {"name": name, "durable_name": name}
        config = None if remove else self._record(ConsumerConfig, named, within)
        found = DeclaredConsumer(account, stream, name, config, may_lose, self._place(path))
        self.consumers[account, stream, name] = found

    def _switches(self, members: dict[str, Any], path: Path) -> tuple[bool, bool, dict[str, Any]]:
        """The members for the API, and the switches that stand beside them."""
        found = {REMOVE: False, MAY_LOSE: False}
        rest = {}
        for key, value in members.items():
            if key.lower() not in found:
                rest[key] = value
            elif isinstance(value, bool):
                found[key.lower()] = value
            else:
                self._wrong((*path, key), f"{key}: true or false is expected, not {shown(value)}")
        return found[REMOVE], found[MAY_LOSE], rest

    # ---- values

    def _record(self, struct: type[_Record], members: dict[str, Any], path: Path) -> _Record | None:
        """The record of that form; None: it has errors, which are told."""
        before = len(self.errors)
        found = self._members(struct, members, path)
        if len(self.errors) > before:
            return None
        try:
            return decode(struct, json.dumps(found).encode())
        except (JsonError, ValueError) as error:
            self._wrong(path, str(error))
            return None

    def _members(self, struct: type[Struct], members: dict[str, Any], path: Path) -> dict[str, Any]:
        known = {one.metadata["name"]: one.metadata["kind"] for one in fields(struct)}
        found: dict[str, Any] = {}
        for key, value in members.items():
            here, name = (*path, key), key.lower()
            if name in known and value == _NULL and not isinstance(known[name], Text):
                continue
            if name in known:
                found[name] = self._value(known[name], value, here)
            elif here not in self._loaded.constants:
                import difflib  # here: a configuration without mistakes does not need it

                near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
                hint = f": did you mean {near[0]!r}?" if near else ": remove it, or check the spelling"
                self._wrong(here, f"unknown field {key!r}{hint}")
        return found

    def _value(self, of: Kind, value: Any, path: Path) -> Any:
        """The value as JSON has it."""
        if isinstance(of, ListOf):
            items = value if isinstance(value, list) else [value]
            return [self._value(of.item, one, (*path, index)) for index, one in enumerate(items)]
        if isinstance(of, Nested | TextMap) and not isinstance(value, dict):
            return self._wrong(path, f"{path[-1]}: a map in braces is expected, not {kind(value)}")
        if isinstance(of, Nested):
            return self._members(of.struct, value, path)
        if isinstance(of, TextMap):
            return {_name(key): self._value(Text(), one, (*path, key)) for key, one in value.items()}
        try:
            return _scalar(of, value)
        except OverflowError:
            return self._wrong(path, f"{path[-1]}: {shown(value)} is too much")
        except ValueError as error:
            return self._wrong(path, f"{path[-1]}: {error}")

    # ---- places

    def _place(self, path: Path) -> str:
        return self._loaded.place(*path)

    def _wrong(self, path: Path, text: str) -> None:
        add_mistake(self.errors, f"{self._place(path)}: {text}")


def _of_info(members: dict[str, Any], path: Path) -> tuple[dict[str, Any], Path]:
    """The configuration, and where it stands: an info has it beside what is to be seen of the stream or consumer."""
    config = members.get(_CONFIG)
    return (config, (*path, _CONFIG)) if isinstance(config, dict) else (members, path)


def _name(key: str) -> str:
    """A key that was somebody's text: the language knows no escapes in keys, and JSON does."""
    return _CODE_POINT.sub(lambda found: chr(int(found[1], 16)), key)


def _scalar(of: Kind, value: Any) -> Any:
    """Raises ValueError."""
    if isinstance(of, Flag):
        if not isinstance(value, bool):
            raise ValueError(f"true or false is expected, not {shown(value)}")
        return value
    if isinstance(of, Integer):
        return _integer(of, value)
    if isinstance(of, Time):
        return _time(value)
    if not isinstance(value, str):
        raise ValueError(f"a string is expected, not {shown(value)}: put quotes around it")
    if isinstance(of, Choice):
        known = sorted({one for one in of.known if one})
        if (value.lower() if of.fold else value) not in of.known:
            raise ValueError(f"{', '.join(known[:-1])} or {known[-1]} is expected, not {shown(value)}")
    return value


def _integer(of: Integer, value: Any) -> int:
    if isinstance(value, str):
        value = parse_duration(value) if of is DURATION else parse_storage_size(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"a whole number is expected, not {shown(value)}")
    if not of.low <= value <= of.high:
        raise ValueError(f"must be between {of.low} and {of.high}, not {value}")
    return value


def _time(value: Any) -> str:
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat().replace("+00:00", "Z")
    if not isinstance(value, str):
        raise ValueError(f'a time as "2026-01-31T12:00:00Z" is expected, not {shown(value)}')
    return value
