"""A block of the configuration: a frozen object with one field a key, read from the file's values.

    class AccountLimits(Section):
        max_connections: Number = option(-1, "Client connections.", aliases=("max_conn",), ge=-1)

    AccountLimits(max_connections=5)    reads each value as its annotation says; Invalid tells all that is wrong
    limits.max_connections              5; a key that was not given has its default

An annotation is made of: a Section; X | None; tuple[X, ...]; dict[str, X]; Annotated[X, Reader(function)], where the
function sees the value before X does and raises ValueError for what it does not take; and Any. What else stands there
(int, str, Literal) is for the type checker: the Reader around it has seen to it.

Why not pydantic, which reads the files of Spark's jobs (leafd_spark): its import alone takes 80 ms of processor time
and 11 MB of private memory, all blocks of this configuration take 30 ms and 5 MB (pydantic 2.14, medians of nine
processes against one that imports nothing, 2026-11-26). A start has 350 ms, an idle daemon 24 MB. Annotations are
evaluated when a block is first read, so keys that nobody uses cost nothing.

Not here: any key, sizes and durations (base.py), places in files (bind.py).
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, ClassVar, Final, Self, dataclass_transform

from leafd.records import dataclass

Path = tuple[str | int, ...]
_KINDS: Final = {
    dict: "a map in braces",
    list: "a list",
    tuple: "a list",
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
}


def kind(value: object) -> str:
    """The kind of a value, for a complaint where a block is expected: the value itself may be a secret, or hold one."""
    return _KINDS.get(type(value), "nothing" if value is None else "something else")


def shown(value: object) -> str:
    """A value as a complaint repeats it: of a block only that it is one, of an address no user and password."""
    if isinstance(value, dict | list | tuple):
        return kind(value)
    if not isinstance(value, str) or "@" not in value:
        return repr(value)
    login, _, rest = value.rpartition("@")
    scheme, there, _ = login.partition("://")
    return repr(f"{scheme if there else ''}{there}...@{rest}")


class Takes(StrEnum):
    """The moment at which a changed value takes effect."""

    LIVE = "live"
    LATER = "later"  # at the next restart; nothing else depends on it, so that a reload need not be refused for it
    RESTART = "restart"


class Support(StrEnum):
    """The support that this build has for a key of nats-server."""

    FULL = "full"
    IGNORED = "ignored"  # accepted, one line in the log
    REFUSED = "refused"  # ignoring it would weaken security, lose messages, or be noticed


@dataclass(frozen=True, slots=True)
class Reader:
    """In Annotated: what a value goes through before the annotated type. The last one of several comes first. secret:
    nothing shows the value. said: a value that was read, and its bounds, as a complaint tells them."""

    read: Callable[[Any], Any]
    secret: bool = False
    said: Callable[[Any], str] = str


AS_WRITTEN: Final = Reader(lambda value: value)
"""In Annotated: another room reads this map. It stays as it is written, and each key in it has its place."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: the keys and indexes that lead to it from the block that was read, and what it is."""

    path: Path
    text: str


class Invalid(ValueError):
    """A block that cannot be read, with all its problems."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(one.text for one in self.problems))


@dataclass(frozen=True, slots=True)
class Option:
    """All there is to know about a key, but for its type. ge, gt, le: bounds of a number."""

    default: Any
    help: str
    aliases: tuple[str, ...] = ()
    takes: Takes = Takes.RESTART
    support: Support = Support.FULL
    why: str = ""
    harmless: tuple[object, ...] = ()
    """Values of a key that has no effect that ask for nothing."""
    example: str = ""
    ge: int | None = None
    gt: int | None = None
    le: int | None = None

    def judge(self, value: Any, said: Callable[[Any], str] = str) -> None:
        """Raises ValueError for a number that is out of bounds."""
        if self.ge is not None and value < self.ge:
            raise ValueError(f"must be greater than or equal to {said(self.ge)}, not {said(value)}")
        if self.gt is not None and value <= self.gt:
            raise ValueError(f"must be greater than {said(self.gt)}, not {said(value)}")
        if self.le is not None and value > self.le:
            raise ValueError(f"must be less than or equal to {said(self.le)}, not {said(value)}")


def option(
    default: Any,
    help: str = "",
    *,
    aliases: tuple[str, ...] = (),
    takes: Takes = Takes.RESTART,
    example: str = "",
    ge: int | None = None,
    gt: int | None = None,
    le: int | None = None,
) -> Any:
    """One key. A default that is a Section's class stands for such a block with its own defaults."""
    value = default() if isinstance(default, type) else default
    return Option(value, help, aliases, takes, example=example, ge=ge, gt=gt, le=le)


def later(why: str, *, refuse: bool, aliases: tuple[str, ...] = (), harmless: tuple[object, ...] = ()) -> Any:
    """A key that nats-server knows and this build does not act upon. why: what the operator is told. harmless: values
    that ask for nothing; false, off, disabled and an empty map always do."""
    support = Support.REFUSED if refuse else Support.IGNORED
    return Option(None, "", aliases, support=support, why=why, harmless=harmless)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Section:
    """A block: unknown keys are errors, nothing changes after reading."""

    options: ClassVar[Mapping[str, Option]] = {}
    spellings: ClassVar[Mapping[str, str]] = {}
    """Every accepted key in lower case, with its field's name."""

    def __init_subclass__(cls) -> None:
        own = {name: one for name, one in vars(cls).items() if isinstance(one, Option)}
        cls.options = {**cls.options, **own}
        cls.spellings = {text: name for name, one in cls.options.items() for text in (name, *one.aliases)}
        # The defaults become the class's attributes, so an object holds only what was given.
        for name, one in cls.options.items():
            setattr(cls, name, one.default)

    def __init__(self, /, **values: Any) -> None:
        self._take(values)

    def _take(self, values: Mapping[str, Any]) -> None:
        readers = _readers(type(self))
        problems: list[Problem] = []
        for name, value in values.items():
            try:
                if name not in readers:
                    raise ValueError("unknown field")
                self.__dict__[name] = readers[name](value)
            except ValueError as error:
                problems += _below(name, error)
        if problems:
            raise Invalid(problems)
        try:
            self.check()
        except Invalid:
            raise
        except ValueError as error:
            raise Invalid([Problem((), str(error))]) from error

    def check(self) -> None:
        """Raises ValueError when keys do not fit together. The text begins with the key to look at, if there is one.
        Invalid: problems with places of their own."""

    @property
    def given(self) -> frozenset[str]:
        """The keys that were set, be it to their defaults."""
        return frozenset(name for name in self.__dict__ if name in self.options)

    def overridden(self, **values: Any) -> Self:
        """A copy with some values read anew. The result is checked as a whole."""
        made = self.replaced()
        made._take(values)
        return made

    @classmethod
    def made(cls, **values: Any) -> Self:
        """One of values that are not read and not checked: what they come from was."""
        found = object.__new__(cls)
        found.__dict__.update(values)
        return found

    def replaced(self, **values: Any) -> Self:
        """A copy with some values that were read before, not checked."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, **values)
        return made

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.options)

    def __repr__(self) -> str:
        known = hints(type(self))
        fields = (
            f"{name}={repeated(value, known[name])}" for name, value in self.__dict__.items() if name in self.options
        )
        return f"{type(self).__name__}({', '.join(fields)})"


def repeated(value: object, annotation: object) -> str:
    """A value of that type as it may be shown: a secret is not."""
    if any(isinstance(mark, Reader) and mark.secret for mark in getattr(annotation, "__metadata__", ())):
        return "..." if value else repr(value)
    if isinstance(value, tuple) and any(isinstance(one, str) for one in value):
        return f"({', '.join(map(shown, value))})"
    return shown(value) if isinstance(value, str) else repr(value)


# ---- how values are read

Read = Callable[[Any], Any]


def _below(step: str | int, error: ValueError) -> list[Problem]:
    """The problems of a part, as problems of the whole."""
    if isinstance(error, Invalid):
        return [Problem((step, *one.path), one.text) for one in error.problems]
    return [Problem((step,), str(error))]


# Filled when a block is first read.
_HINTS: Final[dict[type[Section], dict[str, Any]]] = {}
_READERS: Final[dict[type[Section], dict[str, Read]]] = {}


def hints(section: type[Section]) -> dict[str, Any]:
    """Each key's annotation, evaluated."""
    found = _HINTS.get(section)
    if found is None:
        every = typing.get_type_hints(section, include_extras=True)
        found = _HINTS[section] = {name: every[name] for name in section.options}
    return found


def _readers(section: type[Section]) -> dict[str, Read]:
    found = _READERS.get(section)
    if found is None:
        found = {name: _bounded(one, hints(section)[name]) for name, one in section.options.items()}
        _READERS[section] = found
    return found


def _bounded(one: Option, annotation: Any) -> Read:
    read = _reader(annotation)
    if one.ge is None and one.gt is None and one.le is None:
        return read
    said = next((mark.said for mark in getattr(annotation, "__metadata__", ()) if mark.said is not str), str)

    def bounded(value: Any) -> Any:
        found = read(value)
        if found is not None:
            one.judge(found, said)
        return found

    return bounded


def _reader(annotation: Any) -> Read:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        read = _reader(arguments[0])
        for mark in arguments[1:]:
            read = _after(mark.read, read)
        return read
    if origin in (typing.Union, types.UnionType):
        inner = _reader(arguments[0])
        return lambda value: None if value is None else inner(value)
    if origin is tuple and arguments[-1] is Ellipsis:
        return _list_reader(_reader(arguments[0]))
    if origin is dict:
        return _map_reader(_reader(arguments[1]))
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return _section_reader(annotation)
    return lambda value: value


def _after(first: Read, then: Read) -> Read:
    return lambda value: then(first(value))


def _list_reader(item: Read) -> Read:
    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError(f"a list is expected, not {kind(value)}")
        return tuple(_each(enumerate(value), item).values())

    return read


def _map_reader(item: Read) -> Read:
    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"a map in braces is expected, not {kind(value)}")
        return _each(value.items(), item)

    return read


def _each(members: Iterable[tuple[Any, Any]], item: Read) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    problems: list[Problem] = []
    for step, value in members:
        try:
            found[step] = item(value)
        except ValueError as error:
            problems += _below(step, error)
    if problems:
        raise Invalid(problems)
    return found


def _section_reader(section: type[Section]) -> Read:
    def read(value: Any) -> Section:
        if isinstance(value, section):
            return value
        if not isinstance(value, dict):
            raise ValueError(f"a map in braces is expected, not {kind(value)}")
        return section(**value)

    return read
