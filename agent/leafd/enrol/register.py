"""The register of enrolled boxes and tokens: pure, records in, verdicts out.

    token    {"token": ID, "digest": ..., "pattern": "box-*", "uses": 1, "expires": s}   made by `leafd enrol token`;
                                   "used", where records of boxes that used it are gone
    box      {"box": NAME, "nkey": "U...", "token": ID, "at": s}      enrolled; "token": "": by `leafd hub add`
    retired  {"retired": NAME, "at": s}        gone for good: its key is nobody's, its name takes a token of its own
    revoked  {"revoked": ID}                   a token that is worth nothing any more

    judge()  Refused | a box record, whose name and token are held for it until it is written -> apply() or give_up()
    enter()  the same of a box that is entered by its key, without a token

How often a token was used is what the records of boxes say: one record enrols the box and uses up the token, so no
power cut comes between the two. Not here: the file (journal.py), signatures (daemon/boxes.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from leafd.enrol.names import RULE, is_name, is_pattern, matches
from leafd.enrol.token import Secret
from leafd.records import dataclass

BOXES_MAX: Final = 100_000
TOKENS_MAX: Final = 10_000
"""Tokens that count at a time."""
USES_MAX: Final = 1_000_000

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Box:
    """One that is enrolled. token: the id of the one that it came with; empty: its key was entered at the hub."""

    name: str
    nkey: str
    token: str
    enrolled_s: int


@dataclass(frozen=True, slots=True)
class Token:
    """The hub's record of a token."""

    id: str
    digest: str
    pattern: str
    uses: int
    expires_s: int

    @property
    def exact(self) -> bool:
        """Whether it names one box."""
        return "*" not in self.pattern


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a box is not enrolled. known: it brought a token whose secret is right, so it may be told."""

    text: str
    known: bool = True


NO_TOKEN: Final = Refused("the token is not known", known=False)


class Register:
    """All boxes and tokens. Changed by apply() alone."""

    def __init__(self) -> None:
        self.boxes: dict[str, Box] = {}
        self.by_key: dict[str, Box] = {}
        self.tokens: dict[str, Token] = {}
        self.used: dict[str, int] = {}
        """How many boxes came with each token that is still there."""
        self.retired: dict[str, int] = {}
        """When each name was retired that has not come back."""
        self._used_by: dict[str, str] = {}
        """The latest of these."""
        self._held: dict[str, Record] = {}
        """Records of boxes that are being written, .."""
        self._held_keys: set[str] = set()
        self._held_uses: Counter[str] = Counter()
        """.. their keys, and how many of them there are by their tokens."""

    # ---- judging

    def judge(self, secret: Secret, nkey: str, name: str, domain: str, now_s: float) -> Record | Refused:
        """Whether a box that has proven its key is enrolled by this token. The caller has to give a record to apply()
        when it is written, or to give_up()."""
        token = self.tokens.get(secret.id)
        if token is None or not secret.is_of(token.digest):
            return NO_TOKEN
        refused = self._misfit(token, nkey, name, domain) or self._spent(token, now_s)
        if refused:
            return Refused(refused)
        return self._hold(name, nkey, token.id, now_s)

    def enter(self, nkey: str, name: str, now_s: float) -> Record | Refused:
        """The same of a box whose key somebody enters at the hub."""
        there = self.by_key.get(nkey)
        if there is not None:
            return Refused(f"that is the key of the box {there.name}")
        refused = self._taken(nkey, name)
        return Refused(refused) if refused else self._hold(name, nkey, "", now_s)

    def _hold(self, name: str, nkey: str, token: str, now_s: float) -> Record:
        record = {"box": name, "nkey": nkey, "token": token, "at": int(now_s)}
        self._held[name] = record
        self._held_keys.add(nkey)
        self._held_uses[token] += 1
        return record

    def _misfit(self, token: Token, nkey: str, name: str, domain: str) -> str:
        """Why that name is not this box's."""
        if not is_name(name):
            return f"server_name is what the box is called, and has {RULE}"
        if not matches(token.pattern, name):
            return f"the token is for {token.pattern}, and the box calls itself {name}"
        if domain not in ("", name):
            return f"the box's JetStream domain has to be its name, {name}"
        if name not in self.boxes and name in self.retired and not token.exact:
            return f"a box {name} was retired: it comes back with a token that is made for it by its name"
        return self._taken(nkey, name)

    def _taken(self, nkey: str, name: str) -> str:
        """Why there cannot be a box of that name and key."""
        if not is_name(name):
            return f"a box's name has {RULE}"
        if name in self.boxes:
            return f"there is a box {name} with another key: retire that one first (leafd enrol retire {name})"
        if name in self._held or nkey in self.by_key or nkey in self._held_keys:
            return f"the box {name} is just being enrolled: try again"
        if len(self.boxes) + len(self._held) >= BOXES_MAX:
            return f"there are {BOXES_MAX} boxes, which is as many as there may be"
        return ""

    def _spent(self, token: Token, now_s: float) -> str:
        """Why the token is worth nothing any more."""
        if token.expires_s <= now_s:
            return "the token has expired"
        if self.used.get(token.id, 0) + self._held_uses[token.id] < token.uses:
            return ""
        if token.uses != 1:
            return f"the token has enrolled {token.uses} boxes, which is as many as it may"
        return f"the token was used, by {self._used_by.get(token.id, 'another box')}"

    def give_up(self, record: Record) -> None:
        """Gives up a record that was not written, or that is settled."""
        if self._held.pop(record["box"], None) is not None:
            self._held_keys.discard(record["nkey"])
            self._held_uses -= Counter((record["token"],))

    def token_refused(self, pattern: str, uses: int, now_s: float) -> str:
        """Why there can be no such token; empty: there can."""
        if not is_pattern(pattern):
            return f"{pattern[:100]!r} is no name of a box or pattern of names: {RULE}, and * for any of these"
        if not 1 <= uses <= USES_MAX:
            return f"a token is good for 1 to {USES_MAX} boxes"
        if uses > 1 and "*" not in pattern:
            return f"a token for the one box {pattern} can be used once"
        if sum(not self.is_spent(one, now_s) for one in self.tokens.values()) >= TOKENS_MAX:
            return f"there are {TOKENS_MAX} tokens that nobody has used: revoke some"
        return ""

    def is_spent(self, token: Token, now_s: float) -> bool:
        """Whether it can enrol nobody any more."""
        return token.expires_s <= now_s or self.used.get(token.id, 0) >= token.uses

    # ---- records

    def apply(self, record: Record) -> None:
        """Applies a written record. Raises ValueError, KeyError, TypeError for what is no record."""
        if "box" in record:
            self._enrolled(record)
        elif "token" in record:
            one = Token(
                _text(record, "token"), _text(record, "digest"), _text(record, "pattern"),
                _number(record, "uses"), _number(record, "expires"),
            )  # fmt: skip
            self.tokens[one.id] = one
            self.used[one.id] = _number(record, "used") if "used" in record else 0
        elif "retired" in record:
            name = _text(record, "retired")
            gone = self.boxes.pop(name, None)
            if gone is not None:
                self.by_key.pop(gone.nkey, None)
            self.retired[name] = _number(record, "at")
        elif "revoked" in record:
            gone_token = _text(record, "revoked")
            self.tokens.pop(gone_token, None)
            self.used.pop(gone_token, None)
            self._used_by.pop(gone_token, None)
        else:
            raise ValueError("it is of no kind that is known: a newer leafd may have written it")

    def _enrolled(self, record: Record) -> None:
        name, token = _text(record, "box"), _text(record, "token")
        if not is_name(name):
            raise ValueError("the name of a box is none")
        box = Box(name, _text(record, "nkey"), token, _number(record, "at"))
        self.give_up(record)
        self.retired.pop(name, None)
        self.boxes[name] = self.by_key[box.nkey] = box
        if token in self.tokens:
            self.used[token] = self.used.get(token, 0) + 1
            self._used_by[token] = name

    def records(self, now_s: float) -> Iterator[Record]:
        """The records worth keeping when a file is begun anew. "used" of a token: by boxes that are not in it any
        more."""
        present = Counter(box.token for box in self.boxes.values())
        for token in self.tokens.values():
            if token.expires_s > now_s:
                yield {
                    "token": token.id,
                    "digest": token.digest,
                    "pattern": token.pattern,
                    "uses": token.uses,
                    "expires": token.expires_s,
                    "used": self.used.get(token.id, 0) - present[token.id],
                }
        for name, at in self.retired.items():
            yield {"retired": name, "at": at}
        for box in self.boxes.values():
            yield {"box": box.name, "nkey": box.nkey, "token": box.token, "at": box.enrolled_s}

    def names(self, pattern: str) -> tuple[str, ...]:
        """Boxes that are meant, in order."""
        if not is_pattern(pattern):
            return ()
        return tuple(sorted(name for name in self.boxes if matches(pattern, name)))


def _text(record: Record, key: str) -> str:
    value = record[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} is no text")
    return value


def _number(record: Record, key: str) -> int:
    value = record[key]
    if not isinstance(value, int):
        raise TypeError(f"{key} is no number")
    return value
