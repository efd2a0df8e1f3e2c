"""Subjects as the API judges them: names, overlap and subsets. Validity and transforms: config/transforms.py.

Matching of messages is the plane's (native/route); this is for configurations. collide() and subset() are the
definitions, for two subjects; SubjectSet answers the same for lists against lists, in time proportional to their
tokens. A node of its trie is a dict: token -> node, beside how many subjects end here (END) and how many have their
`>` here (REST).

Wildcards in many places can make two tries meet in quadratically many pairs of nodes. Nobody's subjects do; a request
that is written for it is refused after STEPS_MAX pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from leafd.jetstream import errors

STEPS_MAX: Final = 1_000_000
LIST_MAX: Final = 32_768
"""Subjects of a stream, filters of a consumer: native/jetstream/stream.h has the same number."""
TOKENS_MAX: Final = 256
SUBJECT_SIZE_MAX: Final = 4096
ALL_TOKENS_MAX: Final = 200_000
END: Final = 0
REST: Final = 1
Node = dict[Any, Any]

_NAME_BANNED: Final = frozenset(" \t\r\n\f.*>\\/")


def valid_name(name: str) -> bool:
    """Whether a stream or consumer may be called so. Bytes that are no UTF-8 are no name: they could not be shown, nor
    be stored apart from others."""
    return bool(name) and not _NAME_BANNED.intersection(name) and (name.isascii() or _is_text(name))


def _is_text(name: str) -> bool:
    return not any("\ud800" <= one <= "\udfff" for one in name)


def literal(subject: str) -> bool:
    """Whether it has no wildcard token."""
    return not {"*", ">"}.intersection(subject.split("."))


def storable(subject: str) -> bool:
    """Whether a stream may be made for messages of this subject alone: JSON can say it, and it means no other."""
    return literal(subject) and "\0" not in subject and (subject.isascii() or _is_text(subject))


def collide(one: str, other: str) -> bool:
    """Whether some subject matches both."""
    left, right = one.split("."), other.split(".")
    for a, b in zip(left, right, strict=False):
        if a == ">" or b == ">":
            return True
        if a != b and a != "*" and b != "*":
            return False
    # If one goes on where the other ends they do not: `a.>` needs one token more than `a`.
    return len(left) == len(right)


def subset(subject: str, of: str) -> bool:
    """Whether everything that `subject` matches is matched by `of` too."""
    inner, outer = subject.split("."), of.split(".")
    for index, token in enumerate(outer):
        if token == ">":
            return index < len(inner)
        if index >= len(inner):
            return False
        if inner[index] == ">":
            return False
        if token != "*" and (inner[index] != token):
            return False
    return len(inner) == len(outer)


def check_list(subjects: Iterable[str], count: int, what: str) -> None:
    """Bounds before anything is made of a list of subjects: no client publishes subjects that long, and the plane takes
    none of more tokens. Raises the ApiError."""
    if count > LIST_MAX:
        raise errors.STREAM_INVALID_CONFIG.error(err=f"more than {LIST_MAX} {what}")
    total = 0
    for subject in subjects:
        tokens = subject.count(".") + 1
        if tokens > TOKENS_MAX or len(subject) > SUBJECT_SIZE_MAX:
            bounds = f"{SUBJECT_SIZE_MAX} characters or {TOKENS_MAX} tokens"
            raise errors.STREAM_INVALID_CONFIG.error(err=f"{what} of more than {bounds}")
        total += tokens
    if total > ALL_TOKENS_MAX:
        raise errors.STREAM_INVALID_CONFIG.error(err=f"{what} have more than {ALL_TOKENS_MAX} tokens")


class Steps:
    """The limit on the work of one question."""

    __slots__ = ("_left",)

    def __init__(self, most: int = STEPS_MAX) -> None:
        self._left = most

    def take(self, count: int) -> None:
        """Raises the ApiError when it is too many."""
        self._left -= count
        if self._left < 0:
            raise errors.STREAM_INVALID_CONFIG.error(err="subjects have too many wildcards to be compared")


class SubjectSet:
    """Subjects to compare with others. Never changed after it is made, so that any thread may look."""

    def __init__(self, subjects: Iterable[str]) -> None:
        self.root: Node = {}
        for subject in subjects:
            self._add(subject)

    def _add(self, subject: str) -> None:
        node = self.root
        for token in subject.split("."):
            if token == ">":
                node[REST] = node.get(REST, 0) + 1
                return
            found = node.get(token)
            if found is None:
                found = node[token] = {}
            node = found
        node[END] = node.get(END, 0) + 1

    def meets(self, other: SubjectSet) -> bool:
        """Whether some subject matches one of ours and one of theirs."""
        return _meet([(self.root, other.root)], Steps())

    def meets_itself(self) -> bool:
        """Whether some subject matches two of ours."""
        stack, steps = [self.root], Steps()
        while stack:
            node = stack.pop()
            if node.get(END, 0) > 1 or node.get(REST, 0) > 1 or (REST in node and _goes_on(node)):
                return True
            star = node.get("*")
            children = [child for _, child in _children(node)]
            if star is not None and _meet([(star, child) for child in children if child is not star], steps):
                return True
            stack += children
        return False

    def covers_beside(self, subject: str, steps: Steps) -> bool:
        """Whether another of our subjects (or the same once more) matches all that `subject`, one of ours, matches."""
        nodes, own = [self.root], self.root
        for token in subject.split("."):
            if any(REST in node and not (token == ">" and node is own and node[REST] == 1) for node in nodes):
                return True
            if token == ">":
                return False
            wanted = (token,) if token == "*" else (token, "*")
            nodes = [node[one] for node in nodes for one in wanted if one in node]
            own = own[token]
            steps.take(len(nodes))
        return any(END in node and not (node is own and node[END] == 1) for node in nodes)


def first_overlap(subjects: tuple[str, ...]) -> tuple[int, int] | None:
    """The first subject that collides with a later one, and the first of those; None: no two collide (the same subject
    twice is a collision)."""
    if not SubjectSet(subjects).meets_itself():
        return None
    later, steps, first = SubjectSet(()), Steps(), 0
    for index in range(len(subjects) - 1, -1, -1):
        if _meet([(SubjectSet(subjects[index : index + 1]).root, later.root)], steps):
            first = index
        later._add(subjects[index])
    return next(
        (first, index) for index in range(first + 1, len(subjects)) if collide(subjects[first], subjects[index])
    )


def _children(node: Node) -> Iterator[tuple[str, Node]]:
    return ((token, child) for token, child in node.items() if token != END and token != REST)


def _goes_on(node: Node) -> bool:
    """Whether some subject has a token behind this node, beside a `>`."""
    return len(node) > (END in node) + (REST in node)


def _meet(stack: list[tuple[Node, Node]], steps: Steps) -> bool:
    """Whether below one of these pairs of nodes, whose prefixes fit, something fits too."""
    while stack:
        one, other = stack.pop()
        steps.take(1)
        if END in one and END in other:
            return True
        for here, there in ((one, other), (other, one)):
            if REST in here and (REST in there or _goes_on(there)):
                return True
        small, large = (one, other) if len(one) <= len(other) else (other, one)
        star, large_star = small.get("*"), large.get("*")
        for token, child in _children(small):
            if token == "*":
                continue
            if (same := large.get(token)) is not None:
                stack.append((child, same))
            if large_star is not None:
                stack.append((child, large_star))
        if star is not None:
            stack.extend((star, child) for _, child in _children(large))
    return False
