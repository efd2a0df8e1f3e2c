"""The plane's questions and events about those who stored schedules. Not here: who that is, and what
they may do (daemon/authors.py)."""

from __future__ import annotations

from enum import IntEnum

from leafd.native import abi
from leafd.records import dataclass


class AuthorCode(IntEnum):
    """The kinds of events about the author of a schedule (AUTHOR_* of abi.h)."""

    ASKED = abi.AUTHOR_ASKED
    DENIED = abi.AUTHOR_DENIED


@dataclass(frozen=True, slots=True)
class Author:
    """An event about the author of a schedule. ASKED: what may it do today (tell_author)? DENIED: it may not use
    `denied`, and its schedule was not carried out."""

    code: int
    account: int
    ticket: int
    stream: int
    author: str
    denied: str
    schedule: str
    left_out: int
