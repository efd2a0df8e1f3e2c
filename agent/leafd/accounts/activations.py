"""Activations: the JWT by which an exporter lets one account import a subject that is not for everybody.

Pure but for the time, which an activation ends by; who recompiles the account then is daemon/'s business.
Not here: the other ways to be let in (claims.py).
"""

from __future__ import annotations

import time

from leafd.auth.jwt import JwtError, read
from leafd.auth.jwt_claims import ActivationClaims, ExportClaim, ImportClaim
from leafd.auth.trust import Denied, TrustedAccount, check_times, is_revoked
from leafd.config.schema.sharing import is_subset


def activation(one: ImportClaim) -> ActivationClaims | None:
    """The activation that an import brings, if it is one and it is time for it."""
    try:
        claims = read(ActivationClaims, one.token)
        check_times(claims, time.time())
    except (JwtError, Denied):
        return None
    return claims


def activated(one: ImportClaim, export: ExportClaim, exporter: TrustedAccount, importer: str) -> bool:
    """Whether an import's activation counts: by the exporter, for this account and subject, neither over nor
    revoked."""
    claims = activation(one)
    return (
        claims is not None
        and claims.account == exporter.claims.sub
        and claims.iss in exporter.keys
        and claims.sub == importer
        and claims.nats.kind == one.type
        and is_subset(one.names[0], claims.nats.subject)
        and not is_revoked(export.revocations, claims.sub, claims.iat)
    )
