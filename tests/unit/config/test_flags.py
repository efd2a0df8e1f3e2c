"""The command line as nats-server takes it, and how it overrides the file."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from leafd.cli import COMMANDS
from leafd.config.flags import _SPELLINGS, HELP, Flags, parse_flags
from leafd.config.load import load
from leafd.config.schema.base import SECOND
from leafd.errors import ConfigError, UsageError


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-p", "4333"], Flags(port=4333)),
        (["--port=4333"], Flags(port=4333)),
        (["-port", "-1"], Flags(port=-1)),
        (["-js", "-sd", "/x"], Flags(jetstream=True, store_dir="/x")),
        (["-js=false"], Flags(jetstream=False)),
        (["-DV"], Flags(debug=True, trace=True, debug_trace=True)),
        (["-V", "-D"], Flags(debug=True, trace=True)),
        (["--user", "u", "--pass", "p"], Flags(user="u", password="p")),
        (
            ["-a", "127.0.0.1", "-m", "8222", "-n", "x", "-P", "f"],
            Flags(host="127.0.0.1", http_port=8222, server_name="x", pid_file="f"),
        ),
        (["--signal", "reload=/run/x.pid"], Flags(signal="reload=/run/x.pid")),
        (["-sl", "quit"], Flags(signal="quit")),
        (["-T=false"], Flags(logtime=False)),
        (["help"], Flags(help=True)),
    ],
)
def test_flags(words: list[str], expected: Flags) -> None:
    """One dash or two, value behind = or as the next word."""
    assert expected == parse_flags(words)


@pytest.mark.parametrize("words", [["--bogus"], ["-p"], ["-p", "x"], ["word"], ["-js=maybe"]])
def test_wrong_flags(words: list[str]) -> None:
    """What is not a flag, or lacks its value, is refused."""
    with pytest.raises(UsageError):
        parse_flags(words)


@pytest.mark.parametrize("word", ["--profile", "--help_tls", "-s"])
def test_flags_of_missing_rooms(word: str) -> None:
    """Flags that nats-server has and this build has not say what to do instead."""
    with pytest.raises(UsageError, match=": "):
        parse_flags([word, "x"])


def test_flags_override_the_file(tmp_path: Path) -> None:
    """The command line wins over the configuration file."""
    path = tmp_path / "c.conf"
    path.write_text(
        "listen: 127.0.0.1:4000\nserver_name: a\njetstream { store_dir: /a, domain: d }\nhttp: 127.0.0.1:1\n"
    )
    server = load(parse_flags(["-c", str(path), "-p", "5", "-n", "b", "-sd", "/b", "-m", "2"])).server
    assert ("127.0.0.1", 5) == server.client_address()
    assert ("b", "/b", ("127.0.0.1", 2)) == (server.server_name, server.store_path(), server.monitor_address())
    assert "d" == (server.jetstream.domain if server.jetstream else "")


def test_a_flag_leaves_the_files_other_keys_as_they_are(tmp_path: Path) -> None:
    """What the file says is read once: ten seconds stay ten seconds, whatever flags there are."""
    path = tmp_path / "c.conf"
    path.write_text('ping_interval: "10s"\njetstream { sync_interval: "2s" }\nmappings { a: b }\n')
    alone, beside = (load(parse_flags(["-c", str(path), *flags])).server for flags in ([], ["-n", "x"]))
    assert 10 * SECOND == beside.ping_interval
    assert (alone.jetstream, alone.mappings) == (beside.jetstream, beside.mappings)
    assert ("", "x") == (alone.server_name, beside.server_name)


def test_user_on_the_command_line() -> None:
    """--user and --pass make a single login."""
    assert {"u": "$G"} == load(parse_flags(["--user", "u", "--pass", "p"])).server.known_users()


def test_wrong_value_on_the_command_line() -> None:
    """A flag is held to the same bounds as the key."""
    with pytest.raises(ConfigError, match="command line"):
        load(Flags(server_name="a b"))


def leafd(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "leafd", *words], capture_output=True, text=True, timeout=20)


def test_check_prints_like_the_reference(tmp_path: Path) -> None:
    """-t ends with 0 and one line for a good file, with 1 and the places for a bad one."""
    good, bad = tmp_path / "good.conf", tmp_path / "bad.conf"
    good.write_text("port: 4222\n")
    bad.write_text("prt: 4222\n")
    done = leafd("-t", "-c", str(good))
    assert 0 == done.returncode
    assert re.fullmatch(rf"leafd: configuration file {good} is valid \(sha256:[0-9a-f]{{64}}\)\n", done.stdout)
    done = leafd("-t", "-c", str(bad))
    assert 1 == done.returncode
    assert done.stderr.startswith(f"leafd: {bad}:1:1: unknown field 'prt'")


def test_check_needs_a_file() -> None:
    """-t alone says what is missing, in the reference's words."""
    done = leafd("-t")
    assert (1, "leafd: must specify [-c, --config] option to check configuration file syntax\n") == (
        done.returncode,
        done.stderr,
    )


def test_version_and_help_answer_without_the_daemon() -> None:
    """-v and --help load no trio, which is what makes them quick."""
    code = (
        "import sys; sys.argv = ['leafd', sys.argv[1]]; from leafd.__main__ import main; "
        "assert main() == 0; assert not {'trio', 'leafd._native'} & set(sys.modules)"
    )
    for word in ("-v", "--help"):
        done = subprocess.run([sys.executable, "-c", code, word], capture_output=True, text=True, timeout=20)
        assert (0, "") == (done.returncode, done.stderr)


def test_the_version_is_the_packages() -> None:
    """-v says what the package manager says."""
    assert f"leafd: v{metadata.version('leafd')}\n" == leafd("-v").stdout


def test_flags_of_a_cluster_override_its_block(tmp_path: Path) -> None:
    """As nats-server's: the login of --cluster takes the place of the file's, and an empty one ends the cluster."""
    path = tmp_path / "c.conf"
    path.write_text(
        "cluster { name: a, port: 1, connect_retries: 1, connect_backoff: true, authorization { user: x, pass: y } }"
    )
    words = ["--cluster", "nats://u:p%20q@h:-1", "--routes", "nats://a:1, b:2", "--cluster_name", "n"]
    words += ["--cluster_advertise", "c:3", "--no_advertise", "--connect_retries", "7"]
    block = load(parse_flags(["-c", str(path), *words])).server.cluster
    assert block is not None
    assert block.address() == ("h", -1)
    assert block.authorization is not None
    assert (block.authorization.user, block.authorization.password) == ("u", "p q")
    assert (block.routes, block.name, block.advertise) == (("nats://a:1", "b:2"), "n", "c:3")
    assert (block.no_advertise, block.connect_retries, block.connect_backoff) == (True, 7, True)
    assert load(parse_flags(["-c", str(path), "--cluster="])).server.cluster_address() is None
    assert load(parse_flags(["-c", str(path), "--cluster_listen", "nats://h:5"])).server.cluster_address() == ("h", 5)


@pytest.mark.parametrize("words", [["--routes", "a:1"], ["--cluster", "h"], ["--cluster", "nats://u@h:1"]])
def test_flags_of_a_cluster_that_do_not_fit_are_refused(words: list[str]) -> None:
    """In nats-server's words where it has some."""
    with pytest.raises(ConfigError, match=r"cluster capabilities|an address is expected|expected cluster password"):
        load(parse_flags(words))


def test_the_help_fits_a_screen_and_names_every_command() -> None:
    """Whoever types `leafd --help` finds what README types, at 80 columns."""
    assert [] == [line for line in HELP.splitlines() if len(line) > 80]
    words = set(re.findall(r"[\w-]+", HELP))
    assert set() == set(COMMANDS) - words
    fields = {name for name in _SPELLINGS.values() if not any(word in words for word in spelt(name))}
    assert set() == fields


def spelt(field: str) -> list[str]:
    return [dashes + word for word, name in _SPELLINGS.items() if name == field for dashes in ("-", "--")]
