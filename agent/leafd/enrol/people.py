"""Boxes as users of the leaf listener: the policy's nkeys, and beside them those of all who are enrolled today.

    permissions { publish: "telemetry.{{name()}}.>" }   of box-0001:   publish telemetry.box-0001.>

A box is a user by its key, may only come as a leaf, and has the rights of the block's template with its own name filled
in. Nobody of the configuration is pushed aside: a key that stands there is that user's.

With an operator there are no such users: the hub brings the JWT that the box has not (user_token()).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from leafd.auth.jwt_claims import NO_LIMIT
from leafd.auth.jwt_write import write
from leafd.auth.policy import Person, Policy, Rights, compile_rights
from leafd.auth.verdict import LEAF_TYPES
from leafd.config.schema.enrol import PLACE, Enrol
from leafd.enrol.register import Box, Register

_KINDS: Final = frozenset(LEAF_TYPES)


class Keys(Mapping[str, Person]):
    """Public nkeys and whose they are."""

    def __init__(self, configured: Mapping[str, Person], block: Enrol, register: Register) -> None:
        self._configured = configured
        self._register = register
        self._account = block.account
        self._rights = compile_rights(block.permissions)

    def __getitem__(self, nkey: str) -> Person:
        person = self._configured.get(nkey)
        if person is not None:
            return person
        box = self._register.by_key[nkey]
        return Person(nkey, self._account, nkey=nkey, rights=rights_of(self._rights, box), connection_types=_KINDS)

    def __iter__(self) -> Iterator[str]:
        yield from self._configured
        yield from (nkey for nkey in self._register.by_key if nkey not in self._configured)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True  # a box that has none yet may have one in a moment

    def __contains__(self, nkey: object) -> bool:
        return nkey in self._configured or nkey in self._register.by_key


def widened(policy: Policy, block: Enrol | None, register: Register | None) -> Policy:
    """The leaf listener's policy with the boxes that are enrolled."""
    if block is None or register is None or policy.trust is not None:
        return policy
    return replace(policy, nkeys=Keys(policy.nkeys, block, register), open=False)


def user_token(box: Box, account: str, seed: str, *, scoped: bool) -> str:
    """With an operator: the JWT of a box's user, which the hub keeps for it. Signed anew whenever it is needed, by
    the key of today, and issued when the box was enrolled: so a revocation that an operator signs counts, and a new
    signing key takes nobody's place. scoped: the key has a template, which says what its users may do."""
    body: dict[str, Any] = {"issuer_account": account}
    if not scoped:
        body |= {"subs": NO_LIMIT, "data": NO_LIMIT, "payload": NO_LIMIT, "allowed_connection_types": list(LEAF_TYPES)}
    return write("user", box.nkey, body, seed, box.enrolled_s, name=box.name)


def rights_of(template: Rights, box: Box) -> Rights:
    """The template's, for one box."""
    lists = ("publish_allow", "publish_deny", "subscribe_allow", "subscribe_deny")
    if not any(PLACE in subject for name in lists for subject in getattr(template, name)):
        return template

    def filled(subjects: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(one.replace(PLACE, box.name) for one in subjects)

    return replace(
        template,
        publish_allow=filled(template.publish_allow),
        publish_deny=filled(template.publish_deny),
        subscribe_allow=filled(template.subscribe_allow),
        subscribe_deny=filled(template.subscribe_deny),
    )
