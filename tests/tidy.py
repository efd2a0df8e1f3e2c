"""Rules for the whole tree: which room may use which, how long files and functions may be, what a file opens with.

Run as a program (python -m tests.tidy) it prints each complaint as file:line: text; under pytest each rule is one test.
The rules are those of the table of rooms in packaging/doc/architecture.md, and this is the only form of them that a
machine reads.

Not here: formatting and lint (ruff), types (mypy).
"""

from __future__ import annotations

import ast
import fnmatch
import functools
import io
import os
import re
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import words
from tests.rooms import (
    C_OWNERS,
    C_ROOMS,
    DOERS,
    NATIVE_OWNER,
    PYTHON_APART,
    PYTHON_OWNERS,
    PYTHON_PURE,
    PYTHON_RANKS,
    READING_ROOMS,
    SPARK_KNOWS,
    SPARK_ROOMS,
)

ROOT = Path(__file__).resolve().parent.parent

FILE_LINES_MAX = 600
HEADER_LINES_MAX = 250
FUNCTION_LINES_MAX = 70
C_COLUMNS_MAX = 120
DOCUMENT_COLUMNS_MAX = 100

# Longer than allowed, with the reason and the length it may not grow beyond. A number here may only go down.
LONG_FILES: dict[str, tuple[int, str]] = {}
LONG_FUNCTIONS: dict[str, tuple[int, str]] = {}

# Spelt apart, so that this file passes its own rule.
BANNED_WORDS = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX")) + r")\b")
# From the margin over at most a few lines to the brace; what holds ";" or "=" is a declaration or a table.
C_FUNCTION = re.compile(r"^[A-Za-z_][^;{}=()]*?(\w+)\s*\([^;{}]*\)[^;{}=]*\{$", re.MULTILINE)
C_STATIC = re.compile(r"^static (?:[\w ]*__attribute__\(\(\w+\)\) )?[^;{}=()]*?(\w+)\([^;{}]*\)\s*\{$", re.MULTILINE)
C_COMMENT = re.compile(r"/\*.*?\*/|(?<!:)//[^\n]*", re.DOTALL)
# A file by its name, with or without folders; what has a wildcard or a placeholder in it names no single file.
FILE_NAME = re.compile(r"(?<![\w./*<>{}$-])[A-Za-z0-9_][\w./-]*\.(?:md|c|h|py)\b(?![\w*-]|\.\w)")
# A transcript, or several, in a page of tests/wire: `client/sub-*`.
TRANSCRIPT_NAME = re.compile(r"`((?:client|leaf|jetstream)/[a-z0-9*-]+)`")
# What may be named and is no file of this tree, with the reason.
FOREIGN_NAMES = {
    "lmdb.h": "of LMDB",
    "zlib.h": "of zlib",
    "a.b.c": "a subject",
    "devices.py": "of the tutorial in spark.md, as the next two",
    "plot.py": "",
    "follow.py": "",
}
# Folders that names of files are given from, beside the file's own.
NAMED_FROM = ("", "native/", "agent/", "agent/leafd/", "tests/")
# What the charter of a room's private header says.
PRIVATE = re.compile(r"Nobody outside ((?:native/\w+(?: and )?)+) includes this")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')
# A struct that says whose it is, and a member: type, stars, name, and a comment behind it, which may name others.
OWNED = re.compile(
    r"^(?:typedef )?struct (\w+) \{ +/\* only (.+?) writes? to it \*/\n(.*?)^\}", re.MULTILINE | re.DOTALL
)
MEMBER = re.compile(r"^( +)([\w ]+?)( \**|\b)(\w+(?:\[\w+\])*;)(.*)", re.MULTILINE)
MEMBER_OWNER = re.compile(r"/\* only ((?:\w+\.c|and|,| )+)")
OWNED_ROOMS = ("store", "recovery")  # whose files may see such structs
COMPILER_ERROR = re.compile(r"^(native/[\w/.]+):(\d+):\d+: error: (.*)", re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """One file of the tree: its path from the root, with slashes, and its text."""

    path: str
    text: str

    @functools.cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def room(self) -> str:
        """The room of a file under native/ or agent/leafd/, or the empty string."""
        for root in ("native/", "agent/leafd/"):
            if self.path.startswith(root):
                return self.path.removeprefix(root).split("/")[0].removesuffix(".py")
        return ""


@dataclass(frozen=True)
class Complaint:
    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


Rule = Callable[[list[Source]], Iterator[Complaint]]


@functools.cache
def sources() -> list[Source]:
    """All text files that git knows or would take up, as they were when they were first asked for."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout.decode()
    found = []
    for path in sorted(set(filter(None, listed.split("\0")))):
        try:
            found.append(Source(path, (ROOT / path).read_text()))
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue  # binary, or deleted and not yet committed
    return found


def is_c(source: Source) -> bool:
    return source.path.endswith((".c", ".h"))


def is_python(source: Source) -> bool:
    return source.path.endswith(".py") or (source.text.startswith("#!") and "python3" in source.lines[0])


# ---- which room may use which ----------------------------------------------------------------------------------------


def c_includes(tree: list[Source]) -> Iterator[Complaint]:
    """A C room includes only the rooms that it stands on; OpenSSL and LMDB are known to few files."""
    for source in filter(is_c, tree):
        for number, line in enumerate(source.lines, 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            target = found[2]
            for library, owners in C_OWNERS.items():
                if (
                    target.split("/")[0] == library
                    and not any(fnmatch.fnmatch(source.path, owner) for owner in owners)
                    and source.path.startswith("native/")
                ):
                    yield Complaint(source.path, number, f"only {' and '.join(owners)} may know {library}")
            room = target.split("/")[0]
            if source.room in C_ROOMS and room in C_ROOMS and room not in C_ROOMS[source.room] | {source.room}:
                yield Complaint(source.path, number, f"{source.room}/ must not include {room}/")


def private_headers(tree: list[Source]) -> Iterator[Complaint]:
    """A header that says "Nobody outside native/ROOM includes this" is included by nobody else, tests apart."""
    allowed = {}
    for source in filter(is_c, tree):
        found = PRIVATE.search(re.sub(r"\n \* ", " ", source.text.partition("*/")[0]))
        if found:
            allowed[source.path.removeprefix("native/")] = set(re.findall(r"native/(\w+)", found[1]))
    for source in filter(c_room, tree):
        for number, line in enumerate(source.lines, 1):
            include = INCLUDE.match(line)
            if include and source.room not in allowed.get(include[2], {source.room}):
                yield Complaint(source.path, number, f"{include[2]} says that {source.room}/ does not include it")


def c_files(text: str) -> set[str]:
    return set(re.findall(r"\w+\.c", text))


def sealed_header(text: str, writer: str, owned: set[str]) -> str:
    """A header in which members that are not the file `writer`'s are const, those apart that are owned structs."""

    def seal(found: re.Match[str]) -> str:
        def member(line: re.Match[str]) -> str:
            apart = MEMBER_OWNER.search(line[5])
            writers = c_files(apart[1] if apart else found[2])
            struct = "*" not in line[3] and line[2].removeprefix("struct ").removesuffix("_t") in owned
            return line[0] if struct or writer in writers else f"{line[1]}{line[2]}{line[3]} const {line[4]}{line[5]}"

        return MEMBER.sub(member, found[0])

    return OWNED.sub(seal, text)


def struct_owners(tree: list[Source]) -> Iterator[Complaint]:
    """A struct that says "only FILE writes to it" is written to by that file alone, tests apart: for all others the
    compiler is shown its members as const.
    """
    headers = [source for source in tree if c_room(source) and OWNED.search(source.text)]
    owned = {found[1] for source in headers for found in OWNED.finditer(source.text)}
    groups: dict[tuple[str, ...], list[Source]] = {}
    for source in tree:
        if c_room(source) in OWNED_ROOMS and source.path.endswith(".c"):
            writer = source.path.rsplit("/", 1)[-1]
            texts = tuple(sealed_header(header.text, writer, owned) for header in headers)
            groups.setdefault(texts, []).append(source)
    for texts, sources_of_it in groups.items():
        with tempfile.TemporaryDirectory() as folder:
            placed = {source.path: source.text for source in sources_of_it}
            for header, text in zip(headers, texts, strict=True):
                placed[f"sealed/{header.path.removeprefix('native/')}"] = text
            for path, text in placed.items():
                Path(folder, path).parent.mkdir(parents=True, exist_ok=True)
                Path(folder, path).write_text(text)
            command = [os.environ.get("CC", "cc"), "-std=gnu11", "-D_GNU_SOURCE", "-Werror", "-fsyntax-only"]
            paths = [source.path for source in sources_of_it]
            compiled = subprocess.run(
                [*command, "-Isealed", f"-I{ROOT / 'native'}", *paths],
                cwd=folder,
                env={**os.environ, "LC_ALL": "C"},
                capture_output=True,
                text=True,
            )
        complaints = [
            Complaint(found[1], int(found[2]), f"{found[3]} (its struct says who writes to it)")
            for found in COMPILER_ERROR.finditer(compiled.stderr)
        ]
        yield from complaints
        if compiled.returncode != 0 and not complaints:
            yield Complaint(paths[0], 1, compiled.stderr.strip())


def imported(source: Source) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of every module that a Python file imports, names taken from a package included."""
    package = source.path.removeprefix("agent/").split("/")[:-1]
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield node.lineno, name.name
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, (base, node.module or "")))
            for name in node.names:
                yield node.lineno, f"{module}.{name.name}"


def python_imports(tree: list[Source]) -> Iterator[Complaint]:
    """A Python room imports only lower rooms; foreign libraries with one owner are imported by that owner only."""
    for source in tree:
        if source.path.startswith("agent/leafd_spark/"):
            yield from spark_imports(source)
        if not (source.path.startswith("agent/leafd/") and source.path.endswith(".py")):
            continue
        for number, name in imported(source):
            parts = name.split(".")
            if parts[0] == "lmdb":
                yield Complaint(
                    source.path, number, "lmdb is banned here: closing it drops the daemon's locks on its store"
                )
            if parts[0] in PYTHON_OWNERS and source.path != PYTHON_OWNERS[parts[0]]:
                yield Complaint(source.path, number, f"only {PYTHON_OWNERS[parts[0]]} may know {parts[0]}")
            if parts[0] == "leafd_spark":
                yield Complaint(source.path, number, "leafd_spark is for Spark: nothing of the daemon may import it")
            if parts[0] != "leafd" or len(parts) < 2:
                continue
            if parts[1] == "_native" and source.path != NATIVE_OWNER:
                yield Complaint(source.path, number, f"only {NATIVE_OWNER} may import the C extension")
            complaint = room_complaint(source.room, parts[1])
            if complaint:
                yield Complaint(source.path, number, complaint)


def spark_imports(source: Source) -> Iterator[Complaint]:
    """The package for Spark knows two rooms of leafd, and its own rooms only as SPARK_ROOMS says."""
    room = source.path.split("/")[2].removesuffix(".py")
    for number, name in imported(source):
        package, _, rest = name.partition(".")
        target = rest.split(".")[0]
        if package == "leafd" and target not in SPARK_KNOWS:
            yield Complaint(source.path, number, f"leafd_spark stands apart from leafd.{target}")
        known = {room} | SPARK_ROOMS.get(room, set())
        if package == "leafd_spark" and target in SPARK_ROOMS and target not in known:
            yield Complaint(source.path, number, f"leafd_spark.{room} must not import leafd_spark.{target}")


def room_complaint(room: str, target: str) -> str:
    """Why `room` may not import leafd.<target>, or the empty string."""
    if room == target or room == "__main__" or (target not in PYTHON_RANKS and target not in PYTHON_APART):
        return ""
    if room in PYTHON_APART:
        return "" if target in PYTHON_APART[room] else f"{room} stands apart from leafd.{target}"
    if target in PYTHON_APART:
        return f"leafd.{target} is a tool: nothing of the daemon may import it"
    if room not in PYTHON_RANKS:
        return f"tests/rooms.py does not know the room {room}: give it a rank"
    if target.startswith("native") and room in PYTHON_PURE:
        return f"{room} must not need the C extension"
    if PYTHON_RANKS[target] >= PYTHON_RANKS[room]:
        return f"{room} must not import leafd.{target}: it is not below"
    return ""


# ---- size ------------------------------------------------------------------------------------------------------------


def c_room(source: Source) -> str:
    """The room of a C file, or the empty string: abi.h, tests."""
    parts = source.path.split("/")
    return parts[1] if is_c(source) and parts[0] == "native" and len(parts) > 2 else ""


def lines_max(source: Source) -> int:
    return HEADER_LINES_MAX if c_room(source) and source.path.endswith(".h") else FILE_LINES_MAX


def file_lengths(tree: list[Source]) -> Iterator[Complaint]:
    """A file has at most 600 lines, a header of a room at most 250."""
    for source in tree:
        if not (is_c(source) or is_python(source)):
            continue
        allowed, _ = LONG_FILES.get(source.path, (lines_max(source), ""))
        if len(source.lines) > allowed:
            yield Complaint(source.path, allowed, f"{len(source.lines)} lines, {allowed} allowed: split it")


def c_columns(tree: list[Source]) -> Iterator[Complaint]:
    """A line of C has at most 120 columns, comments too, which clang-format leaves alone."""
    for source in filter(is_c, tree):
        for number, line in enumerate(source.lines, 1):
            if len(line) > C_COLUMNS_MAX:
                yield Complaint(source.path, number, f"{len(line)} columns, {C_COLUMNS_MAX} allowed")


def document_columns(tree: list[Source]) -> Iterator[Complaint]:
    """A line of a document has at most 100 columns, but for tables, code, and what has no place to be broken."""
    for source in tree:
        if source.path != "README.md" and not re.fullmatch(r"packaging/doc/[^/]*\.md", source.path):
            continue
        fenced = False
        for number, line in enumerate(source.lines, 1):
            fenced ^= line.lstrip().startswith("```")
            prose = not fenced and not line.startswith("    ") and not line.lstrip().startswith("|")
            words = re.sub(r"`[^`]*`", "code", re.sub(r"^ *([-*]|[0-9]+\.) +", "", line)).split()
            if prose and len(line) > DOCUMENT_COLUMNS_MAX and len(words) > 1:
                yield Complaint(source.path, number, f"{len(line)} columns, {DOCUMENT_COLUMNS_MAX} allowed")


def outcomes(tree: list[Source]) -> Iterator[Complaint]:
    """The outcome of a read is judged by a switch that names all: a comparison may forget the UNKNOWN one."""
    names = "(READ|ENTRY|SEEK|SEARCH|LIST)_(FOUND|NONE|MORE|DAMAGED|LACKS|WHOLE|UNKNOWN)|STEP_(OVER|MORE|UNKNOWN)"
    for source in (source for source in filter(is_c, tree) if source.path.startswith("native/")):
        for number, line in enumerate(source.lines, 1):
            if re.search(rf"[=!]= *({names})|({names}) *[!=]=", line):
                yield Complaint(source.path, number, "compares a read's outcome: switch over it, without a default")


def unread(tree: list[Source]) -> Iterator[Complaint]:
    """A type tells what is not there from what could not be read (base/outcome.h), so no status of a read says it; and
    what ended a loop along entries is judged behind it."""
    for source in (source for source in filter(is_c, tree) if c_room(source) in READING_ROOMS):
        for number, line in enumerate(source.lines, 1):
            if "STATUS_NOT_FOUND" in line and source.path.endswith(".c") and source.path not in DOERS:
                yield Complaint(source.path, number, "says by a status that something is not there: return an outcome")
            if re.search(r"case \w+_UNKNOWN: *return (NULL|BYTES_NONE)\b", line):
                yield Complaint(source.path, number, "hands up nothing for what is not known: return an outcome")
            if "read_goes_on(" in line and not re.search(r"\bwhile \(|^ +&& read_goes_on\(|static inline", line):
                yield Complaint(source.path, number, "read_goes_on is for a loop's condition: judge it by a switch")


def c_functions(source: Source) -> Iterator[tuple[int, str, int]]:
    """First line, name and length of each C function: from an opening line at the margin to the next "}" there."""
    for found in C_FUNCTION.finditer(source.text):
        end = source.text.find("\n}", found.end())
        if end >= 0:
            yield (
                source.text.count("\n", 0, found.start()) + 1,
                found[1],
                source.text.count("\n", found.start(), end) + 2,
            )


def python_functions(source: Source) -> Iterator[tuple[int, str, int]]:
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def function_lengths(tree: list[Source]) -> Iterator[Complaint]:
    """A function has at most 70 lines."""
    for source in tree:
        if is_c(source):
            functions = c_functions(source)
        elif is_python(source):
            functions = python_functions(source)
        else:
            continue
        for number, name, length in functions:
            allowed, _ = LONG_FUNCTIONS.get(f"{source.path}:{name}", (FUNCTION_LINES_MAX, ""))
            if length > allowed:
                yield Complaint(source.path, number, f"{name} has {length} lines, {allowed} allowed")


def c_static_names(tree: list[Source]) -> Iterator[Complaint]:
    """A static function of a C file has a name of its own in the whole tree: a search finds it and what calls it."""
    first: dict[str, str] = {}
    for source in tree:
        if not (c_room(source) and source.path.endswith(".c")):
            continue
        for found in C_STATIC.finditer(source.text):
            if first.setdefault(found[1], source.path) != source.path:
                line = source.text.count("\n", 0, found.start()) + 1
                yield Complaint(source.path, line, f"{first[found[1]]} has a {found[1]}, too: name it after its noun")


def stale_ratchet(tree: list[Source]) -> Iterator[Complaint]:
    """The lists of what may be longer name nothing that is gone or has become short enough."""
    files = {source.path: source for source in tree}
    for path in LONG_FILES:
        if path not in files or len(files[path].lines) <= lines_max(files[path]):
            yield Complaint("tests/tidy.py", 1, f"LONG_FILES: {path} needs no exception any more")
    for key in LONG_FUNCTIONS:
        path, name = key.rsplit(":", 1)
        source = files.get(path)
        functions = [] if source is None else list(c_functions(source) if is_c(source) else python_functions(source))
        if not any(name == found and length > FUNCTION_LINES_MAX for _, found, length in functions):
            yield Complaint("tests/tidy.py", 1, f"LONG_FUNCTIONS: {key} needs no exception any more")


# ---- text ------------------------------------------------------------------------------------------------------------


def banned_words(tree: list[Source]) -> Iterator[Complaint]:
    """The README says what is not done, not a note to nobody."""
    for source in tree:
        for number, line in enumerate(source.lines, 1):
            found = BANNED_WORDS.search(line)
            if found:
                yield Complaint(source.path, number, f"{found[0]}: do it, or say in the README that it is not there")


def charters(tree: list[Source]) -> Iterator[Complaint]:
    """A file opens by saying what lives in it."""
    for source in tree:
        if not source.text.strip():
            continue
        if is_c(source):
            good = source.text.startswith("/*") or source.path == "native/glue.h"
        elif is_python(source):
            good = ast.get_docstring(ast.parse(source.text)) is not None
        elif source.path.endswith((".sh", ".wire", "meson.build")) or source.text.startswith("#!"):
            body = [line for line in source.lines if not line.startswith("#!")]
            good = bool(body) and body[0].startswith("#")
        else:
            continue
        if not good:
            yield Complaint(source.path, 1, "the first thing in a file says what lives here")


def c_comments(source: Source) -> Iterator[tuple[int, str]]:
    for found in C_COMMENT.finditer(source.text):
        yield source.text.count("\n", 0, found.start()) + 1, found[0]


def python_comments(source: Source) -> Iterator[tuple[int, str]]:
    """Comments, and strings that stand alone: docstrings."""
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        alone = token.type == tokenize.STRING and token.line.lstrip().startswith(token.string.splitlines()[0])
        if alone or token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def comments(source: Source) -> Iterator[tuple[int, str]]:
    """First line and text of each piece of prose in a file."""
    if is_c(source):
        yield from c_comments(source)
    elif is_python(source):
        yield from python_comments(source)
    elif source.path.endswith(".md"):
        yield 1, source.text


def named_files(tree: list[Source]) -> Iterator[Complaint]:
    """A file that a comment names is there, and a page about the protocol names transcripts that are."""
    paths = {source.path for source in tree}
    names = {path.rsplit("/", 1)[-1] for path in paths}
    for source in tree:
        folder = source.path.rpartition("/")[0]
        for first, text in comments(source):
            for found in FILE_NAME.finditer(text):
                name = found[0]
                known = any(f"{start}{name}" in paths for start in (*NAMED_FROM, f"{folder}/"))
                if name not in FOREIGN_NAMES and not known and ("/" in name or name not in names):
                    line = first + text.count("\n", 0, found.start())
                    yield Complaint(source.path, line, f"{name} is no file of this tree")
            if not (source.path.startswith("tests/wire/") and source.path.endswith(".md")):
                continue
            for found in TRANSCRIPT_NAME.finditer(text):
                if not fnmatch.filter(paths, f"tests/wire/{found[1]}.wire"):
                    line = first + text.count("\n", 0, found.start())
                    yield Complaint(source.path, line, f"{found[1]} is no transcript")


def plain_sentences(tree: list[Source]) -> Iterator[Complaint]:
    """Pages and descriptions have sentences that can be read once, and no turn that has to be read twice."""
    for source in tree:
        if source.path in words.PLAIN_PAGES:
            yield from (Complaint(source.path, number, text) for number, text in words.faults(source.text))
        elif source.path.endswith(".py") and words.is_described(source.path):
            yield from (Complaint(source.path, number, text) for number, text in words.hanging(source.text))
        if source.path.startswith(("native/", "agent/")) and not source.path.endswith(".md"):
            for first, text in comments(source):
                yield from (Complaint(source.path, first + line, fault) for line, fault in words.unnamed(text))


RULES: list[Rule] = [
    c_includes,
    private_headers,
    struct_owners,
    python_imports,
    file_lengths,
    c_columns,
    document_columns,
    outcomes,
    unread,
    function_lengths,
    c_static_names,
    stale_ratchet,
    banned_words,
    charters,
    named_files,
    plain_sentences,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_tidy(rule: Rule) -> None:
    """The tree keeps the rule that is named in the brackets."""
    complaints = [str(complaint) for complaint in rule(sources())]

    assert [] == complaints


@pytest.mark.parametrize(
    ("write", "owner"),
    [
        ("stream->log.first_seq = 1;", "log.c"),
        ("stream->log = (log_t){0};", "log.c"),
        ("uint64_t *last = &stream->log.last_seq; *last = 1;", "log.c"),
        ("stream->log.last_id[0] = 1;", "log.c"),
        ("stream->store->ids_bytes = 1;", "dedupe.c"),
        ("stream->store->batches.promised = 1;", "overlay.c"),
        ("(void)heads_name(&stream->store->heads);", "subjects.c"),
    ],
)
def test_a_write_to_a_struct_of_another_file_is_seen(write: str, owner: str) -> None:
    """The rule struct_owners complains of a write to what is another file's, and of none in the file whose it is."""
    function = f"\nvoid written(store_stream_t *stream);\nvoid written(store_stream_t *stream) {{ {write} }}\n"
    # (Of the other files only the headers, since each C file would be compiled.)
    mutated = [s for s in sources() if s.path.endswith(".h")]
    changed = {"native/store/limits.c", f"native/store/{owner}"}
    mutated += [Source(s.path, s.text + function) for s in sources() if s.path in changed]

    assert ["native/store/limits.c"] == [complaint.path for complaint in struct_owners(mutated)]


def main() -> int:
    tree = sources()
    complaints = [complaint for rule in RULES for complaint in rule(tree)]
    for complaint in complaints:
        print(complaint)
    broken = {rule.__name__ for rule in RULES if any(True for _ in rule(tree))}
    print(f"{len(RULES) - len(broken)} passed, {len(broken)} failed")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
