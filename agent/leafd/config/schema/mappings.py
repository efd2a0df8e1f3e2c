"""The mappings of an account: where messages go instead of the subject they are published to, and with what share.

    mappings { "orders.*": "eu.$1", beta: [ {destination: "a", weight: 20%}, {destination: "b", weight: 80%} ] }

What comes out is what the plane draws by: for each source its destinations with the share of a hundred that they end
below. Shares that do not add up to a hundred leave the rest to the source itself, unless it is among the destinations:
then the rest is lost, as in nats-server. Destinations for a cluster's servers are checked and not used.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from leafd.config.schema.section import Reader, shown
from leafd.config.transforms import TransformError, check_mapping, valid_subject
from leafd.records import dataclass

HUNDRED: Final = 100

Choices = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class _Destination:
    subject: str
    weight: int
    cluster: str = ""


def _parse(value: object) -> object:
    if not isinstance(value, dict):
        raise ValueError("a map of subjects to destinations is expected")
    return {source: choices(source, entry) for source, entry in value.items()}


def choices(source: str, entry: Any) -> Choices:
    """The destinations of a source's messages, by a mapping's entry. Raises ValueError."""
    if not valid_subject(source):
        raise ValueError(f'subject "{source}" is not a valid subject')
    if isinstance(entry, str):
        wanted = [_Destination(entry, HUNDRED)]
    else:
        wanted = [_destination(source, one) for one in (entry if isinstance(entry, list) else [entry])]
    _check(source, wanted)
    own = sorted((one for one in wanted if not one.cluster), key=lambda one: one.weight)
    rest = HUNDRED - sum(one.weight for one in own)
    if rest and all(one.subject != source for one in wanted):
        own = sorted([*own, _Destination(_with_places(source), rest)], key=lambda one: one.weight)
    below, found = 0, []
    for one in own:
        below += one.weight
        found.append((one.subject, below))
    return tuple(found)


def _destination(source: str, entry: Any) -> _Destination:
    if not isinstance(entry, dict):
        raise ValueError(f'mapping of "{source}": a destination with its weight is expected, not {shown(entry)}')
    subject, weight, cluster = "", None, ""
    for key, value in entry.items():
        match key.lower():
            case "dest" | "destination":
                subject = _text(key, value)
            case "weight":
                weight = _weight(value)
            case "cluster":
                cluster = _text(key, value)
            case _:
                raise ValueError(f'mapping of "{source}": unknown field "{key}" of a destination')
    if weight is None:
        raise ValueError(f'mapping of "{source}": missing weight of destination "{subject}"')
    return _Destination(subject, weight, cluster)


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{key}: a string is expected, not {shown(value)}: put quotes around it")
    return value


def _weight(value: object) -> int:
    number = value.removesuffix("%") if isinstance(value, str) else value
    if isinstance(number, str) and number.isdecimal():
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= HUNDRED:
        raise ValueError(f"{shown(value)} is no weight: write a percentage, from 0 to 100")
    return number


def _check(source: str, wanted: list[_Destination]) -> None:
    totals: dict[str, int] = {}
    seen: set[str] = set()
    for one in wanted:
        if one.subject in seen:
            raise ValueError(f'mapping of "{source}": duplicate entry for "{one.subject}"')
        seen.add(one.subject)
        totals[one.cluster] = totals.get(one.cluster, 0) + one.weight
        if totals[one.cluster] > HUNDRED:
            raise ValueError(f'mapping of "{source}": total weight needs to be <= 100')
        if not one.subject:
            raise ValueError(f'mapping of "{source}": a destination is missing')
        try:
            check_mapping(source, one.subject)
        except TransformError as error:
            raise ValueError(f'mapping of "{source}" to "{one.subject}": {error}') from None


def _with_places(source: str) -> str:
    """A source as a destination that changes nothing: each wildcard by its number."""
    number = 0
    tokens = source.split(".")
    for index, token in enumerate(tokens):
        if token == "*":
            number += 1
            tokens[index] = f"${number}"
    return ".".join(tokens)


Mappings = Annotated[dict[str, Choices], Reader(_parse)]
