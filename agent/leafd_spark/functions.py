"""Functions of columns, for queries over a stream's messages."""

from __future__ import annotations

from pyspark.sql import Column, functions as f


def header(column: Column | str, name: str) -> Column:
    """The value, as bytes, of a message's last header of that name, null without one: header("headers", "Nats-Msg-Id").

    Names are compared as they are, upper and lower case; `.cast("string")` makes text of the value.
    """
    headers = f.col(column) if isinstance(column, str) else column
    named = f.filter(headers, lambda field: field["key"] == name)
    return f.try_element_at(named, f.lit(-1))["value"]
