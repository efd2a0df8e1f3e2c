"""Reports as JSON: large ones are written on the worker thread, so that a long listing delays nobody.

What does not live here: what the reports say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from leafd.turns import ITEM_WEIGHT, aside

_ROW: Final = 4 * ITEM_WEIGHT


async def encode(report: Mapping[str, Any], *, indent: int | None = None) -> bytes:
    """The report's bytes. Its lists and those within their rows say how large it gets."""
    data = report.get("data", report)
    rows = sum(map(_rows, data.values())) if isinstance(data, dict) else 0
    return await aside(rows * _ROW, _encode, report, indent)


def _rows(value: object) -> int:
    if not isinstance(value, list):
        return 0
    inner = (len(one) for row in value if isinstance(row, dict) for one in row.values() if isinstance(one, list))
    return len(value) + sum(inner)


def _encode(report: Mapping[str, Any], indent: int | None) -> bytes:
    return json.dumps(report, indent=indent, separators=None if indent else (",", ":")).encode()
