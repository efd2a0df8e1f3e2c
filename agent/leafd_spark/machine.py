"""The data source's machine code (native/spark_module.c), or None: a wheel without it, or a machine that it is not for.

Its users have the same in Python beside it.
"""

from __future__ import annotations

from typing import Any

native: Any
try:
    from . import _decode as native  # type: ignore[attr-defined,no-redef,unused-ignore]
except ImportError:
    native = None
