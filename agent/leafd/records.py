"""dataclass() for the daemon: the standard library's, without most of the text that it compiles at each start.

    @dataclass(frozen=True, slots=True)
    class Where:
        file: str
        line: int = 0

The standard one writes and compiles up to six functions for each class, which takes about a millisecond; for the 130
classes of the daemon that was a third of the processor time of a start, and most of these functions are never called.
Here all classes share the functions that need no speed (comparing, hashing, showing, refusing to change), and __init__
is compiled when the first object is made. The standard library's fields() and replace() work as on its own classes,
and for a type checker they are its own.

Not here: what no class of the daemon needs, like order, __post_init__, fields that are no arguments,
and copying of frozen objects by copy or pickle.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any


def _values(record: Any) -> list[Any]:
    return [getattr(record, name) for name in record.__match_args__]


def _equal(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if type(self) is type(other) else NotImplemented


def _hashed(self: Any) -> int:
    return hash(tuple(_values(self)))


def _shown(self: Any) -> str:
    fields = zip(self.__match_args__, _values(self), strict=True)
    return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in fields)})"


def _refuse_to_set(self: Any, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _init_of(cls: Any) -> Callable[..., None]:
    """The class's __init__, with one parameter a field."""
    scope: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    refuses = cls.__setattr__ is not object.__setattr__
    parameters, lines = ["self"], ["pass"]
    for one in dataclasses.fields(cls):
        name = value = one.name
        if one.default is not MISSING:
            scope[f"_default_{name}"] = one.default
            parameters.append(f"{name}=_default_{name}")
        elif one.default_factory is not MISSING:
            scope[f"_make_{name}"] = one.default_factory
            parameters.append(f"{name}=_missing")
            value = f"_make_{name}() if {name} is _missing else {name}"
        else:
            parameters.append(name)
        slot = getattr(cls, name, None)
        if not refuses:
            lines.append(f"self.{name} = {value}")
        elif isinstance(slot, MemberDescriptorType):  # past the class's own __setattr__, at a third of the next line
            scope[f"_set_{name}"] = slot.__set__
            lines.append(f"_set_{name}(self, {value})")
        else:
            lines.append(f"_set(self, {name!r}, {value})")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines), scope)
    init: Callable[..., None] = scope["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _init_when_needed(cls: Any) -> Callable[..., None]:
    def __init__(self: Any, /, *values: Any, **named: Any) -> None:
        cls.__init__ = init = _init_of(cls)
        init(self, *values, **named)

    return __init__


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool = False, eq: bool = True, slots: bool = False) -> Callable[[type], type]:
        """As dataclasses.dataclass, with what the daemon uses of its switches."""
        shared = {"__repr__": _shown}
        if eq:
            shared |= {"__eq__": _equal, "__hash__": _hashed if frozen else None}
        if frozen:
            shared |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}

        def made(cls: type) -> type:
            own = set(vars(cls))
            cls.__doc__ = cls.__doc__ or cls.__qualname__  # or it would work out the signature to show that
            # It collects the fields and makes the slots; it compiles nothing.
            cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
            for name, function in shared.items():
                if name not in own:
                    setattr(cls, name, function)
            cls.__init__ = _init_when_needed(cls)
            return cls

        return made
