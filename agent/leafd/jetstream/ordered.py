"""Requests that are orders to the group of all servers: of the system account about servers, of it or of an account
about one of the account's streams.

Pure. Not here: who carries them out (daemon/orders.py, daemon/moves.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leafd.jetstream.rules.versioning import fits_level

if TYPE_CHECKING:
    from leafd.jetstream.catalogue import JetStreamAccount

ACCOUNT: Final = 3
STREAM: Final = 4
"""The places of the names in an order about a stream, behind $JS.API."""
_ORDERS: Final = (["META", "LEADER", "STEPDOWN"], ["SERVER", "REMOVE"], ["SERVER", "EVACUATE"])
"""Orders of the system account to a cluster: a lone server is not meant."""
_MOVES: Final = (["ACCOUNT", "STREAM", "MOVE"], ["ACCOUNT", "STREAM", "CANCEL_MOVE"])
_RESCUE: Final = ["META", "RESCUE"]
"""Each server of a group answers it (daemon/rescue_request.py), and no lone one."""


def is_move(tokens: list[str]) -> bool:
    """Whether a request is an order about where one stream is."""
    return len(tokens) == STREAM + 1 and tokens[:ACCOUNT] in _MOVES


def is_order(account: JetStreamAccount, tokens: list[str]) -> bool:
    """Whether the group carries out what that account asks."""
    if is_move(tokens):
        return account.system or tokens[ACCOUNT] == account.name
    return account.system and tokens in _ORDERS


def is_unheard(tokens: list[str], header: bytes) -> bool:
    """Whether the system account hears nothing of what it asks a lone server, as from the reference."""
    answered = tokens == ["INFO"] or (tokens[:2] == ["ACCOUNT", "PURGE"] and len(tokens) == ACCOUNT)
    unheard = is_move(tokens) or tokens in _ORDERS or tokens == _RESCUE
    return unheard or (answered and not fits_level(header))
