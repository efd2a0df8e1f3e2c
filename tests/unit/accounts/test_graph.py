"""Which accounts there are and who has JetStream, as nats-server decides it."""

from __future__ import annotations

from leafd.accounts.graph import Graph, Numbers, common, compare, compile_graph
from leafd.config.bind import load_text


def graph(text: str, numbers: Numbers | None = None) -> Graph:
    return compile_graph(load_text(text).server, numbers or Numbers())


def with_jetstream(text: str) -> list[str]:
    return sorted(name for name, account in graph(text).by_name.items() if account.jetstream is not None)


def test_without_accounts() -> None:
    """There is $G with JetStream, and $SYS without."""
    found = graph("jetstream: enabled")
    assert ["$G", "$SYS"] == list(found.by_name)
    assert ["$G"] == with_jetstream("jetstream: enabled")
    assert "$SYS" == (found.system.name if found.system else "")


def test_no_system_account() -> None:
    """The system account can be switched off."""
    assert graph("no_system_account: true").system is None


def test_each_account_opts_in() -> None:
    """With accounts configured, only those that ask have JetStream, and $G has none."""
    assert ["A"] == with_jetstream("jetstream: enabled\naccounts { A { jetstream: enabled }, B {} }")


def test_system_account_never() -> None:
    """The system account has no JetStream; a lone system account leaves $G its own."""
    text = "jetstream: enabled\naccounts { S {} }\nsystem_account: S"
    assert ["$G"] == with_jetstream(text)
    assert ["$G", "S"] == list(graph(text).by_name)


def test_server_without_jetstream() -> None:
    """Without JetStream in the server no account has it."""
    assert [] == with_jetstream("accounts { A { jetstream: enabled } }")
    assert [] == with_jetstream("")


def test_numbers_stay() -> None:
    """A reload gives nobody another's number, not even after a name has gone and come back."""
    numbers = Numbers()
    first = graph("accounts { A {}, B {} }", numbers)
    second = graph("accounts { B {}, C {} }", numbers)
    third = graph("accounts { C {}, A {} }", numbers)
    assert first.by_name["B"].id == second.by_name["B"].id
    assert first.by_name["A"].id == third.by_name["A"].id
    names = {account.id: name for found in (first, second, third) for name, account in found.by_name.items()}
    assert len(names) == len(set(names.values())) == 5
    assert 0 not in names


def mappings(text: str) -> dict[str, tuple[tuple[str, int], ...]]:
    return dict(graph(f"accounts {{ A {{ mappings {{ {text} }} }} }}").by_name["A"].mappings)


def test_mappings_become_shares_of_a_hundred() -> None:
    """The smallest first, as in the reference; what is left stays with the source, unless it is among them."""
    assert {"a": (("b", 100),)} == mappings("a: b")
    assert {"a": (("c", 20), ("b", 100))} == mappings("a: [ {dest: b, weight: 80%}, {dest: c, weight: 20} ]")
    assert {"a.*.*": (("b.$2", 30), ("a.$1.$2", 100))} == mappings('"a.*.*": {dest: "b.$2", weight: 30}')
    assert {"a": (("a", 10), ("b", 40))} == mappings("a: [ {dest: b, weight: 30}, {dest: a, weight: 10} ]")
    assert {"a": (("a", 100),)} == mappings("a: {dest: b, weight: 100, cluster: east}")


def test_mappings_at_the_top_are_the_global_accounts() -> None:
    """Mappings at the top of the file are those of $G, and the account's own ones stay."""
    found = graph("mappings { a: b }\naccounts { $G { mappings { c: d } }, B {} }").by_name
    assert {"a": (("b", 100),), "c": (("d", 100),)} == dict(found["$G"].mappings)
    assert () == found["B"].mappings


def test_compare() -> None:
    """A reload knows what came, what changed and what went."""
    numbers = Numbers()
    old = graph("accounts { A {}, B {} }", numbers)
    new = graph("accounts { B { limits { max_conn: 5 } }, C {} }", numbers)
    change = compare(old, new)
    assert (["C"], ["B"], ["A"]) == tuple(
        [one.name for one in part] for part in (change.added, change.changed, change.removed)
    )


def test_what_a_reload_passes_through_is_in_both_configurations() -> None:
    """Between two configurations an account has the imports and the JetStream that both give it, and no account
    is there that one of them does not have."""
    numbers = Numbers()
    head = "jetstream: enabled\naccounts { E { exports: [{service: s}, {service: r}, {stream: t}] }\n"
    s, r, t = (
        "{service: {account: E, subject: s}}",
        "{service: {account: E, subject: r}}",
        "{stream: {account: E, subject: t}}",
    )
    old = graph(head + f"A {{ jetstream: enabled, imports: [{s}, {t}] }}, B {{ }} }}", numbers)
    new = graph(head + f"A {{ imports: [{t}, {r}] }}, C {{ jetstream: enabled }} }}", numbers)
    both = common(old, new)
    assert {"$G", "$SYS", "E", "A"} == set(both.by_name)
    assert (["t"], None) == ([one.subject for one in both.by_name["A"].imports], both.by_name["A"].jetstream)
    less, more = compare(old, both), compare(both, new)
    assert (["B"], ["A"], []) == tuple(
        [one.name for one in found] for found in (less.removed, less.changed, less.added)
    )
    assert ([], ["A"], ["C"]) == tuple(
        [one.name for one in found] for found in (more.removed, more.changed, more.added)
    )


def test_in_a_cluster_accounts_with_jetstream_ask_other_servers_where_this_one_has_none() -> None:
    """As nats-server without JetStream does (interop/test_cluster_jetstream.py): by the system account's service, which
    is told who asks. What an account imports over the API itself stays."""
    cluster = 'cluster { name: C, listen: "127.0.0.1:1" }\n'
    accounts = (
        "accounts { A { jetstream: enabled }, B {}, C { jetstream: enabled, imports: [ %s ] }, D { exports: %s } }"
    )
    text = accounts % ('{ service: { account: D, subject: "$JS.API.>" } }', '[ { service: "$JS.API.>" } ]')

    def asked(found: Graph) -> dict[str, list[tuple[str, bool]]]:
        names = {account.id: name for name, account in found.by_name.items()}
        return {
            name: [(names[one.exporter], one.shared) for one in account.imports if one.local == "$JS.API.>"]
            for name, account in found.by_name.items()
        }

    assert {"$G": [], "A": [("$SYS", True)], "B": [], "C": [("D", False)], "D": [], "$SYS": []} == asked(
        graph(cluster + text)
    )
    assert [] == asked(graph(text))["A"]
    assert [("$SYS", True)] == asked(graph(cluster))["$G"]
    assert [("$SYS", True)] == asked(graph('gateway { name: C, listen: "127.0.0.1:1" }'))["$G"]
