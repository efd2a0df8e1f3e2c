"""The configuration's users as verdict.py looks them up: flat, frozen, made anew at each reload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from leafd.auth.nkeys import PREFIX_ACCOUNT, is_public_key
from leafd.config.schema.leafnodes import LeafAuthorization
from leafd.config.schema.permissions import Permissions, Subjects, User
from leafd.config.schema.server import ServerConfig
from leafd.errors import ConfigError
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.auth.trust import Trust
    from leafd.config.schema.mqtt import Mqtt
    from leafd.config.schema.websocket import WebSocket

GLOBAL_ACCOUNT: Final = "$G"
SYSTEM_ACCOUNT: Final = "$SYS"
EVERYTHING: Final = ">"
CALLOUT_SUBJECT: Final = "$SYS.REQ.USER.AUTH"


@dataclass(frozen=True, slots=True)
class Rights:
    """Subjects that may be used; an empty allow list allows all. As the plane takes them."""

    publish_allow: tuple[str, ...] = ()
    publish_deny: tuple[str, ...] = ()
    subscribe_allow: tuple[str, ...] = ()
    subscribe_deny: tuple[str, ...] = ()
    response_max: int = 0
    response_ttl_ns: int = 0


@dataclass(frozen=True, slots=True)
class Person:
    """One user of some account."""

    name: str
    account: str
    password: str = ""
    nkey: str = ""
    rights: Rights = field(default_factory=Rights)
    connection_types: frozenset[str] = frozenset()


STRANGER: Final = Person("", GLOBAL_ACCOUNT)


@dataclass(frozen=True, slots=True)
class Callout:
    """A service that judges logins. issuer: the subject of requests; signers: whose signature its answers need."""

    account: str
    issuer: str
    signers: frozenset[str]
    auth_users: frozenset[str]
    xkey: str = ""
    allowed_accounts: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules that decide about a CONNECT."""

    users: Mapping[str, Person]
    nkeys: Mapping[str, Person]
    token: str = ""
    no_auth_user: Person | None = None
    open: bool = True
    """No users at all: everybody is admitted to the global account."""
    maps_certificates: bool = False
    """verify_and_map: where there are users, the certificate says which of them it is."""
    certificate_only: frozenset[str] = frozenset()
    """Users without a password for whom a certificate stands at another listener: nobody is one of them here."""
    plain_names: bool = False
    """A certificate's subject is compared with users' names as text only."""
    callout: Callout | None = None
    trust: Trust | None = None
    """In operator mode: a login brings a JWT, and no users are the configuration's."""

    def person(self, name: str) -> Person | None:
        """The user of that name or nkey."""
        return self.users.get(name) or self.nkeys.get(name)

    @property
    def asks_for_nkeys(self) -> bool:
        """Whether INFO has to carry a nonce."""
        return bool(self.nkeys) or self.trust is not None

    @property
    def auth_required(self) -> bool:
        """Whether the first INFO asks for a login."""
        return not self.open and self.no_auth_user in (None, STRANGER)


def compile_policy(server: ServerConfig) -> Policy:
    """The policy of a configuration."""
    people: list[Person] = []
    token = ""
    authorization = server.authorization
    if authorization is not None:
        default = authorization.default_permissions
        people += [_person(user, GLOBAL_ACCOUNT, default) for user in authorization.users or ()]
        if authorization.user:
            rights = compile_rights(default)
            people.append(Person(authorization.user, GLOBAL_ACCOUNT, authorization.password, rights=rights))
        token = authorization.token
    for name, account in server.accounts.items():
        people += [_person(user, name, account.default_permissions) for user in account.users]
    callout = compile_callout(server)
    if callout is not None:
        people = [_without_questions(person, callout) for person in people]
    users = {person.name: person for person in people if not person.nkey}
    nkeys = {person.nkey: person for person in people if person.nkey}
    fallback = users.get(server.no_auth_user) or nkeys.get(server.no_auth_user) or _stranger(server)
    nobody = not people and not token
    single = authorization is not None and bool(authorization.user)  # as in the reference: nobody's certificate is it
    maps = not single and server.tls is not None and server.tls.verify_and_map
    known_by = frozenset() if maps or single else _known_by_certificate(server, users.values())
    return Policy(
        MappingProxyType(users), MappingProxyType(nkeys), token, fallback, nobody, maps, known_by, callout=callout
    )


def _stranger(server: ServerConfig) -> Person | None:
    """The user for a connection without credentials, where the system account is the only one and the configuration has
    no other logins."""
    system = "" if server.no_system_account else server.system_account or SYSTEM_ACCOUNT
    alone = tuple(server.accounts) == (system,) and server.authorization is None and not server.no_auth_user
    return STRANGER if alone else None


def compile_callout(server: ServerConfig) -> Callout | None:
    """The service that judges logins, where the configuration has one."""
    found = server.authorization.auth_callout if server.authorization else None
    if found is None:
        return None
    from leafd.auth.xkeys import PREFIX_CURVE  # here: most configurations have no such service

    for name, key, prefix in (("issuer", found.issuer, PREFIX_ACCOUNT), ("xkey", found.xkey, PREFIX_CURVE)):
        if key and not is_public_key(key, prefix):
            raise ConfigError(f"auth_callout {name}: the checksum of {key!r} is wrong: was it copied whole?")
    return Callout(
        found.account,
        found.issuer,
        frozenset((found.issuer,)),
        frozenset(found.auth_users),
        found.xkey,
        frozenset(found.allowed_accounts),
    )


def _without_questions(person: Person, callout: Callout) -> Person:
    """In the service's account nobody asks it anything: questions are the server's."""
    if person.account != callout.account:
        return person
    rights = replace(person.rights, publish_deny=(*person.rights.publish_deny, CALLOUT_SUBJECT))
    return replace(person, rights=rights)


def compile_own_policy(server: ServerConfig, shared: Policy, block: WebSocket | Mqtt | None) -> Policy:
    """The policy of a listener for WebSocket or MQTT: the shared one, but for the logins that its block has of its
    own."""
    if block is None or shared.trust is not None:
        return shared
    maps = block.tls is not None and block.tls.verify_and_map
    single = server.authorization is not None and bool(server.authorization.user)
    known_by = frozenset() if maps or single else _known_by_certificate(server, shared.users.values())
    policy = replace(shared, maps_certificates=maps, certificate_only=known_by)
    own = block.authorization
    if block.no_auth_user:
        policy = replace(policy, no_auth_user=shared.person(block.no_auth_user), open=False)
    if own is None or not (own.user or own.token):
        return policy
    users = {own.user: Person(own.user, GLOBAL_ACCOUNT, own.password)} if own.user and not own.token else {}
    return Policy(MappingProxyType(users), MappingProxyType({}), own.token, policy.no_auth_user, open=False)


def compile_leaf_policy(server: ServerConfig) -> Policy:
    """The policy for leaf links: the logins of the listener alone, where there are any, else the users of the
    accounts."""
    leafnodes = server.leafnodes
    authorization = leafnodes.authorization if leafnodes else None
    maps = leafnodes is not None and leafnodes.tls is not None and leafnodes.tls.verify_and_map
    people = _leaf_people(authorization) if authorization is not None else []
    if not people or authorization is None:
        shared = compile_policy(server)
        known_by = frozenset() if maps else _known_by_certificate(server, shared.users.values())
        return replace(shared, maps_certificates=maps, certificate_only=known_by)
    users = {person.name: person for person in people if not person.nkey}
    nkeys = {person.nkey: person for person in people if person.nkey}
    maps = maps and bool(authorization.users) and not authorization.user and not authorization.nkey
    return Policy(
        MappingProxyType(users), MappingProxyType(nkeys), open=False, maps_certificates=maps, plain_names=True
    )


def _known_by_certificate(server: ServerConfig, users: Iterable[Person]) -> frozenset[str]:
    """Users without a password that a certificate stands for at any listener."""
    kinds = set()
    if server.tls is not None and server.tls.verify_and_map:
        kinds.add("STANDARD")
    web = server.websocket
    if web is not None and web.tls is not None and web.tls.verify_and_map and server.web_address():
        kinds.add("WEBSOCKET")
    over_web = web is not None and web.tls is not None and web.tls.verifies and server.web_address() is not None
    mqtt = server.mqtt
    if mqtt is not None and mqtt.tls is not None and mqtt.tls.verify_and_map and mqtt.address():
        kinds |= {"MQTT", "MQTT_WS"} if over_web else {"MQTT"}
    leafnodes = server.leafnodes
    if leafnodes is not None and leafnodes.tls is not None and leafnodes.tls.verify_and_map and server.leaf_address():
        own = leafnodes.authorization is not None and _leaf_people(leafnodes.authorization)
        kinds |= set() if own else {"LEAFNODE", "LEAFNODE_WS"} if over_web else {"LEAFNODE"}
    return frozenset(
        one.name
        for one in users
        if not one.password and kinds and (not one.connection_types or one.connection_types & kinds)
    )


def _leaf_people(authorization: LeafAuthorization) -> list[Person]:
    entries = [(one.user, one.password, one.nkey, one.account) for one in authorization.users]
    if authorization.user or authorization.nkey:
        entries.append((authorization.user, authorization.password, authorization.nkey, authorization.account))
    return [Person(nkey or user, account, password, nkey) for user, password, nkey, account in entries]


def _person(user: User, account: str, default: Permissions | None) -> Person:
    rights = compile_rights(user.permissions if user.permissions is not None else default)
    types = frozenset(kind.upper() for kind in user.allowed_connection_types)
    return Person(user.nkey or user.user, account, user.password, user.nkey, rights, types)


def compile_rights(permissions: Permissions | None) -> Rights:
    """Permissions as flat lists. An allow list that is present but empty denies everything."""
    if permissions is None:
        return Rights()
    publish_allow, publish_deny = _lists(permissions.publish)
    subscribe_allow, subscribe_deny = _lists(permissions.subscribe)
    responses = permissions.allow_responses
    if responses is None:
        return Rights(publish_allow, publish_deny, subscribe_allow, subscribe_deny)
    if permissions.publish is None or permissions.publish.allow is None:
        # Somebody who may answer and has no list of his own may do nothing but answer.
        publish_allow, publish_deny = (), (EVERYTHING,)
    unlimited = (1 << 32) - 1
    count = unlimited if responses.max < 0 else responses.max or 1
    return Rights(publish_allow, publish_deny, subscribe_allow, subscribe_deny, count, responses.expires)


def _lists(subjects: Subjects | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if subjects is None:
        return (), ()
    if subjects.allow is not None and not subjects.allow:
        return (), (EVERYTHING,)
    return subjects.allow or (), subjects.deny
