"""The rights of a user of a scoped signing key: the key's template, with the user's and the account's names filled in.

    "orders.{{tag(region)}}.>" with the tags region:eu and region:us  -->  orders.eu.>  orders.us.>

As in the reference an allowed subject that does not come out as a subject is left out, and where all are, nothing is
allowed; a denied one that does not come out refuses the login. Not here: whose key it is (trust.py).
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from typing import Final

from leafd.auth.jwt_claims import AccountClaims, Permission, UserBody, UserClaims, UserLimits
from leafd.config.schema.permissions import is_subject

SUBJECTS_MAX: Final = 4096
"""The most subjects that one template may come to: tags multiply."""
_PLACE: Final = re.compile(r"\{\{([^}]+)\}\}")
_TAG: Final = re.compile(r"(account-)?tag\((.*)\)")
_NONE: Final = UserLimits()


class ScopeError(ValueError):
    """The template does not fit the user."""


def has_own_limits(body: UserBody) -> bool:
    """Whether a user's JWT says anything of what a scoped key's template says."""
    return any(getattr(body, name) != getattr(_NONE, name) for name in _NONE.__match_args__)


def filled_in(template: UserLimits, user: UserClaims, account: AccountClaims) -> UserLimits:
    """The template for one user. Raises ScopeError."""
    values: dict[str, tuple[str, ...]] = {
        "name()": (user.name,),
        "subject()": (user.sub,),
        "account-name()": (account.name,),
        "account-subject()": (account.sub,),
    }
    names = _Names(values, user.nats.tags, account.nats.tags)
    return replace(template, pub=_direction(template.pub, names), sub=_direction(template.sub, names))


class _Names:
    """The names that may stand between double braces."""

    def __init__(
        self, values: dict[str, tuple[str, ...]], tags: tuple[str, ...], account_tags: tuple[str, ...]
    ) -> None:
        self._values = values
        self._tags = tags
        self._account_tags = account_tags

    def of(self, place: str) -> tuple[str, ...]:
        """The values of one place; none when the user has no such tag. Raises ScopeError."""
        operation = place.strip().lower()
        if operation in self._values:
            return self._values[operation]
        found = _TAG.fullmatch(operation)
        if not found:
            raise ScopeError(f"the template has {{{{{place[:50]}}}}}, which is not known")
        prefix = f"{found[2]}:"
        tags = self._account_tags if found[1] else self._tags
        return tuple(tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix))


def _direction(template: Permission, names: _Names) -> Permission:
    allow = _subjects(template.allow, names, required=False)
    deny = _subjects(template.deny, names, required=True)
    if template.allow and not allow:
        deny = (*deny, ">")
    return Permission(allow, deny)


def _subjects(template: tuple[str, ...], names: _Names, *, required: bool) -> tuple[str, ...]:
    found: list[str] = []
    for one in template:
        pieces = _PLACE.split(one)  # text, place, text, place ... text
        if len(pieces) == 1:
            found.append(one)
            continue
        values = {place: names.of(place) for place in pieces[1::2]}
        if len(found) + math.prod(len(values[place]) for place in pieces[1::2]) > SUBJECTS_MAX:
            raise ScopeError(f"the template comes to more than {SUBJECTS_MAX} subjects")
        if required and not all(values.values()):
            raise ScopeError(f"{one!r} is denied, and the user has no such tag")
        for chosen in itertools.product(*values.values()):
            # A place that occurs twice has the same value both times: a.{{tag(t)}}.{{tag(t)}} is a.1.1 and a.2.2.
            filled = dict(zip(values, chosen, strict=True))
            subject = "".join(filled[piece] if at % 2 else piece for at, piece in enumerate(pieces))
            if _valid(subject):
                found.append(subject)
            elif required:
                raise ScopeError(f"{one!r} is denied, and becomes no valid subject")
    return tuple(found)


def _valid(subject: str) -> bool:
    return is_subject(subject)
