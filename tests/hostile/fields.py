"""Every field that the outside can fill in, read from the program itself, so that a new one is found the day it is
added.

    endpoints and their bodies   jetstream/registry.py and the declared structs (gojson.Struct)
    CONNECT, INFO, an answer     the declared structs of auth/connect.py, links/leaf.py and links/replica.py
    header names                 every "Nats-..." text of the sources, Python and C
    reports and their options    the tables of monitor/ and every name that a report looks up in its options

Not here: what is filled in (values.py), how it is sent (draw.py).
"""

from __future__ import annotations

import ast
import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from leafd.auth.connect import ClientConnect, LeafConnect
from leafd.gojson import Kind, ListOf, Nested, Struct, TextMap
from leafd.jetstream import registry, service
from leafd.jetstream.endpoints import templates
from leafd.jetstream.models.requests import ConsumerCreateRequest, RestoreRequest
from leafd.jetstream.models.stream import StreamConfigRequest
from leafd.links.answers import Created
from leafd.links.leaf_info import HubInfo
from leafd.monitor import http, services
from leafd.monitor.page.routes import PATHS

ROOT: Final = Path(__file__).resolve().parent.parent.parent
JsonPath = tuple[str, ...]

assert service.ENDPOINT_MODULES
assert templates

# What makes a body with one wrong field reach beyond the first check; a struct that is not named here starts empty.
BASES: Final[dict[type[Struct], dict[str, Any]]] = {
    StreamConfigRequest: {"name": "H", "subjects": ["h.*"]},
    RestoreRequest: {"config": {"name": "H", "subjects": ["h.*"]}, "state": {}},
    templates.TemplateConfig: {"name": "H", "config": {"subjects": ["template.*"]}, "max_streams": 2},
    ConsumerCreateRequest: {"stream_name": "KEEP", "config": {"durable_name": "h", "ack_policy": "explicit"}},
    ClientConnect: {"verbose": False, "headers": True, "protocol": 1},
    LeafConnect: {"user": "a", "pass": "a", "name": "n", "headers": True},
    HubInfo: {"client_id": 5, "info_on_connect": True, "headers": True, "connect_info": True},
    Created: {"name": "x"},
}


def paths(struct: type[Struct], depth: int = 0) -> Iterator[JsonPath]:
    """The JSON path of every field of a struct and of what is nested in it; "0" is the first element of a list."""
    for name, kind in _columns(struct):
        yield (name,)
        for rest in _below(kind, depth):
            yield (name, *rest)


def _columns(struct: type[Struct]) -> Iterator[tuple[str, Kind]]:
    for one in dataclasses.fields(struct):
        yield one.metadata["name"], one.metadata["kind"]


def _below(kind: Kind, depth: int) -> Iterator[JsonPath]:
    if depth > 3:
        return
    if isinstance(kind, Nested):
        yield from paths(kind.struct, depth + 1)
    elif isinstance(kind, ListOf):
        yield ("0",)
        for rest in _below(kind.item, depth):
            yield ("0", *rest)
    elif isinstance(kind, TextMap):
        yield ("key",)


def body(struct: type[Struct], path: JsonPath, value: bytes, *, twice: bool = False) -> bytes:
    """The struct's usual body with raw JSON at a path."""
    mark = "@@hostile@@"
    text = json.dumps(_placed(BASES.get(struct, {}), path, mark)).encode()
    text = text.replace(b'"%s"' % mark.encode(), value)
    if twice:
        member = b'"%s":' % path[0].encode()
        text = text[:-1] + (b"," if len(text) > 2 else b"") + member + value + b"}"
    return text


def _placed(base: Any, path: JsonPath, mark: str) -> Any:
    if not path:
        return mark
    if path[0] == "0":
        return [_placed({}, path[1:], mark)]
    members = dict(base) if isinstance(base, dict) else {}
    members[path[0]] = _placed(members.get(path[0], {}), path[1:], mark)
    return members


def endpoints() -> list[registry.Endpoint]:
    """Every line of the API's table."""
    return [line for lines in registry._ENDPOINTS.values() for line in lines]


def _sources(*suffixes: str) -> Iterator[str]:
    for folder in ("agent/leafd", "native"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in suffixes and "spark" not in file.parts:
                yield file.read_text()


def headers() -> list[bytes]:
    """Every header name that the program speaks of; what C puts together of two literals is put together here, too."""
    whole: set[str] = set()
    prefixes: set[str] = {"Nats-"}
    parts: set[str] = set()
    for text in _sources(".py", ".c", ".h"):
        named = set(re.findall(r"Nats-[A-Za-z-]*", text))
        whole |= {name for name in named if not name.endswith("-")}
        prefixes |= {name for name in named if name.endswith("-")}
        if named:
            parts |= set(re.findall(r'(?:BYTES_LITERAL|NAME)\("([A-Z][A-Za-z]+(?:-[A-Za-z]+)*)"\)', text))
    whole |= {prefix + part for prefix in prefixes for part in parts}
    return [*sorted(name.encode() for name in whole), b"KV-Operation", b"Status"]


def options() -> list[str]:
    """Every name that a report looks up in its request."""
    found = set()
    for file in sorted((ROOT / "agent/leafd/monitor").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            owner = getattr(getattr(node.func, "value", None), "id", "")
            if name in ("flag", "number", "text", "_set", "fits") or (name == "get" and owner == "options"):
                found |= {
                    one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)
                }
    return sorted(found - {""})


def pages() -> list[str]:
    """Every path of the monitoring port."""
    return [*http.REPORTS, *(one for one in PATHS if one != "/events"), "/healthz"]


def system_subjects() -> list[str]:
    """Every request of the system account, and what other accounts may ask, but for those that end or reload."""
    kinds_of = [*services.REPORTS, "IDZ", "STATSZ", "HEALTHZ", "KICK", "CONNS", "INFO", "NOTHING"]
    found = [services.USER_INFO, f"{services.SERVER}PING"]
    found += [f"{services.SERVER}PING.{one}" for one in kinds_of]
    return found + [f"{services.ACCOUNT}{name}.{one}" for name in ("A", "PING", "X") for one in kinds_of]
