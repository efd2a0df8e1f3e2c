"""The rights that two sets have in common: a reload passes through them, so that no client ever has rights of the old
configuration beside a client with rights of the new one that the old one would have kept apart.

Pure, and exact but for the two cases that common_rights() names. Not here: who has which rights
(policy.py), what the lists mean to a message (native/route/permissions.c).
"""

from __future__ import annotations

from typing import Final

from leafd.auth.policy import EVERYTHING, Rights
from leafd.config.schema.sharing import is_subset

PAIRS_MAX: Final = 20_000
_Lists = tuple[tuple[str, ...], tuple[str, ...]]


def common_rights(old: Rights, new: Rights) -> Rights:
    """The rights that both allow. Of allow lists that name queue groups, or have more than PAIRS_MAX pairs of patterns,
    it is the new list."""
    if old == new:
        return new
    publish = _common((old.publish_allow, old.publish_deny), (new.publish_allow, new.publish_deny))
    subscribe = _common((old.subscribe_allow, old.subscribe_deny), (new.subscribe_allow, new.subscribe_deny))
    ttl_ns = min((one.response_ttl_ns for one in (old, new) if one.response_ttl_ns), default=0)  # 0: for ever
    return Rights(*publish, *subscribe, min(old.response_max, new.response_max), ttl_ns)


def _common(old: _Lists, new: _Lists) -> _Lists:
    deny = _all_of(old[1], new[1])
    if not old[0] or not new[0]:
        return old[0] or new[0], deny
    allow = _allowed_by_both(old[0], new[0])
    return (allow, deny) if allow else ((), (EVERYTHING,))


def _all_of(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """One of the lists as it is, where it has all of the other: there is nothing to change then."""
    if set(old) <= set(new):
        return new
    return old if set(new) <= set(old) else tuple(dict.fromkeys((*old, *new)))


def _allowed_by_both(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    if set(old) == set(new):
        return new
    if len(old) * len(new) > PAIRS_MAX or any(" " in pattern for pattern in (*old, *new)):
        return new
    if all(any(is_subset(inner, outer) for outer in old) for inner in new):
        return new
    if all(any(is_subset(inner, outer) for outer in new) for inner in old):
        return old
    found = (intersection(one, other) for one in old for other in new)
    return tuple(dict.fromkeys(pattern for pattern in found if pattern))


def intersection(one: str, other: str) -> str:
    """The pattern of the subjects that match both; empty when there are none."""
    left, right = one.split("."), other.split(".")
    tokens: list[str] = []
    for at in range(max(len(left), len(right))):
        a = left[at] if at < len(left) else ""
        b = right[at] if at < len(right) else ""
        if EVERYTHING in (a, b) and a and b:
            return ".".join((*tokens, *(right if a == EVERYTHING else left)[at:]))
        if not a or not b or (a != b and "*" not in (a, b)):
            return ""
        tokens.append(b if a == "*" else a)
    return ".".join(tokens)
