"""Operator mode's verdicts: what a JWT was judged to be, as verdict.py's callers take it.

Not here: the judging (trust.py), lists of permissions as a configuration has them (policy.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from leafd.auth.jwt_claims import Permissions, UserClaims
from leafd.auth.policy import EVERYTHING, Rights
from leafd.auth.trust import ACCOUNT_EXPIRED, REVOKED, Denied, Expired, Proven, Trust, Unknown, limit
from leafd.auth.verdict import AUTHORIZATION_VIOLATION, Refusal, Verdict
from leafd.config.schema.permissions import RESPONSE_TTL_DEFAULT_NS, RESPONSES_DEFAULT

_COUNT_MAX: Final = (1 << 32) - 1
_TEXTS: Final = {
    REVOKED: "User Authentication Revoked",
    ACCOUNT_EXPIRED: "Account Authentication Expired",
}
"""Errors for a client that was logged in and no longer may be; at a login these are Authorization Violations."""


def identify_jwt(connect: Mapping[str, Any], nonce: str, trust: Trust, kind: str, host: str) -> Verdict | Refusal:
    """The verdict on a CONNECT with a JWT."""
    token, signature = connect.get("jwt"), connect.get("sig")
    try:
        proven = trust.judge(
            token if isinstance(token, str) else "",
            nonce,
            signature if isinstance(signature, str) else "",
            kind,
            host,
        )
    except Expired as error:  # there may be a newer JWT
        return Refusal(AUTHORIZATION_VIOLATION, why=str(error), unknown=error.account)
    except Denied as error:
        return Refusal(AUTHORIZATION_VIOLATION, why=str(error))
    except Unknown as error:
        return Refusal(AUTHORIZATION_VIOLATION, why=str(error), unknown=error.account)
    return _verdict(proven)


def again_jwt(proof: UserClaims | None, trust: Trust | None, kind: str, host: str) -> Verdict | Refusal:
    """The verdict today on a user whose JWT was accepted before."""
    if proof is None or trust is None:
        return Refusal(AUTHORIZATION_VIOLATION)
    try:
        return _verdict(trust.judge_again(proof, kind, host))
    except Denied as error:
        return Refusal(_TEXTS.get(str(error), ""), why=str(error))
    except Unknown as error:  # it was deleted
        return Refusal(_TEXTS[ACCOUNT_EXPIRED], why=str(error))


def _verdict(proven: Proven) -> Verdict:
    rights = rights_of(proven.permissions)
    if proven.limits.subs == 0:
        rights = Rights(
            rights.publish_allow,
            rights.publish_deny,
            (),
            (EVERYTHING,),
            rights.response_max,
            rights.response_ttl_ns,
        )
    return Verdict(
        proven.account,
        proven.claims.sub,
        rights,
        # 0 is a limit, too; to the plane it would be none.
        max_payload=max(limit(proven.limits.payload), 1) if proven.limits.payload >= 0 else -1,
        max_subscriptions=limit(proven.limits.subs) or -1,
        expires_ns=proven.expires_ns,
        proof=proven.claims,
    )


def rights_of(permissions: Permissions) -> Rights:
    """Permissions of a JWT as the plane takes them."""
    pub, sub, responses = permissions.pub, permissions.sub, permissions.resp
    if responses is None:
        return Rights(pub.allow, pub.deny, sub.allow, sub.deny)
    allow, deny = pub.allow, pub.deny
    if not allow:
        # Somebody who may answer and has no list of his own may do nothing but answer.
        allow, deny = (), (EVERYTHING,)
    count = _COUNT_MAX if responses.max < 0 else min(responses.max or RESPONSES_DEFAULT, _COUNT_MAX)
    ttl_ns = 0 if responses.ttl < 0 else responses.ttl or RESPONSE_TTL_DEFAULT_NS
    return Rights(allow, deny, sub.allow, sub.deny, count, ttl_ns)
