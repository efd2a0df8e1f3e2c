"""The author of a stored schedule, in a few words that outlive the login, and the author's rights today.

    a login --author_of()--> '["user","STANDARD","alice"]', in the stored schedule --may_today()--> Rights, or None

What a JWT with permissions of its own may do does not change: the schedule's author was judged by it then, so
today only counts whether it still stands: not revoked, and its signing key the account's. That its time is over takes
nothing away that was stored in time. A callout's service is not asked again. Not here: hubs that the
configuration names (daemon/authors.py), what the lists mean (native/route/permissions.c).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from leafd.auth.policy import GLOBAL_ACCOUNT, Policy, Rights

if TYPE_CHECKING:
    from leafd.auth.jwt_claims import UserClaims
    from leafd.auth.trust import Trust
    from leafd.auth.verdict import Verdict

SIZE_MAX: Final = 2048
NOBODY: Final = "-"
"""The author of a schedule who has no rights to be looked up: native/plane/judge.c writes it, too."""


def author_of(verdict: Verdict, policy: Policy, kind: str) -> str:
    """The author for a connection that has logged in; the empty string where no login is needed."""
    if policy.open:
        return ""
    return written(_words(verdict, policy, kind))


def written(words: list[Any]) -> str:
    """As it stands in the header: one line of ASCII. Nobody's where that would be too long."""
    found = json.dumps(words, separators=(",", ":"))
    return found if len(found) <= SIZE_MAX else NOBODY


def read(author: str) -> list[Any]:
    """The list that written() was given; empty for any other text."""
    try:
        words = json.loads(author)
    except (ValueError, RecursionError):
        return []
    return words if isinstance(words, list) and len(words) >= 2 else []


def _words(verdict: Verdict, policy: Policy, kind: str) -> list[Any]:
    from leafd.auth.verdict import Called  # here: it knows this room's other modules

    proof = verdict.proof
    if isinstance(proof, Called):
        return ["callout", kind, proof.callout.account, proof.callout.issuer]
    if proof is not None:
        return jwt_words(proof, kind)
    if verdict.user:
        return ["user", kind, verdict.user]
    return ["token", kind] if policy.token else ["anyone", kind]


def jwt_words(proof: UserClaims, kind: str) -> list[Any]:
    """The words for a login with that JWT."""
    from leafd.auth.trust import has_own_permissions

    own = has_own_permissions(proof)
    return ["jwt", kind, proof.account, proof.iss, proof.sub, proof.iat, own, proof.name, list(proof.nats.tags)]


def may_today(words: list[Any], account: str, policy_of: Callable[[str], Policy]) -> Rights | None:
    """The rights that this author has in the account today; None: no rights any more. policy_of: by which those log in
    who come in that way. Raises trust.Unknown."""
    match words:
        case ["user", str(kind), str(name)]:
            person = policy_of(kind).person(name)
            types = person.connection_types if person is not None else ()
            there = person is not None and person.account == account and (not types or kind in types)
            return person.rights if person is not None and there else None
        case ["token", str(kind)]:
            return Rights() if policy_of(kind).token and account == GLOBAL_ACCOUNT else None
        case ["anyone", str(kind)]:
            policy = policy_of(kind)
            person = policy.no_auth_user
            if policy.open and account == GLOBAL_ACCOUNT:
                return Rights()
            return person.rights if person is not None and person.account == account else None
        case ["callout", str(kind), str(service), str(issuer)]:
            return Rights() if _is_called(policy_of(kind), service, issuer) else None
        case ["jwt", str(kind), *claims]:
            trust = policy_of(kind).trust
            return _by_jwt(trust, account, claims) if trust is not None else None
    return None


def _is_called(policy: Policy, service: str, issuer: str) -> bool:
    callout = policy.callout
    if policy.trust is not None:
        from leafd.auth.callout import account_callout

        callout = account_callout(policy.trust, service)
    return callout is not None and (callout.account, callout.issuer) == (service, issuer)


def _by_jwt(trust: Trust, account: str, claims: list[Any]) -> Rights | None:
    from leafd.auth.jwt_claims import UserBody, UserClaims
    from leafd.auth.jwt_verdict import rights_of
    from leafd.auth.trust import Denied

    match claims:
        case [str(named), str(issuer), str(subject), int(issued), bool(own), str(name), list(tags)] if named == account:
            body = UserBody(tags=tuple(str(tag) for tag in tags), issuer_account=named if named != issuer else "")
            user = UserClaims(sub=subject, iss=issuer, iat=issued, name=name, nats=body)
        case _:
            return None
    try:
        permissions = trust.stands(user, own=own)
    except Denied:
        return None
    return rights_of(permissions) if permissions is not None else Rights()
