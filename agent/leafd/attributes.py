"""attrs for trio: what trio and outcome use of it, without the text that it compiles for each class at each start.

    sys.modules.update((module.__name__, module) for module in modules()); import trio

attrs takes 0.7 MB, and makes up to ten functions and two classes for each of trio's 50 classes: 1 MB, and a quarter of
the processor time of a start. Here the classes share the functions that need no speed (comparing, hashing, showing,
refusing to change), and __init__ is compiled when the first object is made, as in records.py. What is used beyond this
raises Unknown at the decorator; then the real one is imported (unused.py).

What does not live here: converters, fields without annotation, order, pickling, asdict() and the like.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

NOTHING: Final = object()
OWN: Final = "__attributes__"
"""Where a class has its fields, those of its bases before them."""


class Unknown(TypeError):
    """Something of attrs that is not here."""


class FrozenInstanceError(AttributeError):
    """A frozen object is not changed."""


class Factory:
    """A default that is made for each object."""

    def __init__(self, factory: Callable[[], Any]) -> None:
        self.factory = factory


class Field:
    """One attribute; `name` and `alias`, the argument's name, are set when its class is made."""

    __slots__ = ("alias", "default", "eq", "init", "kw_only", "name", "repr", "validator")

    def __init__(
        self,
        *,
        default: Any = NOTHING,
        factory: Callable[[], Any] | None = None,
        validator: Callable[[Any, Field, Any], None] | None = None,
        repr: bool | Callable[[Any], str] = True,
        eq: bool = True,
        init: bool = True,
        kw_only: bool = False,
        alias: str | None = None,
    ) -> None:
        self.default = default if factory is None else Factory(factory)
        self.validator, self.repr, self.eq = validator, repr, eq
        self.init, self.kw_only, self.alias, self.name = init, kw_only, alias, ""


def instance_of(kind: type) -> Callable[[Any, Field, Any], None]:
    """A validator."""

    def check(_: Any, one: Field, value: Any) -> None:
        if not isinstance(value, kind):
            raise TypeError(f"{one.name!r} must be {kind!r} (got {value!r} that is a {type(value)!r})")

    return check


def _fields(self: Any) -> tuple[Field, ...]:
    fields: tuple[Field, ...] = getattr(type(self), OWN)
    return fields


def _compared(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, one.name) for one in _fields(self) if one.eq)


def _equal(self: Any, other: object) -> Any:
    return _compared(self) == _compared(other) if type(self) is type(other) else NotImplemented


def _hashed(self: Any) -> int:
    return hash(_compared(self))


def _shown(self: Any) -> str:
    shown = []
    for one in _fields(self):
        if one.repr:
            value = getattr(self, one.name, NOTHING)
            text = "NOTHING" if value is NOTHING else one.repr(value) if callable(one.repr) else repr(value)
            shown.append(f"{one.name}={text}")
    return f"{type(self).__qualname__.rpartition('>.')[2]}({', '.join(shown)})"


def _refuse(self: Any, *_: Any) -> None:
    raise FrozenInstanceError("can't set attribute")


def _init_of(cls: Any, fields: tuple[Field, ...], frozen: bool) -> Callable[..., None]:
    """The class's __init__."""
    scope: dict[str, Any] = {"_set": object.__setattr__, "_missing": NOTHING, "_exception": BaseException.__init__}
    places: list[str] = []
    named: list[str] = []
    lines, checks = ["pass"], []
    for at, one in enumerate(fields):
        value = str(one.alias)
        made, default = f"_make{at}()", f"_default{at}"
        if isinstance(one.default, Factory):
            scope[f"_make{at}"] = one.default.factory
            parameter, value = f"{value}=_missing", f"{made} if {value} is _missing else {value}"
        else:
            scope[default] = one.default
            parameter = value if one.default is NOTHING else f"{value}={default}"
            made = default
        if one.init:
            (named if one.kw_only else places).append(parameter)
        elif one.default is NOTHING:
            continue
        else:
            value = made
        # Past the class's own __setattr__, which may refuse.
        lines.append(f"_set(self, {one.name!r}, {value})" if frozen else f"self.{one.name} = {value}")
        if one.validator is not None:
            scope |= {f"_check{at}": one.validator, f"_field{at}": one}
            checks.append(f"_check{at}(self, _field{at}, self.{one.name})")
    if issubclass(cls, BaseException):
        checks.append(f"_exception({', '.join(['self', *(f'self.{one.name}' for one in fields if one.init)])})")
    if hasattr(cls, "__attrs_post_init__"):
        checks.append("self.__attrs_post_init__()")
    parameters = ", ".join(["self", *places, *(["*", *named] if named else [])])
    exec(f"def __init__({parameters}):\n " + "\n ".join([*lines, *checks]), scope)
    init: Callable[..., None] = scope["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _init_when_needed(cls: Any, fields: tuple[Field, ...], frozen: bool) -> Callable[..., None]:
    def __init__(self: Any, /, *values: Any, **named: Any) -> None:
        cls.__init__ = init = _init_of(cls, fields, frozen)
        init(self, *values, **named)

    return __init__


def _own_fields(cls: type, annotated: bool, kw_only: bool) -> list[Field]:
    """The fields of the class's body, in order."""
    body = vars(cls)
    if annotated:
        names = [name for name, text in cls.__annotations__.items() if "ClassVar" not in str(text)]
        if unknown := [name for name, value in body.items() if isinstance(value, Field) and name not in names]:
            raise Unknown(f"{cls.__qualname__}: {', '.join(unknown)} without annotation")
    else:
        names = [name for name, value in body.items() if isinstance(value, Field)]
    found = []
    for name in names:
        one = body.get(name, NOTHING)
        if not isinstance(one, Field):
            one = Field(default=one)
        one.name, one.alias, one.kw_only = name, one.alias or name.lstrip("_"), one.kw_only or kw_only
        found.append(one)
    return found


def _with_slots(cls: Any, names: list[str]) -> type:
    """The class once more, with slots."""
    body = {name: value for name, value in vars(cls).items() if name not in (*names, "__dict__", "__weakref__")}
    for value in body.values():
        if "__class__" in getattr(getattr(value, "__code__", None), "co_freevars", ()):
            raise Unknown(f"{cls.__qualname__}: super() would mean the class that this one takes the place of")
    theirs = {name for base in cls.__mro__[1:] for name in vars(base)}
    body["__slots__"] = tuple(name for name in (*names, "__weakref__") if name not in theirs)
    made: type = type(cls)(cls.__name__, cls.__bases__, body)
    return made


def _made(cls: Any, annotated: bool, **switches: Any) -> Any:
    """The class with what attrs gives it, or another one in its place, with slots."""
    if switches["eq"] and switches["hash"] is not None:
        raise Unknown(f"{cls.__qualname__}: compared, and hashed in another way than that follows from")
    frozen = switches["frozen"] or any(vars(base).get("__setattr__") is _refuse for base in cls.__mro__)
    own = _own_fields(cls, annotated, switches["kw_only"])
    names = [one.name for one in own]
    fields = (*(one for one in getattr(cls, OWN, ()) if one.name not in names), *own)
    if any(one.validator is not None for one in fields) and not frozen:
        raise Unknown(f"{cls.__qualname__}: a validator, and its fields may change")
    gives: dict[str, Any] = {OWN: fields}
    if switches["repr"]:
        gives["__repr__"] = _shown
    if switches["eq"] and "__eq__" not in vars(cls) and not issubclass(cls, BaseException):
        gives |= {"__eq__": _equal, "__hash__": _hashed if frozen else None}
    if frozen:
        gives |= {"__setattr__": _refuse, "__delattr__": _refuse}
    gives["__match_args__"] = tuple(one.name for one in fields if one.init and not one.kw_only)
    gives = {name: value for name, value in gives.items() if name not in vars(cls)}
    needs_init = switches["init"] and "__init__" not in vars(cls)
    if switches["slots"]:
        cls = _with_slots(cls, names)
    else:
        for name in names:
            if name in vars(cls):
                delattr(cls, name)
    for name, value in gives.items():
        setattr(cls, name, value)
    if needs_init:
        cls.__init__ = _init_when_needed(cls, fields, frozen)
    return cls


def _decorator(annotated: bool, **usual: bool | None) -> Callable[..., Any]:
    def decorate(cls: Any = None, **switches: bool | None) -> Any:
        if unknown := switches.keys() - usual.keys():
            raise Unknown(f"{', '.join(unknown)} of a decorator of attrs")
        made: Callable[[Any], Any] = lambda cls: _made(cls, annotated, **(usual | switches))  # noqa: E731
        return made if cls is None else made(cls)

    return decorate


def modules() -> tuple[ModuleType, ModuleType]:
    """What `import attrs` and `import attr` find."""
    usual = {"eq": True, "hash": None, "repr": True, "init": True, "kw_only": False}
    now, before, validators = ModuleType("attrs"), ModuleType("attr"), ModuleType("attr.validators")
    vars(now).update(
        define=_decorator(True, **usual, slots=True, frozen=False),
        frozen=_decorator(True, **usual, slots=True, frozen=True),
        field=Field,
        Factory=Factory,
    )
    vars(before).update(s=_decorator(False, **usual, slots=False, frozen=False), ib=Field, validators=validators)
    vars(validators).update(instance_of=instance_of)
    return now, before
