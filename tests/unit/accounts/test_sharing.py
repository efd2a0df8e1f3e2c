"""What accounts may import of each other, and the rows that the plane gets of it, as nats-server decides it."""

from __future__ import annotations

import pytest
from leafd.accounts.graph import CompiledImport, Numbers, compare, compile_graph
from leafd.config.bind import load_text
from leafd.config.schema.sharing import collide, is_subset, names
from leafd.errors import ConfigError


def config(exports: str, imports: str) -> str:
    return f"accounts {{ E {{ exports: [{exports}] }}, I {{ imports: [{imports}] }}, O {{}} }}"


def rows(exports: str, imports: str) -> tuple[CompiledImport, ...]:
    numbers = Numbers()
    found = compile_graph(load_text(config(exports, imports)).server, numbers)
    assert all(one.exporter == found.by_name["E"].id for one in found.by_name["I"].imports)
    return found.by_name["I"].imports


def problem(exports: str, imports: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_text(config(exports, imports))
    return str(caught.value)


# ---- names


@pytest.mark.parametrize(
    ("subject", "to", "local", "order"),
    [
        ("a", "b", "b", ()),
        ("s.>", "from.s.>", "from.s.>", (0,)),
        ("wild.*.x.*", "w.$2.$1", "w.*.*", (1, 0)),
        ("wild.*.x.*", "w.*.*", "w.*.*", (0, 1)),
        ("a.*.*.>", "b.{{wildcard(2)}}.{{ wildcard(1) }}.>", "b.*.*.>", (1, 0, 2)),
    ],
)
def test_names(subject: str, to: str, local: str, order: tuple[int, ...]) -> None:
    """The local pattern, and which wildcard of the original each of its wildcards stands for."""
    found = names(subject, to)
    assert (found.local, found.order) == (local, order)


@pytest.mark.parametrize(
    ("subject", "to"),
    [("s.*", "x"), ("s.*.*", "x.$1"), ("s.*.*", "x.$1.$1"), ("s.a", "x.*"), ("s.>", "x.*"), ("s.a", "x..a")],
)
def test_names_that_do_not_fit(subject: str, to: str) -> None:
    """Every wildcard has to be used, once."""
    with pytest.raises(ValueError, match=r"invalid (mapping destination|subject)"):
        names(subject, to)


def test_subjects() -> None:
    """Subsets and collisions."""
    assert is_subset("a.b", "a.*")
    assert is_subset("a.*", "a.>")
    assert is_subset("a.b", "a.b")
    assert not is_subset("a.>", "a.*")
    assert not is_subset("a", "a.>")
    assert not is_subset("a.b.c", "a.*")
    assert collide("a.*", "*.b")
    assert collide("a.>", "a.b.c")
    assert collide(">", "x")
    assert not collide("a.b", "a.c")
    assert not collide("a", "a.b")
    assert not collide("a.>", "a")


# ---- rows


def test_stream_rows() -> None:
    """Under its own name, behind a prefix, under another name."""
    (same,) = rows('{stream: "s.>"}', "{stream: {account: E, subject: s.a}}")
    assert (same.service, same.subject, same.local) == (False, "s.a", "s.a")
    (behind,) = rows('{stream: "s.>"}', '{stream: {account: E, subject: "s.>"}, prefix: p}')
    assert (behind.local, behind.order) == ("p.s.>", (0,))
    (dotted,) = rows('{stream: "s.>"}', '{stream: {account: E, subject: "s.>"}, prefix: "p."}')
    assert dotted.local == "p.s.>"
    (other,) = rows('{stream: "s.*.*"}', '{stream: {account: E, subject: "s.*.*"}, to: "t.$2.$1"}')
    assert (other.local, other.order) == ("t.*.*", (1, 0))


def test_service_rows() -> None:
    """A service's answers and threshold are those of the export that allows the import."""
    one = '{service: "s.>", response_type: stream, response_threshold: "3s"}'
    (row,) = rows(f'{one}, {{service: "t"}}', "{service: {account: E, subject: s.a}, to: mine}")
    assert (row.service, row.subject, row.local, row.singleton, row.threshold_ns) == (
        True, "s.a", "mine", False, 3_000_000_000,
    )  # fmt: skip
    (row,) = rows(f'{one}, {{service: "t"}}', "{service: {account: E, subject: t}}")
    assert (row.singleton, row.threshold_ns) == (True, 0)
    (row,) = rows('{service: a, response: Chunked, threshold: "1m"}', "{service: {account: E, subject: a}}")
    assert (row.singleton, row.threshold_ns) == (False, 60_000_000_000)


def test_own_export_first() -> None:
    """An export of exactly that subject decides, whatever contains it."""
    text = '{service: "s.>", response_type: stream}, {service: s.a}'
    (row,) = rows(text, "{service: {account: E, subject: s.a}}")
    assert row.singleton
    assert "service import not authorized" in problem(
        '{service: "s.>"}, {service: s.a, accounts: [O]}', "{service: {account: E, subject: s.a}}"
    )


def test_imports_service() -> None:
    """Whether an import takes the place of a subject."""
    server = load_text(config('{service: "$JS.API.>"}', '{service: {account: E, subject: "$JS.API.>"}}')).server
    found = compile_graph(server, Numbers())
    assert found.by_name["I"].imports_service("$JS.API.INFO")
    assert not found.by_name["E"].imports_service("$JS.API.INFO")


def test_a_reload_sees_changes() -> None:
    """Changed imports make a changed account; a changed export changes those who import it."""
    numbers = Numbers()

    def graph(exports: str, imports: str):  # type: ignore[no-untyped-def]
        return compile_graph(load_text(config(exports, imports)).server, numbers)

    before = graph("{service: s}", "{service: {account: E, subject: s}}")
    renamed = graph("{service: s}", "{service: {account: E, subject: s}, to: t}")
    longer = graph("{service: s, response_type: stream}", "{service: {account: E, subject: s}}")
    same = graph("{service: s}", "{service: {account: E, subject: s}}")
    assert ["I"] == [account.name for account in compare(before, renamed).changed]
    assert ["I"] == [account.name for account in compare(before, longer).changed]
    assert () == compare(before, same).changed


# ---- refusals, with the reference's words


@pytest.mark.parametrize(
    ("exports", "imports", "words"),
    [
        ("{stream: s}", "{stream: {account: X, subject: s}}", '"X" account not defined for stream import'),
        ("{stream: s}", "{service: {account: X, subject: s}}", '"X" account not defined for service import'),
        ("{stream: s}", "{stream: {account: E, subject: t}}", "stream import not authorized"),
        ("{stream: s}", "{service: {account: E, subject: s}}", "service import not authorized"),
        ("{stream: s.a}", '{stream: {account: E, subject: "s.>"}}', "stream import not authorized"),
        ("{stream: s, accounts: [O]}", "{stream: {account: E, subject: s}}", "stream import not authorized"),
        ("{service: s, accounts: [O]}", "{service: {account: E, subject: s}}", "service import not authorized"),
        ("{service: s, accounts: [X]}", "", '"X" account not defined for service export'),
        ("{stream: s}", "{stream: {account: E, subject: s}}, {stream: {account: E, subject: s}, prefix: p}",
         "stream import already exists"),
        ('{service: "s.>"}', "{service: {account: E, subject: s.a}}, {service: {account: E, subject: s.b}, to: s.a}",
         'duplicate service import subject "s.a", previously used in import for account "E", subject "s.a"'),
        ("{stream: s}", '{stream: {account: E, subject: s}, prefix: "p.*"}',
         "stream import prefix can not contain wildcard tokens"),
        ('{stream: "s.>"}', '{stream: {account: E, subject: "s.*"}, to: x}',
         'failed to create mapping transform for stream import subject from "s.*" to "x": invalid mapping '
         "destination: not using all of the token wildcard(s) in x"),
        ('{service: "s.>"}', '{service: {account: E, subject: "s.*"}, to: x}',
         'failed to create mapping transform for service import subject from "x" to "s.*"'),
        ('{service: "s.*.x", account_token_position: 2}', "{service: {account: E, subject: s.J.x}}",
         "service import not authorized"),
        ('{service: "s.*.x", account_token_position: 2}', '{service: {account: E, subject: "s.*.x"}}',
         "service import not authorized"),
        ("{service: s.a.x, account_token_position: 2}", "", "account_token_position 2 is not a *"),
        ("{stream: s, service: s}", "", "there is a stream already"),
        ("{stream: s, response_type: stream}", "", "response directive on non-service"),
        ("{service: s, response_type: strim}", "", 'Unknown response type: "strim"'),
        ("{stream: s}", "{stream: {subject: s}}", "an account name and a subject are expected"),
        ("{stream: s, service_: s}", "", "unknown field"),
    ],
)  # fmt: skip
def test_refused(exports: str, imports: str, words: str) -> None:
    """What does not fit together is said with its place."""
    said = problem(exports, imports)
    assert words in said
    assert said.startswith("<text>:1")


def test_token_position() -> None:
    """The importer's own name at its place is allowed."""
    (row,) = rows('{service: "s.*.x", account_token_position: 2}', "{service: {account: E, subject: s.I.x}}")
    assert row.subject == "s.I.x"


@pytest.mark.parametrize("kind", ["service", "stream"])
def test_circles(kind: str) -> None:
    """Accounts that import one subject in a circle are refused, whatever its length."""

    def account(name: str, of: str) -> str:
        return f"{name} {{ exports: [{{{kind}: a}}], imports: [{{{kind}: {{account: {of}, subject: a}}}}] }}"

    for circle in ("AB", "ABC"):
        accounts = ", ".join(account(name, of) for name, of in zip(circle, circle[1:] + circle[0], strict=True))
        with pytest.raises(ConfigError, match="import forms a cycle"):
            load_text(f"accounts {{ {accounts} }}")


def test_not_circles() -> None:
    """Two accounts may import different things of each other."""
    text = """accounts {
      A { exports: [{service: a}], imports: [{service: {account: B, subject: b}, to: c}] }
      B { exports: [{service: b}], imports: [{service: {account: A, subject: a}, to: d}] }
    }"""
    assert len(load_text(text).server.shared()) == 2


def test_what_is_measured_and_told() -> None:
    """An import has the latency of the export that allows it; where it shares who asks, or asks the system account, its
    connections are described to the plane."""
    loaded = load_text(
        config(
            '{service: s, latency: {sampling: "20%", subject: l}}, {service: u, latency: m},'
            " {service: t, latency: {sampling: headers, subject: l}}",
            "{service: {account: E, subject: s}, share: true}, {service: {account: E, subject: t}},"
            " {service: {account: E, subject: u}}",
        )
    )
    assert not loaded.warnings
    graph = compile_graph(loaded.server, Numbers())
    rows = graph.by_name["I"].imports
    assert [(20, "l", True), (0, "l", False), (100, "m", False)] == [(o.sampling, o.results, o.shared) for o in rows]
    assert graph.by_name["I"].described
    assert graph.by_name["E"].described
    assert not graph.by_name["$G"].described


@pytest.mark.parametrize(
    ("latency", "why"),
    [
        ("{sampling: 0, subject: l}", "bad sampling percentage"),
        ("{sampling: 101, subject: l}", "bad sampling percentage"),
        ('{sampling: "x%", subject: l}', "Failed to parse latency sample"),
        ("{sampling: 5}", "Latency subject required"),
        ('"l.*"', "invalid publish subject"),
        ("s", "invalid publish subject"),
        ("l, response_type: stream", "bad service response type"),
    ],
)
def test_what_cannot_be_measured(latency: str, why: str) -> None:
    """A share that is none, a subject that is none or the service's own, and services that answer often are refused."""
    with pytest.raises(ConfigError, match=why):
        load_text(config(f"{{service: s, latency: {latency}}}", ""))
