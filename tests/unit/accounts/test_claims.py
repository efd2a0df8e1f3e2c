"""Accounts of JWTs: what they come to in the graph, and that a part that cannot be had takes nothing else with it."""

from __future__ import annotations

import time
from typing import Any

from hypothesis import given, settings, strategies as st
from leafd.accounts.claims import ClaimedAccounts, unknown
from leafd.accounts.graph import Account, Numbers
from leafd.auth.jwt import JwtError
from leafd.auth.operators import read_account
from leafd.auth.trust import TrustedAccount

from tests.jwts import Account as Made, Operator, issued


def trusted(account: Made) -> TrustedAccount:
    return read_account(account.token(), frozenset({account.operator.key.public}))


def compiled(operator: Operator, jetstream: bool = True) -> ClaimedAccounts:
    accounts = ClaimedAccounts(Numbers(), system=operator.system.public, jetstream=jetstream)
    accounts.start(trusted(one) for one in operator.accounts)
    return accounts


def of(accounts: ClaimedAccounts, one: Made) -> Account:
    found = accounts.graph.account(one.public)
    assert found is not None
    return found


def imports(accounts: ClaimedAccounts, one: Made) -> list[tuple[str, str]]:
    return [(row.subject, row.local) for row in of(accounts, one).imports]


def test_an_account_has_its_limits_and_its_name() -> None:
    """Limits of 0 are limits, -1 is none; JetStream is had by whom memory or disk is given."""
    operator = Operator()
    a = operator.account("A", conn=0, subs=7, leaf=-1, payload=100, disk_storage=-1, streams=3, consumer=4)
    b = operator.account("B")
    accounts = compiled(operator)

    limits, share = of(accounts, a).limits, of(accounts, a).jetstream
    assert (0, 7, -1, 100) == (
        limits.max_connections,
        limits.max_subscriptions,
        limits.max_leafnodes,
        limits.max_payload,
    )
    assert share is not None
    assert (0, -1, 3, 4) == (share.max_memory, share.max_store, share.max_streams, share.max_consumers)
    assert ("A", a.public) == (of(accounts, a).shown, of(accounts, a).name)
    assert of(accounts, b).jetstream is None
    assert accounts.graph.system is not None
    assert operator.system.public == accounts.graph.system.name
    assert of(compiled(operator, jetstream=False), a).jetstream is None


def test_the_tier_of_one_replica_counts() -> None:
    """Of an account's tiers this server's streams are in the one of one replica."""
    operator = Operator()
    a = operator.account("A", tiered_limits={"R1": {"disk_storage": 50, "streams": 1}, "R3": {"disk_storage": 9}})
    b = operator.account("B", tiered_limits={"R3": {"disk_storage": 9}})
    accounts = compiled(operator)

    share = of(accounts, a).jetstream
    assert share is not None
    assert (50, 1) == (share.max_store, share.max_streams)
    assert ["R1", "R3"] == [name for name, _ in of(accounts, a).tiers]
    other = of(accounts, b).jetstream
    assert other is not None  # it may ask, and hears that no tier is for such streams
    assert (0, 0) == (other.max_memory, other.max_store)


def test_imports_with_their_names() -> None:
    """Each way to say a local name comes to the same rows as in a configuration."""
    operator = Operator()
    a, b = operator.account("A"), operator.account("B")
    a.export("svc.>").export("str.>", "stream").export("acc.*.x", "stream", account_token_position=2)
    b.imported(a, "svc.one", local_subject="mine")
    b.imported(a, "theirs.to", to="svc.old")  # the older way, for services: both names the other way round
    b.imported(a, "str.a", "stream", local_subject="heard")
    b.imported(a, "str.b", "stream", to="pre")
    b.imported(a, f"acc.{b.public}.x", "stream")
    b.imported(a, f"acc.{a.public}.x", "stream")
    accounts = compiled(operator)

    assert [
        ("str.a", "heard"),
        ("str.b", "pre.str.b"),
        (f"acc.{b.public}.x", f"acc.{b.public}.x"),
        ("svc.one", "mine"),
        ("svc.old", "theirs.to"),
    ] == imports(accounts, b)
    (note,) = accounts.notes[b.public]
    assert "stream import not authorized" in note


def test_activations() -> None:
    """What needs a token is imported with one: of the exporter, for this account and subject, in its time, not
    revoked."""
    operator = Operator()
    a, b = operator.account("A"), operator.account("B")
    now = int(time.time())

    def imported(token: str, **export: Any) -> bool:
        a.nats["exports"], b.nats["imports"] = [], []
        a.export("svc.>", token_req=True, **export)
        b.imported(a, "svc.x", token=token)
        return bool(imports(compiled(operator), b))

    before = issued()
    good = a.activation(b, "svc.>", "service")
    assert imported(good)
    assert imported(good, revocations={b.public: before})
    for revoked in (b.public, "*"):
        assert not imported(good, revocations={revoked: issued()})
    for token in (
        "",
        "nonsense",
        b.activation(b, "svc.>", "service"),
        a.activation(a, "svc.>", "service"),
        a.activation(b, "other.>", "service"),
        a.activation(b, "svc.>", "stream"),
        a.activation(b, "svc.>", "service", exp=now - 1),
    ):
        assert not imported(token)


def test_jetstream_of_a_cluster_is_the_system_accounts() -> None:
    """Where others of the cluster have JetStream and this server does not, who has a share of it asks them; so it
    stays as accounts come."""
    operator = Operator()
    a, b = operator.account("A", disk_storage=-1), operator.account("B")
    later = operator.account("C", mem_storage=-1)
    accounts = ClaimedAccounts(Numbers(), system=operator.system.public, jetstream=False, clustered=True)
    accounts.start(trusted(one) for one in operator.accounts if one is not later)
    accounts = accounts.changed([trusted(later)])

    system = of(accounts, operator.system)
    assert [("$JS.API.>", "$JS.API.>")] == imports(accounts, a) == imports(accounts, later)
    (row,) = of(accounts, a).imports
    assert (system.id, True, True, True) == (row.exporter, row.service, row.shared, row.placed)
    assert of(accounts, a).jetstream is None
    assert of(accounts, a).described
    assert [] == imports(accounts, b)
    assert () == system.imports
    headless = ClaimedAccounts(Numbers(), system=operator.system.public, jetstream=False, clustered=True)
    headless.start([trusted(a)])
    assert [] == imports(headless, a), "of a system account that is not known"
    alone = ClaimedAccounts(Numbers(), system=operator.system.public, jetstream=False)
    alone.start([trusted(a), trusted(operator.system)])
    assert [] == imports(alone, a)


def test_an_exporter_may_come_later() -> None:
    """An import of an account that is not known yet works as soon as it is; who is missing can be asked."""
    operator = Operator()
    a, b = operator.account("A"), operator.account("B")
    a.export("svc")
    b.imported(a, "svc")
    accounts = ClaimedAccounts(Numbers(), system=operator.system.public, jetstream=False)
    accounts.start([trusted(b)])
    assert (a.public,) == unknown([trusted(b)], accounts.trusted)
    assert [] == imports(accounts, b)

    assert {a.public, b.public} == {one.name for one in accounts.put([trusted(a)])}
    assert [("svc", "svc")] == imports(accounts, b)
    assert () == accounts.notes[b.public]


def test_a_change_leaves_the_graph_before_as_it_was() -> None:
    """What an exporter no longer exports is gone for its importers, in the new graph and not in the old one."""
    operator = Operator()
    a, b, c = (operator.account(name) for name in "ABC")
    a.export("svc")
    b.imported(a, "svc")
    before = compiled(operator)
    a.nats["exports"] = []
    after = before.changed([trusted(a)])
    gone = before.changed([], [a.public])

    assert [("svc", "svc")] == imports(before, b)
    assert [] == imports(after, b)
    assert [] == imports(gone, b)
    assert gone.graph.account(a.public) is None
    assert of(before, c) is of(after, c)
    assert of(before, a).id == of(after, a).id


def test_circles_and_faults_cost_the_import_alone() -> None:
    """A circle is broken where it closes, a mapping that cannot be made is left out, and the rest works."""
    operator = Operator()
    a, b = operator.account("A"), operator.account("B")
    a.export("x").imported(b, "x", local_subject="x")
    b.export("x").imported(a, "x", local_subject="x").export("y", "stream")
    a.imported(b, "y", "stream")
    a.nats["mappings"] = {"m": [{"subject": "n"}], "bad": [{"subject": "to.$1"}]}
    accounts = compiled(operator)

    assert 1 == sum(("x", "x") in imports(accounts, one) for one in (a, b))
    assert ("y", "y") in imports(accounts, a)
    assert (("m", (("n", 100),)),) == of(accounts, a).mappings
    assert any("cycle" in note for one in (a, b) for note in accounts.notes[one.public])


def test_a_broken_account_has_nothing() -> None:
    """An account whose JWT breaks a rule is known, and shares and may use nothing."""
    operator = Operator()
    a, b = operator.account("A", disk_storage=-1, exports=0), operator.account("B")
    a.export("svc")
    b.imported(a, "svc")
    accounts = compiled(operator)

    assert of(accounts, a).jetstream is None
    assert [] == imports(accounts, b)
    assert any("allowed by the operator" in note for note in accounts.notes[a.public])


# ---- whatever a JWT says

SUBJECTS = st.sampled_from(
    ["a", "a.b", "a.*", "a.>", ">", "*", "a.$1", "$1.$2", "{{wildcard(1)}}", "{{partition(3,1)}}", "a..b", "", " ",
     "a b", "$SYS.>", "$JS.API.>", "*.*", "a.{{random(", "$99", "x" * 300, "\u00e9", "\ud800"]
)  # fmt: skip
NUMBERS = st.sampled_from([-(1 << 63), -5, -1, 0, 1, 2, 50, 100, 101, 1 << 32, (1 << 63) - 1])


def drawn(operator: Operator, names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    accounts = st.sampled_from([*names, "", "A"])
    kinds = st.sampled_from(["stream", "service", "other", ""])
    exports = st.fixed_dictionaries(
        {"subject": SUBJECTS, "type": kinds},
        optional={
            "account_token_position": NUMBERS,
            "token_req": st.booleans(),
            "response_type": st.sampled_from(["Singleton", "Stream", "Chunked", "x"]),
            "response_threshold": NUMBERS,
        },
    )
    imports = st.fixed_dictionaries(
        {"subject": SUBJECTS, "type": kinds, "account": accounts},
        optional={"to": SUBJECTS, "local_subject": SUBJECTS, "share": st.booleans(), "token": st.just("e.y.J")},
    )
    weighted = st.lists(st.fixed_dictionaries({"subject": SUBJECTS, "weight": NUMBERS}), max_size=3)
    permissions = st.fixed_dictionaries({}, optional={"pub": st.just({"allow": ["a b c", ""]}), "resp": st.just({})})
    return st.fixed_dictionaries(
        {},
        optional={
            "exports": st.lists(exports, max_size=4),
            "imports": st.lists(imports, max_size=4),
            "mappings": st.dictionaries(SUBJECTS.filter(str.isascii), weighted, max_size=3),
            "default_permissions": permissions,
            "limits": st.dictionaries(st.sampled_from(["conn", "leaf", "subs", "payload", "disk_storage"]), NUMBERS),
        },
    )


WORLD = Operator()
TWO = [WORLD.account("A"), WORLD.account("B")]


@settings(max_examples=60, deadline=None)
@given(st.tuples(*(drawn(WORLD, [one.public for one in TWO]) for _ in TWO)))
def test_any_two_accounts_come_to_a_graph(bodies: tuple[dict[str, Any], ...]) -> None:
    """Whatever two accounts claim of themselves and of each other, both are in the graph, or their JWT is refused: the
    others are never lost by it."""
    for account, body in zip(TWO, bodies, strict=True):
        account.nats = body
    accounts = ClaimedAccounts(Numbers(), system=WORLD.system.public, jetstream=True)
    accounts.start([trusted(WORLD.system)])
    for one in TWO:
        try:
            found = trusted(one)
        except JwtError:
            continue
        accounts.put([found])
        assert of(accounts, one).label == one.name
    for name in list(accounts.trusted):
        assert accounts.changed([accounts.trusted[name]]).graph.by_name == accounts.graph.by_name
