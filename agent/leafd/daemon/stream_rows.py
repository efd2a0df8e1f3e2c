"""Rows of the servers' table as JetStream understands them: configurations, groups, what an account may have.

Pure. Not here: the table itself (cluster/table.py), who decides (placing.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from leafd.gojson import decode
from leafd.jetstream.catalogue import Group
from leafd.jetstream.models.stream import StreamConfig
from leafd.jetstream.rules.account_limits import check_beside
from leafd.quoting import quoted

if TYPE_CHECKING:
    from leafd.cluster.table import StreamRow
    from leafd.jetstream.catalogue import JetStreamAccount


def group_of(row: StreamRow) -> Group | None:
    """The group that keeps a stream; None: one server does."""
    return Group(row.group, row.founders or row.members) if row.members else None


def shown(account: str, name: str) -> str:
    """A stream, as the log names it."""
    return f"stream {quoted(name)} of account {quoted(account)}"


def config_of(row: StreamRow) -> StreamConfig:
    """The configuration in a row that has one. Raises JsonError, ValueError."""
    return decode(StreamConfig, json.dumps(row.config).encode(), strict=False)


def check_account(
    account: JetStreamAccount | None, rows: Mapping[str, StreamRow], row: StreamRow, before: StreamRow | None
) -> None:
    """The account's limits on its streams of all servers together, where one is to be like this. before: None: it is
    new. Raises ApiError."""
    if account is None:
        return
    beside = (one.config or {} for one in rows.values() if one.name != row.name)
    check_beside(account.limits, beside, config_of(row), config_of(before) if before is not None else None)
