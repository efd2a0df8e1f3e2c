"""The claims that JWTs of NATS carry, as frozen records: operator, account, user, activation, and the generic ones.

Names and types are the reference's, written down once, here; a value of another type is an error that names the field,
a field that is not declared is ignored, as a later version may have it. A number that is absent is 0, as in Go, and -1
means no limit. Not here: signatures (jwt.py), rules that join several fields (jwt_rules.py), what
anybody may do (trust.py, accounts/claims.py).
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from leafd.gojson import DURATION, FLAG, INT, INT64, TEXT, Integer, Kind, ListOf, MapOf, Nested, Number, Struct, wire
from leafd.records import dataclass

VERSION_MAX: Final = 2
NO_LIMIT: Final = -1
USER_SCOPE: Final = "user_scope"
SERVICE: Final = "service"
STREAM: Final = "stream"

_TEXTS: Final = ListOf(TEXT, "jwt.StringList")


class _Networks(Kind):
    """A list of networks, or, as version 1 had it, one text with commas."""

    def __init__(self) -> None:
        super().__init__(())

    def read(self, value: Any, path: tuple[str, ...], strict: bool) -> tuple[str, ...]:
        if isinstance(value, str) and not isinstance(value, Number):
            return tuple(one.strip() for one in value.split(",") if one.strip())
        found: tuple[str, ...] = _TEXTS.read(value, path, strict)
        return found


# ---- what a user may do


@dataclass(frozen=True, slots=True)
class Permission(Struct):
    """Subjects of one direction."""

    go_name: ClassVar[str] = "Permission"

    allow: tuple[str, ...] = wire(_TEXTS, "allow")
    deny: tuple[str, ...] = wire(_TEXTS, "deny")


@dataclass(frozen=True, slots=True)
class ResponsePermission(Struct):
    """Answers to requests that were received. ttl in ns."""

    go_name: ClassVar[str] = "ResponsePermission"

    max: int = wire(INT, "max")
    ttl: int = wire(DURATION, "ttl")


@dataclass(frozen=True, slots=True)
class Permissions(Struct):
    """Both directions."""

    go_name: ClassVar[str] = "Permissions"

    pub: Permission = wire(Nested(Permission, pointer=False), "pub")
    sub: Permission = wire(Nested(Permission, pointer=False), "sub")
    resp: ResponsePermission | None = wire(Nested(ResponsePermission), "resp")


@dataclass(frozen=True, slots=True)
class TimeRange(Struct):
    """A part of the day: HH:MM:SS."""

    go_name: ClassVar[str] = "TimeRange"

    start: str = wire(TEXT, "start")
    end: str = wire(TEXT, "end")


@dataclass(frozen=True, slots=True)
class UserLimits(Permissions):
    """Permissions and limits of a user, in its own JWT or in the template of a signing key (TemplateLimits)."""

    go_name: ClassVar[str] = "UserPermissionLimits"

    src: tuple[str, ...] = wire(_Networks(), "src")
    times: tuple[TimeRange, ...] = wire(ListOf(Nested(TimeRange, pointer=False), "[]jwt.TimeRange"), "times")
    locale: str = wire(TEXT, "times_location")
    subs: int = wire(INT64, "subs")
    data: int = wire(INT64, "data")
    payload: int = wire(INT64, "payload")
    bearer_token: bool = wire(FLAG, "bearer_token")
    proxy_required: bool = wire(FLAG, "proxy_required")
    allowed_connection_types: tuple[str, ...] = wire(_TEXTS, "allowed_connection_types")


@dataclass(frozen=True, slots=True)
class UserBody(UserLimits):
    """The nats part of a user's JWT."""

    go_name: ClassVar[str] = "User"

    type: str = wire(TEXT, "type")
    version: int = wire(INT, "version")
    tags: tuple[str, ...] = wire(_TEXTS, "tags")
    issuer_account: str = wire(TEXT, "issuer_account")


# ---- accounts


class _Limit(Integer):
    """A limit of a template: none where nothing is said."""

    def __init__(self) -> None:
        super().__init__("int64", INT64.low, INT64.high)
        self.default = NO_LIMIT


_LIMIT: Final = _Limit()


@dataclass(frozen=True, slots=True)
class TemplateLimits(UserLimits):
    """Permissions and limits in the template of a signing key. nsc leaves out what is unlimited; in a user's own JWT
    one that is left out is 0."""

    subs: int = wire(_LIMIT, "subs")
    data: int = wire(_LIMIT, "data")
    payload: int = wire(_LIMIT, "payload")


class _SigningKeys(Kind):
    """Keys that sign for an account: each a key, or a key with the template of what it may sign."""

    def __init__(self) -> None:
        super().__init__(())

    def read(self, value: Any, path: tuple[str, ...], strict: bool) -> tuple[SigningKey, ...]:
        found: tuple[SigningKey, ...] = ListOf(_OneSigningKey(), "jwt.SigningKeys").read(value, path, strict)
        return found


class _OneSigningKey(Kind):
    def null(self, path: tuple[str, ...]) -> SigningKey:
        return SigningKey()

    def read(self, value: Any, path: tuple[str, ...], strict: bool) -> SigningKey:
        if isinstance(value, str) and not isinstance(value, Number):
            return SigningKey(key=value)
        found: SigningKey = Nested(SigningKey).read(value, path, strict)
        return found


@dataclass(frozen=True, slots=True)
class SigningKey(Struct):
    """One of them. kind: empty for a key that may sign any user of the account."""

    go_name: ClassVar[str] = "UserScope"

    kind: str = wire(TEXT, "kind")
    key: str = wire(TEXT, "key")
    role: str = wire(TEXT, "role")
    template: UserLimits = wire(Nested(TemplateLimits, pointer=False), "template")


class _Sampling(Kind):
    """Percent, or 0 for "headers"."""

    def __init__(self) -> None:
        super().__init__(0)

    def read(self, value: Any, path: tuple[str, ...], strict: bool) -> int:
        if isinstance(value, str) and not isinstance(value, Number) and value.lower() == "headers":
            return 0
        found: int = INT.read(value, path, strict)
        return found


@dataclass(frozen=True, slots=True)
class LatencyClaim(Struct):
    """How it is measured how long a service takes."""

    go_name: ClassVar[str] = "ServiceLatency"

    sampling: int = wire(_Sampling(), "sampling")
    results: str = wire(TEXT, "results")


@dataclass(frozen=True, slots=True)
class ExportClaim(Struct):
    """A subject that other accounts may import. response_threshold in ns."""

    go_name: ClassVar[str] = "Export"

    name: str = wire(TEXT, "name")
    subject: str = wire(TEXT, "subject")
    type: str = wire(TEXT, "type")
    token_req: bool = wire(FLAG, "token_req")
    revocations: dict[str, int] = wire(MapOf(INT64, "jwt.RevocationList"), "revocations")
    response_type: str = wire(TEXT, "response_type")
    response_threshold: int = wire(DURATION, "response_threshold")
    latency: LatencyClaim | None = wire(Nested(LatencyClaim), "service_latency")
    account_token_position: int = wire(INT, "account_token_position")
    allow_trace: bool = wire(FLAG, "allow_trace")


@dataclass(frozen=True, slots=True)
class ImportClaim(Struct):
    """A subject of another account. With local_subject, that is the name here; `to` is the older way to say it, which
    has for services both names the other way round."""

    go_name: ClassVar[str] = "Import"

    name: str = wire(TEXT, "name")
    subject: str = wire(TEXT, "subject")
    account: str = wire(TEXT, "account")
    token: str = wire(TEXT, "token")
    to: str = wire(TEXT, "to")
    local_subject: str = wire(TEXT, "local_subject")
    type: str = wire(TEXT, "type")
    share: bool = wire(FLAG, "share")
    allow_trace: bool = wire(FLAG, "allow_trace")

    @property
    def names(self) -> tuple[str, str]:
        """(the exporter's subject, the importer's)."""
        if self.local_subject:
            return self.subject, self.local_subject
        if not self.to:
            return self.subject, self.subject
        if self.type == SERVICE:
            return self.to, self.subject
        return self.subject, f"{self.to}.{self.subject}" if self.type == STREAM else self.to


@dataclass(frozen=True, slots=True)
class JetStreamLimits(Struct):
    """The JetStream limits of an account, in all or of one tier."""

    go_name: ClassVar[str] = "JetStreamLimits"

    mem_storage: int = wire(INT64, "mem_storage")
    disk_storage: int = wire(INT64, "disk_storage")
    streams: int = wire(INT64, "streams")
    consumer: int = wire(INT64, "consumer")
    max_ack_pending: int = wire(INT64, "max_ack_pending")
    mem_max_stream_bytes: int = wire(INT64, "mem_max_stream_bytes")
    disk_max_stream_bytes: int = wire(INT64, "disk_max_stream_bytes")
    max_bytes_required: bool = wire(FLAG, "max_bytes_required")


@dataclass(frozen=True, slots=True)
class AccountLimits(JetStreamLimits):
    """All limits of an account."""

    go_name: ClassVar[str] = "OperatorLimits"

    subs: int = wire(INT64, "subs")
    data: int = wire(INT64, "data")
    payload: int = wire(INT64, "payload")
    imports: int = wire(INT64, "imports")
    exports: int = wire(INT64, "exports")
    wildcards: bool = wire(FLAG, "wildcards")
    disallow_bearer: bool = wire(FLAG, "disallow_bearer")
    conn: int = wire(INT64, "conn")
    leaf: int = wire(INT64, "leaf")
    tiers: dict[str, JetStreamLimits] = wire(
        MapOf(Nested(JetStreamLimits, pointer=False), "jwt.JetStreamTieredLimits"), "tiered_limits"
    )


@dataclass(frozen=True, slots=True)
class MappingClaim(Struct):
    """One destination of a mapping; a weight of 0 is one of 100."""

    go_name: ClassVar[str] = "WeightedMapping"

    subject: str = wire(TEXT, "subject")
    weight: int = wire(INT, "weight")
    cluster: str = wire(TEXT, "cluster")


@dataclass(frozen=True, slots=True)
class AuthorizationClaim(Struct):
    """Logins of the account are judged by a service (auth callout)."""

    go_name: ClassVar[str] = "ExternalAuthorization"

    auth_users: tuple[str, ...] = wire(_TEXTS, "auth_users")
    allowed_accounts: tuple[str, ...] = wire(_TEXTS, "allowed_accounts")
    xkey: str = wire(TEXT, "xkey")


@dataclass(frozen=True, slots=True)
class TraceClaim(Struct):
    """An account's consent to traces that other systems ask for, and the subject that gets them."""

    go_name: ClassVar[str] = "MsgTrace"

    dest: str = wire(TEXT, "dest")
    sampling: int = wire(INT, "sampling")


@dataclass(frozen=True, slots=True)
class AccountBody(Struct):
    """The nats part of an account's JWT."""

    go_name: ClassVar[str] = "Account"

    type: str = wire(TEXT, "type")
    version: int = wire(INT, "version")
    tags: tuple[str, ...] = wire(_TEXTS, "tags")
    imports: tuple[ImportClaim, ...] = wire(ListOf(Nested(ImportClaim, pointer=False), "jwt.Imports"), "imports")
    exports: tuple[ExportClaim, ...] = wire(ListOf(Nested(ExportClaim, pointer=False), "jwt.Exports"), "exports")
    limits: AccountLimits = wire(Nested(AccountLimits, pointer=False), "limits")
    signing_keys: tuple[SigningKey, ...] = wire(_SigningKeys(), "signing_keys")
    revocations: dict[str, int] = wire(MapOf(INT64, "jwt.RevocationList"), "revocations")
    default_permissions: Permissions = wire(Nested(Permissions, pointer=False), "default_permissions")
    mappings: dict[str, tuple[MappingClaim, ...]] = wire(
        MapOf(ListOf(Nested(MappingClaim, pointer=False), "[]jwt.WeightedMapping"), "jwt.Mapping"), "mappings"
    )
    authorization: AuthorizationClaim = wire(Nested(AuthorizationClaim, pointer=False), "authorization")
    trace: TraceClaim = wire(Nested(TraceClaim, pointer=False), "trace")
    description: str = wire(TEXT, "description")
    info_url: str = wire(TEXT, "info_url")


# ---- operators, activations, requests


@dataclass(frozen=True, slots=True)
class OperatorBody(Struct):
    """The nats part of an operator's JWT."""

    go_name: ClassVar[str] = "Operator"

    type: str = wire(TEXT, "type")
    version: int = wire(INT, "version")
    tags: tuple[str, ...] = wire(_TEXTS, "tags")
    signing_keys: tuple[str, ...] = wire(_TEXTS, "signing_keys")
    account_server_url: str = wire(TEXT, "account_server_url")
    operator_service_urls: tuple[str, ...] = wire(_TEXTS, "operator_service_urls")
    system_account: str = wire(TEXT, "system_account")
    assert_server_version: str = wire(TEXT, "assert_server_version")
    strict_signing_key_usage: bool = wire(FLAG, "strict_signing_key_usage")


@dataclass(frozen=True, slots=True)
class ActivationBody(Struct):
    """The nats part of an activation: which subject of the issuer the account named as subject may import."""

    go_name: ClassVar[str] = "Activation"

    type: str = wire(TEXT, "type")
    version: int = wire(INT, "version")
    subject: str = wire(TEXT, "subject")
    kind: str = wire(TEXT, "kind")
    issuer_account: str = wire(TEXT, "issuer_account")


@dataclass(frozen=True, slots=True)
class GenericBody(Struct):
    """The nats part of a request to delete accounts."""

    go_name: ClassVar[str] = "Generic"

    type: str = wire(TEXT, "type")
    version: int = wire(INT, "version")
    accounts: tuple[str, ...] = wire(_TEXTS, "accounts")


@dataclass(frozen=True, slots=True)
class Claims(Struct):
    """The claims that every JWT has. Times are seconds since 1970, 0 when there is none. old_type: where version 1 has
    it."""

    kind: ClassVar[str] = ""

    jti: str = wire(TEXT, "jti")
    iat: int = wire(INT64, "iat")
    iss: str = wire(TEXT, "iss")
    sub: str = wire(TEXT, "sub")
    name: str = wire(TEXT, "name")
    aud: str = wire(TEXT, "aud")
    exp: int = wire(INT64, "exp")
    nbf: int = wire(INT64, "nbf")
    old_type: str = wire(TEXT, "type")

    @property
    def body(self) -> Any:
        """The nats part."""
        return getattr(self, "nats", None)

    @property
    def version(self) -> int:
        """The version of the form, 1 where it is not said."""
        return self.body.version or 1

    @property
    def declared(self) -> str:
        """The type that it says it is."""
        return str(self.body.type or self.old_type)


@dataclass(frozen=True, slots=True)
class OperatorClaims(Claims):
    """The claims of an operator, which vouches for accounts."""

    go_name: ClassVar[str] = "OperatorClaims"
    kind: ClassVar[str] = "operator"

    nats: OperatorBody = wire(Nested(OperatorBody, pointer=False), "nats")


@dataclass(frozen=True, slots=True)
class AccountClaims(Claims):
    """The claims of an account: its limits, imports, exports and keys."""

    go_name: ClassVar[str] = "AccountClaims"
    kind: ClassVar[str] = "account"

    nats: AccountBody = wire(Nested(AccountBody, pointer=False), "nats")


@dataclass(frozen=True, slots=True)
class AccountGiven(Claims):
    """The part of an account's claims that the account's own key or a signing key decides."""

    @property
    def account(self) -> str:
        """The key of that account."""
        return str(self.body.issuer_account or self.iss)


@dataclass(frozen=True, slots=True)
class UserClaims(AccountGiven):
    """The claims of a user: its rights and limits."""

    go_name: ClassVar[str] = "UserClaims"
    kind: ClassVar[str] = "user"

    nats: UserBody = wire(Nested(UserBody, pointer=False), "nats")


@dataclass(frozen=True, slots=True)
class ActivationClaims(AccountGiven):
    """Leave of an exporter for one account to import."""

    go_name: ClassVar[str] = "ActivationClaims"
    kind: ClassVar[str] = "activation"

    nats: ActivationBody = wire(Nested(ActivationBody, pointer=False), "nats")


@dataclass(frozen=True, slots=True)
class GenericClaims(Claims):
    """A request that the operator signs."""

    go_name: ClassVar[str] = "GenericClaims"
    kind: ClassVar[str] = "generic"

    nats: GenericBody = wire(Nested(GenericBody, pointer=False), "nats")
