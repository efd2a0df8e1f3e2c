"""What happens beyond each limit: one function a limit, which exceeds it on a server and says what was refused and what
remains, in the words of the rows of tests/limits_table.py.

Every function makes its own server, of the kind that it is told, with that limit as low as it can be.
Not here: what is expected (tests/limits_table.py), what an account may store (tests/interop/test_account_storage.py).
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.interop.jwt_peer import HEAD, Peer, close_all
from tests.jwts import Account, Operator
from tests.rig.waiting import eventually
from tests.servers import Server, running

Seen = tuple[str, str]
Attack = Callable[[str], Seen]
ATTACKS: Final[dict[str, Attack]] = {}
"""By the name of the limit."""
A: Final[dict[str, Any]] = {"user": "a", "pass": "a"}
R: Final[dict[str, Any]] = {"user": "r", "pass": "r"}
STORE: Final = 'jetstream {{ store_dir: "{{store}}"{0} }}\n'


def exceeds(*names: str) -> Callable[[Attack], Attack]:
    """Of which limits a function is the attack."""

    def take(attack: Attack) -> Attack:
        ATTACKS.update(dict.fromkeys(names, attack))
        return attack

    return take


# ---- what is said


def text(lines: list[str]) -> str:
    return ", ".join(lines) or "nothing"


def error(answer: Any) -> str:
    """An error of the API as a row has it; what else was answered."""
    found = answer.get("error") if isinstance(answer, dict) else None
    return f"{found['code']} {found['err_code']} {found['description']}" if found else "taken"


class Client(Peer):
    """A bare client that asks JetStream."""

    def stored(self, subject: str, payload: str = "", header: str = "") -> dict[str, Any]:
        """The PubAck; {} where an empty message is the answer."""
        head = f"NATS/1.0\r\n{header}\r\n".encode() if header else b""
        return self.ask(subject, payload, header=head, seconds=5)

    def stream(self, name: str = "S", **config: Any) -> dict[str, Any]:
        return self.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name.lower()}.>"]} | config)

    def consumer(self, name: str = "C", stream: str = "S", **config: Any) -> dict[str, Any]:
        body = {"stream_name": stream, "config": {"durable_name": name, "ack_policy": "explicit"} | config}
        return self.api(f"CONSUMER.CREATE.{stream}.{name}", body)


@contextlib.contextmanager
def served(kind: str, configuration: str) -> Iterator[Server]:
    with running(kind, HEAD + configuration) as server:
        try:
            yield server
        finally:
            close_all()


def names(client: Client) -> str:
    """The streams that there are."""
    return ", ".join(client.api("STREAM.NAMES").get("streams") or ()) or "none"


# ---- connections and their messages


def too_large(server: Server, most: int, **login: Any) -> Seen:
    """A byte more than a message may have, on one connection; as much as it may, on another."""
    first, second = Peer(server, **login), Peer(server, **login)
    first.say("SUB x 1", f"PUB x {most + 1}\r\n{'x' * (most + 1)}")
    refused = text(first.lines())
    second.say("SUB x 1", f"PUB x {most}\r\n{'x' * most}")
    return refused, "others publish" if f"MSG x 1 {most}" in second.lines() else "nobody publishes"


@exceeds("max_payload")
def payload(kind: str) -> Seen:
    with served(kind, "max_payload: 100\n") as server:
        return too_large(server, 100)


def one_too_many(server: Server, most: int, make: Callable[[], Peer]) -> Seen:
    """One connection more than there may be; a place is free when one ends."""
    there = [make() for _ in range(most)]
    assert [[]] * most == [one.lines() for one in there]
    refused = text(make().lines())
    there[0].say("SUB x 1", "PUB x 0\r\n")
    assert "MSG x 1 0" in there[0].lines()
    there[-1].socket.close()
    eventually(lambda: make().lines() == [], "the place of one that has ended is not given to the next")
    return refused, "the others; its place, when one ends"


@exceeds("max_connections")
def connections(kind: str) -> Seen:
    with served(kind, "max_connections: 2\n") as server:
        return one_too_many(server, 2, lambda: Peer(server))


def subscribed_too_often(peer: Peer, most: int) -> Seen:
    peer.say(*(f"SUB x.{number} {number}" for number in range(most + 1)))
    refused = text(peer.lines())
    peer.say("PUB x.0 0\r\n", f"PUB x.{most} 0\r\n")
    remains = [line for line in peer.lines() if line.startswith("MSG")]
    return refused, "the connection and its others" if remains == ["MSG x.0 0 0"] else text(remains)


@exceeds("max_subscriptions")
def subscriptions(kind: str) -> Seen:
    with served(kind, "max_subscriptions: 2\n") as server:
        return subscribed_too_often(Peer(server), 2)


@exceeds("max_control_line")
def control_line(kind: str) -> Seen:
    with served(kind, "max_control_line: 256\n") as server:
        peer, other = Peer(server), Peer(server)
        peer.say(f"SUB {'x' * 300} 1")
        refused = text(peer.lines())
        return refused, "others" if not other.lines() else "nobody"


@exceeds("max_closed_clients")
def closed_clients(kind: str) -> Seen:
    with served(kind, 'max_closed_clients: 3\nhttp: "127.0.0.1:{web_port}"\n') as server:
        for _ in range(6):
            Peer(server).lines()
        close_all()
        deadline = time.monotonic() + 5
        found: list[Any] = []
        while len(found) != 3 and time.monotonic() < deadline:
            url = f"http://127.0.0.1:{server.ports['web_port']}/connz?state=closed"
            with urllib.request.urlopen(url, timeout=5) as answer:
                found = json.load(answer)["connections"]
        return "the oldest are forgotten", f"the last {len(found)}"


@exceeds("permissions.allow_responses.max")
def replies(kind: str) -> Seen:
    rights = 'publish: { deny: ">" }, subscribe: "q", allow_responses: { max: 2, expires: "1m" }'
    users = f"{{ user: a, password: a }}, {{ user: r, password: r, permissions: {{ {rights} }} }}"
    with served(kind, f"authorization {{ users: [ {users} ] }}\n") as server:
        asker, answerer = Peer(server, **A), Peer(server, **R)
        answerer.say("SUB q 1")
        assert not answerer.lines()
        asker.say("SUB inbox 1", "PUB q inbox 0\r\n")
        asker.lines()
        assert answerer.lines()
        answerer.say(*["PUB inbox 0\r\n"] * 3)
        refused = text(answerer.lines())
        return refused, f"{sum(line.startswith('MSG') for line in asker.lines())} replies"


# ---- an account, by configuration or JWT

ACCOUNT: Final = """accounts {{
  A {{
    {0}
    users: [ {{ user: a, password: a }} ]
  }}
  B {{ users: [ {{ user: b, password: b }} ] }}
}}
"""


@exceeds("accounts.limits.max_payload")
def account_payload(kind: str) -> Seen:
    with served(kind, ACCOUNT.format("limits { max_payload: 100 }\n")) as server:
        return too_large(server, 100, **A)


@exceeds("accounts.limits.max_connections")
def account_connections(kind: str) -> Seen:
    with served(kind, ACCOUNT.format("limits { max_connections: 2 }\n")) as server:
        return one_too_many(server, 2, lambda: Peer(server, **A))


@exceeds("accounts.limits.max_subscriptions")
def account_subscriptions(kind: str) -> Seen:
    with served(kind, ACCOUNT.format("limits { max_subscriptions: 2 }\n")) as server:
        return subscribed_too_often(Peer(server, **A), 2)


@contextlib.contextmanager
def operated(
    kind: str, *, store: bool = False, nats: dict[str, Any] | None = None, **limits: Any
) -> Iterator[tuple[Server, Account]]:
    """A server in operator mode, and its account of these limits."""
    operator = Operator()
    account = operator.account("A", **limits)
    account.nats |= nats or {}
    head = STORE.format("") if store else ""
    with served(kind, head + operator.configuration()) as server:
        yield server, account


@exceeds("jwt.account.payload")
def jwt_payload(kind: str) -> Seen:
    with operated(kind, payload=100) as (server, account):
        return too_large(server, 100, by=account.user("u"))


@exceeds("jwt.account.conn")
def jwt_connections(kind: str) -> Seen:
    with operated(kind, conn=2) as (server, account):
        return one_too_many(server, 2, lambda: Peer(server, account.user("u")))


@exceeds("jwt.account.subs")
def jwt_subscriptions(kind: str) -> Seen:
    with operated(kind, subs=2) as (server, account):
        return subscribed_too_often(Peer(server, account.user("u")), 2)


@exceeds("jwt.user.payload")
def user_payload(kind: str) -> Seen:
    with operated(kind) as (server, account):
        return too_large(server, 100, by=account.user("u", payload=100))


@exceeds("jwt.user.subs")
def user_subscriptions(kind: str) -> Seen:
    with operated(kind) as (server, account):
        return subscribed_too_often(Peer(server, account.user("u", subs=2)), 2)


def logins(server: Server, account: Account, refused: dict[str, Any], taken: dict[str, Any], **fields: Any) -> Seen:
    """A user that may not come in so, and one that may."""
    said = text(Peer(server, account.user("u", **refused), **fields).lines())
    return said, "who has it otherwise" if not Peer(server, account.user("v", **taken)).lines() else "nobody"


@exceeds("jwt.user.src")
def user_network(kind: str) -> Seen:
    with operated(kind) as (server, account):
        return logins(server, account, {"src": ["10.0.0.0/8"]}, {"src": ["127.0.0.0/8"]})


@exceeds("jwt.user.times", "jwt.user.locale")
def user_hours(kind: str) -> Seen:
    now = time.gmtime(time.time() + 12 * 3600)
    hours = [{"start": f"{now.tm_hour:02}:00:00", "end": f"{now.tm_hour:02}:59:59"}]
    with operated(kind) as (server, account):
        far, here = {"times": hours}, {"times": hours, "times_location": "Etc/GMT-12"}
        return logins(server, account, far, here)


@exceeds("jwt.user.allowed_connection_types")
def user_kind(kind: str) -> Seen:
    with operated(kind) as (server, account):
        types = "allowed_connection_types"
        return logins(server, account, {types: ["WEBSOCKET"]}, {types: ["STANDARD"]})


@exceeds("jwt.user.bearer_token", "jwt.account.disallow_bearer")
def bearer(kind: str) -> Seen:
    with operated(kind, disallow_bearer=True) as (server, account):
        return logins(server, account, {"bearer_token": True}, {}, sig="")


@exceeds("jwt.user.proxy_required")
def user_proxy(kind: str) -> Seen:
    with operated(kind) as (server, account):
        return logins(server, account, {"proxy_required": True}, {})


@exceeds("jwt.user.data", "jwt.account.data")
def data(kind: str) -> Seen:
    with operated(kind, data=1) as (server, account):
        peer = Peer(server, account.user("u", data=1))
        peer.say("SUB x 1", "PUB x 5\r\nhello", "PUB x 5\r\nworld")
        return "nothing", "all" if 4 == len(peer.lines()) else "not all"


def exported(kind: str, **limits: Any) -> Seen:
    """An account that exports, and imports, more than its JWT says: as nsc checks it, and no server does."""
    operator = Operator()
    other = operator.account("B").export("help", "service").export("news.>", "stream")
    account = operator.account("A", **limits).export("one", "service").export("two.*", "service")
    account.imported(other, "help", "service").imported(other, "news.>", "stream")
    with served(kind, operator.configuration()) as server:
        service, client = Peer(server, other.user("b")), Peer(server, account.user("a"))
        service.say("SUB help 1")
        assert not service.lines()
        if said := client.lines():
            return text(said), "nobody of it comes in"
        client.say("SUB news.x 1", "PUB help 0\r\n")
        client.lines()
        heard = bool(service.lines())
        service.say("PUB news.x 0\r\n")
        service.lines()
        heard = heard and bool(client.lines())
        return "nothing", "all" if heard else "not all"


@exceeds("jwt.account.imports")
def imports(kind: str) -> Seen:
    return exported(kind, imports=1)


@exceeds("jwt.account.exports")
def exports(kind: str) -> Seen:
    return exported(kind, exports=1)


@exceeds("jwt.account.wildcards")
def wildcards(kind: str) -> Seen:
    return exported(kind, wildcards=False)


# ---- JetStream's limits for all


def with_limits(kind: str, limits: str) -> contextlib.AbstractContextManager[Server]:
    return served(kind, STORE.format(f", limits: {{ {limits} }}"))


@exceeds("jetstream.limits.max_ack_pending")
def server_pending(kind: str) -> Seen:
    with with_limits(kind, "max_ack_pending: 10") as server:
        client = Client(server)
        client.stream()
        refused = error(client.consumer(max_ack_pending=11))
        return refused, f"{client.consumer()['config']['max_ack_pending']} where none is asked for"


@exceeds("jetstream.limits.max_request_batch")
def server_batch(kind: str) -> Seen:
    with with_limits(kind, "max_request_batch: 10") as server:
        client = Client(server)
        client.stream()
        refused = error(client.consumer(max_batch=11))
        return refused, f"{client.consumer()['config'].get('max_batch')} where none is asked for"


@exceeds("jetstream.limits.duplicate_window")
def server_window(kind: str) -> Seen:
    with with_limits(kind, 'duplicate_window: "10s"') as server:
        client = Client(server)
        refused = error(client.stream(duplicate_window=11_000_000_000))
        seconds = client.stream()["config"]["duplicate_window"] // 10**9
        return refused, f"{seconds} s where none is asked for"


@exceeds("jetstream.limits.default_max_consumers")
def server_consumers(kind: str) -> Seen:
    with with_limits(kind, "default_max_consumers: 1") as server:
        client = Client(server)
        client.stream()
        assert "taken" == error(client.consumer("C"))
        refused = error(client.consumer("D"))
        return refused, ", ".join(client.api("CONSUMER.NAMES.S")["consumers"])


def begin(client: Client, batch: str, sequence: int = 1, subject: str = "s.a") -> str:
    header = f"Nats-Batch-Id: {batch}\r\nNats-Batch-Sequence: {sequence}\r\n"
    return error(client.stored(subject, "x", header))


def commit(client: Client, batch: str, sequence: int) -> str:
    header = f"Nats-Batch-Id: {batch}\r\nNats-Batch-Sequence: {sequence}\r\nNats-Batch-Commit: 1\r\n"
    answer = client.stored("s.a", "x", header)
    return f"the batch that was open: {answer['count']} messages" if "count" in answer else error(answer)


@exceeds("jetstream.limits.batch.max_inflight_per_stream")
def batches_of_stream(kind: str) -> Seen:
    with with_limits(kind, "batch: { max_inflight_per_stream: 1 }") as server:
        client = Client(server)
        client.stream(allow_atomic=True)
        assert "taken" == begin(client, "one")
        return begin(client, "two"), commit(client, "one", 2)


@exceeds("jetstream.limits.batch.max_inflight_total")
def batches_of_all(kind: str) -> Seen:
    with with_limits(kind, "batch: { max_inflight_total: 1 }") as server:
        client = Client(server)
        client.stream(allow_atomic=True)
        client.stream("T", allow_atomic=True)
        assert "taken" == begin(client, "one")
        return begin(client, "two", subject="t.a"), commit(client, "one", 2)


@exceeds("jetstream.limits.batch.max_msgs")
def messages_of_batch(kind: str) -> Seen:
    with with_limits(kind, "batch: { max_msgs: 2 }") as server:
        client = Client(server)
        client.stream(allow_atomic=True)
        for sequence in (1, 2):
            assert "taken" == begin(client, "one", sequence)
        refused = begin(client, "one", 3)
        return refused, f"{client.api('STREAM.INFO.S')['state']['messages']} messages"


@exceeds("jetstream.limits.batch.timeout")
def time_of_batch(kind: str) -> Seen:
    with with_limits(kind, 'batch: { timeout: "1s" }') as server:
        client = Client(server)
        client.stream(allow_atomic=True)
        assert "taken" == begin(client, "one")
        time.sleep(2.5)
        refused = commit(client, "one", 2)
        return refused, f"{client.api('STREAM.INFO.S')['state']['messages']} messages"


# ---- JetStream's limits of an account: by configuration and by JWT, the same attack


def storing(client: Client, storage: str) -> Seen:
    assert "taken" == error(client.stream(storage=storage))
    count = 0
    while "taken" == (refused := error(client.stored("s.a", "x" * 1000))):
        count += 1
        assert count < 100
    return refused, f"{client.api('STREAM.INFO.S')['state']['messages']} messages"


def making_streams(client: Client, _storage: str) -> Seen:
    for name in ("S", "T"):
        assert "taken" == error(client.stream(name))
    return error(client.stream("U")), f"streams {names(client)}"


def making_consumers(client: Client, _storage: str) -> Seen:
    client.stream()
    for name in ("C", "D"):
        assert "taken" == error(client.consumer(name))
    refused = error(client.consumer("E"))
    return refused, "consumers " + ", ".join(sorted(client.api("CONSUMER.NAMES.S")["consumers"]))


def leaving_unacknowledged(client: Client, _storage: str) -> Seen:
    client.stream()
    refused = error(client.consumer(max_ack_pending=11))
    return refused, f"{client.consumer()['config']['max_ack_pending']} where none is asked for"


def making_large_streams(client: Client, storage: str) -> Seen:
    refused = error(client.stream("T", max_bytes=1001, storage=storage))
    assert "taken" == error(client.stream("S", max_bytes=1000, storage=storage))
    return refused, f"streams {names(client)}"


def making_boundless_streams(client: Client, _storage: str) -> Seen:
    refused = error(client.stream("T"))
    assert "taken" == error(client.stream("S", max_bytes=1000))
    return refused, f"streams {names(client)}"


SHARES: Final[tuple[tuple[str, str, Any, Callable[[Client, str], Seen], str], ...]] = (
    ("max_store", "disk_storage", 10_330, storing, "file"),
    ("max_memory", "mem_storage", 10_190, storing, "memory"),
    ("max_streams", "streams", 2, making_streams, ""),
    ("max_consumers", "consumer", 2, making_consumers, ""),
    ("max_ack_pending", "max_ack_pending", 10, leaving_unacknowledged, ""),
    ("disk_max_stream_bytes", "disk_max_stream_bytes", 1000, making_large_streams, "file"),
    ("mem_max_stream_bytes", "mem_max_stream_bytes", 1000, making_large_streams, "memory"),
    ("max_bytes_required", "max_bytes_required", True, making_boundless_streams, ""),
)
"""As the configuration and as a JWT names it, the limit, the attack and its storage."""
SPELLED: Final = {"max_store": "max_file"}
BOUNDED: Final = {"mem_storage": 1 << 20, "disk_storage": 1 << 20, "streams": -1, "consumer": -1}


def _share(named: str, claim: str, most: Any, attack: Callable[[Client, str], Seen], storage: str) -> None:
    def configured(kind: str) -> Seen:
        value = str(most).lower()
        share = f"jetstream {{\n max_mem: 1MB\n max_file: 1MB\n {SPELLED.get(named, named)}: {value}\n }}\n"
        if named in ("max_store", "max_memory"):
            share = f"jetstream {{\n {SPELLED.get(named, named)}: {value}\n }}\n"
        with served(kind, STORE.format("") + ACCOUNT.format(share)) as server:
            return attack(Client(server, **A), storage)

    def signed(kind: str) -> Seen:
        with operated(kind, store=True, **BOUNDED | {claim: most}) as (server, account):
            return attack(Client(server, account.user("u")), storage)

    def tiered(kind: str) -> Seen:
        with operated(kind, store=True, tiered_limits={"R1": BOUNDED | {claim: most}}) as (server, account):
            return attack(Client(server, account.user("u")), storage)

    ATTACKS[f"accounts.jetstream.{named}"] = configured
    ATTACKS[f"jwt.account.{claim}"] = signed
    ATTACKS[f"jwt.account.tiered_limits.R1.{claim}"] = tiered


for _row in SHARES:
    _share(*_row)


# ---- what promises.md grants to a user and to strangers; leafd's own


def creating(kind: str, config: bytes) -> Seen:
    """A stream of that configuration; what a small one is told then."""
    with served(kind, "max_control_line: 8192\nmax_payload: 8MB\n" + STORE.format("")) as server:
        client = Client(server)
        refused = error(json.loads(client.answers("$JS.API.STREAM.CREATE.T", config, seconds=20)[0]))
        assert "taken" == error(client.stream())
        return refused, f"streams {names(client)}"


@exceeds("promises.subjects")
def many_subjects(kind: str) -> Seen:
    return creating(kind, json.dumps({"name": "T", "subjects": [f"t.{number}" for number in range(32_769)]}).encode())


@exceeds("promises.subject")
def long_subject(kind: str) -> Seen:
    return creating(kind, json.dumps({"name": "T", "subjects": ["t." + "x" * 4095]}).encode())


@exceeds("promises.tokens")
def deep_subject(kind: str) -> Seen:
    return creating(kind, json.dumps({"name": "T", "subjects": [".".join("t" * 257)]}).encode())


@exceeds("promises.all_tokens")
def many_tokens(kind: str) -> Seen:
    deep = ".".join("t" * 200)
    return creating(kind, json.dumps({"name": "T", "subjects": [f"t.{n}.{deep}" for n in range(1000)]}).encode())


@exceeds("promises.json_elements")
def many_elements(kind: str) -> Seen:
    return creating(kind, b'{"name": "T", "subjects": ["t"], "metadata": {"a": [' + b"1," * 400_001 + b"1]}}")


@exceeds("promises.json_depth")
def deep_json(kind: str) -> Seen:
    return creating(kind, b'{"name": "T", "subjects": ["t"], "metadata": {"a": ' + b"[" * 100 + b"]" * 100 + b"}}")


@exceeds("promises.http_head")
def long_head(kind: str) -> Seen:
    with served(kind, 'websocket { listen: "127.0.0.1:{web_port}", no_tls: true }\n') as server:
        with socket.create_connection(("127.0.0.1", server.ports["web_port"]), 5) as stranger:
            stranger.settimeout(5)
            stranger.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 17_000 + b"\r\n\r\n")
            said = b""
            with contextlib.suppress(OSError):
                while more := stranger.recv(65_536):
                    said += more
        return said.split(b"\r\n")[0].decode() or "closed", "others" if not Peer(server).lines() else "nobody"
