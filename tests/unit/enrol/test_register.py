"""Who may be enrolled: names, tokens and the register, as pure rules; and what is kept of them, after any power cut.

Not here: logins (interop/test_enrol.py).
"""

from __future__ import annotations

import errno
import fnmatch
import itertools
import json
import os
import time
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from leafd.enrol import journal
from leafd.enrol.journal import Journal, NotWritten, names_of
from leafd.enrol.names import is_name, is_pattern, matches
from leafd.enrol.register import BOXES_MAX, NO_TOKEN, TOKENS_MAX, Record, Refused, Register
from leafd.enrol.token import CERTIFICATE_MAX, Secret, Ticket, new_secret, read_secret, read_ticket
from leafd.errors import StartError, UsageError

NOW: Final = 1_790_000_000
HOSTILE: Final = (
    *("", ".", "a.b", "*", ">", "a>", "a b", "a\n", "a\x00", "../a", "a/b", "ä", "a" * 65, "$SYS", "{{name()}}"),
)


def made(register: Register, pattern: str, uses: int = 1, expires: int = NOW + 60) -> Secret:
    secret = new_secret()
    register.apply({"token": secret.id, "digest": secret.digest, "pattern": pattern, "uses": uses, "expires": expires})
    return secret


def enrolled(register: Register, secret: Secret, key: str, name: str, now: int = NOW) -> str:
    """Enrols; why not, or nothing."""
    found = register.judge(secret, key, name, name, now)
    if isinstance(found, Refused):
        return found.text
    register.apply(found)
    return ""


@pytest.mark.parametrize("name", HOSTILE)
def test_no_hostile_name_is_one(name: str) -> None:
    assert not is_name(name)
    assert name == "*" or not is_pattern(name)
    if name and name != "*" and len(name) < 65:
        assert not any(matches(pattern, name) for pattern in ("*", "a*", "*a"))


def test_a_pattern_stands_for_whole_names() -> None:
    assert matches("box-*", "box-1")
    assert matches("box-*", "box-")
    assert matches("*", "x")
    assert matches("a*c*e", "abcde")
    assert not matches("box-*", "xbox-1")
    assert not matches("box-1", "box-11")
    assert not matches("a*c*e", "abcdef")
    assert not matches("box-1", "box-1\n")
    assert not matches("*", "box.1")


def test_a_pattern_of_stars_costs_no_more_than_one_of_letters() -> None:
    """Whoever reaches the monitoring port may ask for boxes of any pattern, and who has a token may choose a name."""
    assert not matches("*" * 64, "." * 64)
    assert matches("*" * 64, "a" * 64)
    began = time.process_time()
    for stars in range(1, 32):
        for pattern in ("*a" * stars + "*-", "a*" * stars + "-", "*" + "a*" * stars + "b", "a*" * 33 * stars):
            assert not matches(pattern, "a" * 32), pattern
    assert time.process_time() - began < 0.5, "with a regular expression eight stars take minutes"


def test_a_pattern_means_what_the_shell_s_star_means() -> None:
    """Beside Python's fnmatch, over all short patterns and names."""
    names = ["".join(one) for size in range(5) for one in itertools.product("ab", repeat=size)]
    for size in range(1, 6):
        for letters in itertools.product("ab*", repeat=size):
            pattern = "".join(letters)
            assert [fnmatch.fnmatchcase(name, pattern) for name in names] == [matches(pattern, name) for name in names]


def test_boxes_of_what_is_no_pattern_are_none() -> None:
    register = Register()
    assert not enrolled(register, made(register, "*"), "U1", "box-1")
    assert register.names("box-*") == ("box-1",) == register.names("*-*1*")
    assert not register.names("*" * 100_000)
    assert not register.names("*.*")
    assert not register.names("")


def test_a_token_is_read_as_it_was_written() -> None:
    secret = new_secret()
    assert read_secret(secret.text) == secret
    for certificate in (b"", b"\x30\x82" + bytes(range(256)) * 4, bytes(CERTIFICATE_MAX)):
        text = Ticket(secret, certificate).text
        assert read_ticket(text) == Ticket(secret, certificate)
        assert read_ticket(f" {text[:30]}\n{text[30:]}\n") == Ticket(secret, certificate), "as a terminal folds it"


@pytest.mark.parametrize("text", ["", "lfd1", "lfd1-AAAA", "lfd2-AAAAAAAA-" + "A" * 26, "lfd1-aaaaaaaa-" + "A" * 26])
def test_what_is_no_token_is_told_from_one(text: str) -> None:
    assert read_secret(text) is None
    with pytest.raises(UsageError, match="no token"):
        read_ticket(text)


def test_a_token_whose_certificate_is_damaged_is_refused() -> None:
    for rest in ("MIIB!", "MIIBx=", "MIIB.MIIB", "A"):
        with pytest.raises(UsageError, match="damaged"):
            read_ticket(f"{new_secret().text}.{rest}")


def test_of_a_token_a_digest_is_kept_that_another_secret_does_not_have() -> None:
    one, other = new_secret(), new_secret()
    assert one.is_of(one.digest)
    assert not other.is_of(one.digest)
    assert one.secret not in one.digest


def test_a_token_is_used_once_also_by_boxes_that_come_at_the_same_moment() -> None:
    register = Register()
    secret = made(register, "box-*")
    first = register.judge(secret, "UA", "box-1", "", NOW)
    assert not isinstance(first, Refused)
    for key, name in (("UB", "box-2"), ("UA", "box-1"), ("UB", "box-1"), ("UA", "box-2")):
        assert isinstance(register.judge(secret, key, name, "", NOW), Refused)
    register.give_up(first)
    assert enrolled(register, secret, "UB", "box-2") == ""
    assert enrolled(register, secret, "UC", "box-3") == "the token was used, by box-2"


def test_whoever_has_no_token_learns_nothing_of_names() -> None:
    register = Register()
    assert enrolled(register, made(register, "box-1"), "UA", "box-1") == ""
    stranger = new_secret()
    guess = Secret(next(iter(register.tokens)), stranger.secret)
    for secret in (stranger, guess):
        for name in ("box-1", "box-2", "*"):
            assert register.judge(secret, "UB", name, name, NOW) is NO_TOKEN


def test_time_and_revocation_end_a_token() -> None:
    register = Register()
    secret, other = made(register, "*", uses=5, expires=NOW), made(register, "*")
    assert enrolled(register, secret, "UA", "a", NOW - 1) == ""
    assert enrolled(register, secret, "UB", "b", NOW) == "the token has expired"
    register.apply({"revoked": other.id})
    assert enrolled(register, other, "UB", "b") == NO_TOKEN.text


def test_a_retired_box_is_nobody_and_its_name_takes_a_token_of_its_own() -> None:
    register = Register()
    factory = made(register, "box-*", uses=9)
    assert enrolled(register, factory, "UA", "box-1") == ""
    register.apply({"retired": "box-1", "at": NOW})
    assert register.by_key == {}
    assert register.names("*") == ()
    assert "was retired" in enrolled(register, factory, "UA", "box-1")
    assert enrolled(register, made(register, "box-1"), "UA", "box-1") == ""
    assert "was retired" not in enrolled(register, factory, "UB", "box-2")


@pytest.mark.parametrize(("pattern", "uses"), [("", 1), ("a.b", 1), ("a", 0), ("a", -1), ("a", 2), ("*", 1_000_001)])
def test_a_token_that_makes_no_sense_is_not_made(pattern: str, uses: int) -> None:
    assert Register().token_refused(pattern, uses, NOW)


def test_there_are_so_many_boxes_and_tokens_and_no_more() -> None:
    register = Register()
    secret = made(register, "*", uses=BOXES_MAX + 1)
    for number in range(BOXES_MAX):
        assert enrolled(register, secret, f"U{number}", f"b{number}") == ""
    assert "as many as there may be" in enrolled(register, secret, "U", "b")
    for number in range(TOKENS_MAX - 1):
        if number % 100 == 0 or number > TOKENS_MAX - 10:  # it walks all tokens
            assert register.token_refused("*", 1, NOW) == "", number
        made(register, "*")
    assert "revoke some" in register.token_refused("*", 1, NOW)
    assert register.token_refused("*", 1, NOW + 61) == "", "those that have expired do not count"


# ---- the file


def state(register: Register) -> tuple[Any, ...]:
    used = {name: count for name, count in register.used.items() if count}
    return register.boxes, register.tokens, used, register.retired


def history(directory: Path) -> list[tuple[int, tuple[Any, ...]]]:
    """A day of a hub, in its file; how long the file was after each step, and what held then."""
    found = []

    async def run() -> None:
        kept = Journal(directory, NOW)
        secrets = [new_secret() for _ in range(3)]
        steps: list[Record] = [
            {"token": one.id, "digest": one.digest, "pattern": "*", "uses": 2, "expires": NOW + 60} for one in secrets
        ]
        steps += [{"box": f"b{n}", "nkey": f"U{n}", "token": secrets[n % 2].id, "at": NOW} for n in range(4)]
        steps += [{"retired": "b1", "at": NOW}, {"revoked": secrets[2].id}]
        found.append((0, state(Register())))
        for step in steps:
            await kept.keep(step)
            copy = names_of(directory)
            assert state(copy) == state(kept.register)
            found.append((kept.path.stat().st_size, state(copy)))
        kept.close()

    trio.run(run)
    return found


def test_a_power_cut_at_any_byte_leaves_what_was_told_and_nothing_in_half(tmp_path: Path) -> None:
    """Whatever of the last line is there, zeros behind it included: what held before it holds, and the next record goes
    where the last whole one ends."""
    steps = history(tmp_path / "a")
    data = (tmp_path / "a" / "boxes").read_bytes()
    for length in range(len(data) + 1):
        for tail in (b"", bytes(7)) if length % 5 == 0 else (b"",):
            directory = tmp_path / f"{length}-{len(tail)}"
            directory.mkdir()
            (directory / "boxes").write_bytes(data[:length] + tail)
            kept = Journal(directory, NOW)
            size, expected = max((one for one in steps if one[0] <= length), key=lambda one: one[0])
            assert state(kept.register) == expected, length
            assert kept.path.stat().st_size == size, length
            assert kept.cut_off == length + len(tail) - size
            kept.close()


def test_damage_that_is_no_torn_end_keeps_the_daemon_from_starting(tmp_path: Path) -> None:
    """What stood there may have been a retirement: the box would be let in again."""
    history(tmp_path / "a")
    data = (tmp_path / "a" / "boxes").read_bytes()
    last = data[:-1].rindex(b"\n") + 1
    for at in range(0, last, 7):
        if data[at : at + 1] == b"\n":
            continue
        directory = tmp_path / str(at)
        directory.mkdir()
        (directory / "boxes").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(StartError, match=r"line \d+: it is damaged"):
            Journal(directory, NOW)


def test_a_record_of_a_newer_version_keeps_it_from_starting(tmp_path: Path) -> None:
    for record in ({"moved": "b1"}, {"box": 5}, {"box": "a.b", "nkey": "U", "token": "T", "at": 1}, {"token": "A"}):
        (tmp_path / "boxes").write_bytes(journal.encoded([record]))
        with pytest.raises(StartError, match="line 1"):
            Journal(tmp_path, NOW)


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A disk that takes so many more bytes, then none."""
    left, write = [1 << 30], os.pwrite

    def pwrite(descriptor: int, data: Any, at: int) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = write(descriptor, data[: left[0]], at)
        left[0] -= taken
        return taken

    monkeypatch.setattr(os, "pwrite", pwrite)
    return left


@pytest.mark.parametrize("room", [0, 1, 40])
def test_what_cannot_be_written_does_not_hold_and_takes_nothing(tmp_path: Path, full: list[int], room: int) -> None:
    async def run() -> None:
        kept = Journal(tmp_path, NOW)
        secret = new_secret()
        made = {"token": secret.id, "digest": secret.digest, "pattern": "b1", "uses": 1, "expires": NOW + 60}
        await kept.keep(made)
        before, size = state(kept.register), kept.path.stat().st_size
        full[0] = room
        record = kept.register.judge(secret, "UA", "b1", "", NOW)
        assert not isinstance(record, Refused)
        with pytest.raises(NotWritten, match="No space left"):
            await kept.keep(record)
        assert state(kept.register) == before
        assert kept.path.stat().st_size == size
        full[0] = 1 << 30
        again = kept.register.judge(secret, "UA", "b1", "", NOW)
        assert not isinstance(again, Refused), "neither the token nor the name is held any more"
        await kept.keep(again)
        kept.close()
        assert names_of(tmp_path).names("*") == ("b1",)

    trio.run(run)


def test_records_that_come_together_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 boxes at once are no 1,000 syncs; each is told when its own is on the disk."""
    syncs, sync = [0], os.fdatasync

    def fdatasync(descriptor: int) -> None:
        syncs[0] += 1
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", fdatasync)

    async def run() -> None:
        kept = Journal(tmp_path, NOW)

        async def one(number: int) -> None:
            await kept.keep({"box": f"b{number}", "nkey": f"U{number}", "token": "T", "at": NOW})
            assert number % 50 or f"b{number}" in names_of(tmp_path).boxes

        async with trio.open_nursery() as nursery:
            for number in range(1_000):
                nursery.start_soon(one, number)
        kept.close()

    trio.run(run)
    assert len(names_of(tmp_path).boxes) == 1_000
    assert syncs[0] <= 10


def test_who_is_cancelled_while_it_is_written_is_enrolled_all_the_same(tmp_path: Path) -> None:
    """A box whose connection ends while its line is written comes again, and is known."""

    async def run() -> None:
        kept = Journal(tmp_path, NOW)
        with trio.CancelScope() as scope:
            scope.cancel()
            await kept.keep({"box": "b1", "nkey": "UA", "token": "T", "at": NOW})
        assert "b1" in kept.register.boxes
        assert "b1" in names_of(tmp_path).boxes
        kept.close()

    trio.run(run)


def test_a_file_of_much_that_is_over_is_made_anew_and_says_the_same(tmp_path: Path) -> None:
    """Tokens that were used stay used, also by boxes that are gone."""
    register, lines = Register(), []
    secret = new_secret()
    kept: list[Record] = [
        {"token": secret.id, "digest": secret.digest, "pattern": "*", "uses": 2000, "expires": NOW + 60},
        *({"box": f"b{n % 9}", "nkey": f"U{n}", "token": secret.id, "at": NOW} if n % 2 == 0 else
          {"retired": f"b{(n - 1) % 9}", "at": NOW} for n in range(3_000)),
    ]  # fmt: skip
    for record in kept:
        register.apply(record)
        lines.append(journal.encoded([record]))
    (tmp_path / "boxes").write_bytes(b"".join(lines) + b"half a line")
    first = Journal(tmp_path, NOW)
    assert 11 == first.cut_off
    first.close()
    assert (tmp_path / "boxes").stat().st_size < sum(map(len, lines)) // 10
    assert state(names_of(tmp_path)) == state(register)
    assert register.used[secret.id] == 1_500


def test_a_line_is_json_that_people_can_read(tmp_path: Path) -> None:
    history(tmp_path)
    for line in (tmp_path / "boxes").read_text().splitlines():
        assert isinstance(json.loads(line.partition(" ")[2]), list)
