"""The subjects that may go over a leaf link, and those that may not. Pure. Who says what when: leaf.py."""

from __future__ import annotations

from dataclasses import replace

from leafd.native_types import Permissions


def jetstream_denies(
    local: str, remote: str, *, system: bool, jetstream: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Subjects that may not leave, and that may not come in, because each side has a JetStream of its own.

    local, remote: domains, "" when there is none. Reference: tests/wire/leaf.md. Extending one JetStream over
    a link (same domain, system account) is not something this server does, so the system account is always kept apart.
    """
    if system:
        apart = ("$JSC.>", "$NRG.>", "$JS.API.>", "$KV.>", "$OBJ.>")
        return apart, apart
    own = ("$JS.API.>", "$KV.>", "$OBJ.>")
    if local and jetstream and local != remote:
        return (*own, f"$JS.{local}.API.>"), own
    return own, own


def mirrored(permissions: Permissions) -> Permissions:
    """A leaf's rights as this end has them: what the leaf may publish comes in here; what it may subscribe to goes out
    to it."""
    return Permissions(
        publish_allow=permissions.subscribe_allow,
        publish_deny=permissions.subscribe_deny,
        subscribe_allow=permissions.publish_allow,
        subscribe_deny=permissions.publish_deny,
        mapped_deny=permissions.publish_deny,
        author=permissions.author,
    )


def with_denies(permissions: Permissions, out: tuple[str, ...], incoming: tuple[str, ...]) -> Permissions:
    return replace(
        permissions,
        publish_deny=tuple(dict.fromkeys((*permissions.publish_deny, *out))),
        subscribe_deny=tuple(dict.fromkeys((*permissions.subscribe_deny, *incoming))),
    )
