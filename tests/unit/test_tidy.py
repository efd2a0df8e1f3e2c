"""tests/tidy.py itself: files that break a rule are found, each rule in turn."""

from __future__ import annotations

import pytest

from tests import tidy
from tests.tidy import Source

GOOD_C = "/* noun.c: what lives here. */\n"
GOOD_PYTHON = '"""The examples of these tests."""\n'


def complaints(rule: tidy.Rule, path: str, text: str) -> list[str]:
    return [complaint.text for complaint in rule([Source(path, text)])]


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("native/wire/parse.c", "route/trie.h"),
        ("native/store/stream.c", "route/trie.h"),
        ("native/disk/keys.c", "store/store.h"),
        ("native/base/ring.c", "plane/plane.h"),
        ("native/consume/pull.c", "net/conn.h"),
    ],
)
def test_c_room_may_not_reach_sideways_or_up(path: str, include: str) -> None:
    """A C file that includes a sibling or higher room is complained of."""
    assert 1 == len(complaints(tidy.c_includes, path, f'{GOOD_C}#include "{include}"\n'))


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("native/plane/plane.c", "store/store.h"),
        ("native/consume/pull.c", "store/store.h"),
        ("native/wire/parse.c", "wire/op.h"),
        ("native/net/conn.c", "base/bytes.h"),
    ],
)
def test_c_room_may_reach_down(path: str, include: str) -> None:
    """A C file may include its own room and those it stands on."""
    assert [] == complaints(tidy.c_includes, path, f'{GOOD_C}#include "{include}"\n')


@pytest.mark.parametrize(
    ("library", "owner"), [("openssl/ssl.h", "native/net/tls.c"), ("lmdb.h", "native/disk/env_lmdb.h")]
)
def test_foreign_library_has_one_owner(library: str, owner: str) -> None:
    """OpenSSL and LMDB may be included by their owner and by no other file."""
    assert [] == complaints(tidy.c_includes, owner, f"{GOOD_C}#include <{library}>\n")
    assert 1 == len(complaints(tidy.c_includes, "native/plane/plane.c", f"{GOOD_C}#include <{library}>\n"))


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("agent/leafd/config/lexer.py", "from leafd.auth.jwt import decode"),
        ("agent/leafd/config/lexer.py", "from ..auth.jwt import decode"),
        ("agent/leafd/links/mirror.py", "import leafd.jetstream.endpoints.streams"),
        ("agent/leafd/links/mirror.py", "from leafd import daemon"),
        ("agent/leafd/auth/verdict.py", "from leafd.native_plane import Plane"),
        ("agent/leafd/jetstream/endpoints/streams.py", "from leafd import _native"),
        ("agent/leafd/jetstream/endpoints/streams.py", "import cffi"),
        ("agent/leafd_spark/source/reader.py", "from leafd.errors import LeafdError"),
        ("agent/leafd_spark/source/reader.py", "from leafd_spark.sink import publish"),
        ("agent/leafd_spark/sink/publish.py", "from ..source import reader"),
        ("agent/leafd_spark/fetch.py", "from .source import reader"),
        ("agent/leafd/daemon.py", "from leafd_spark.source import reader"),
        ("agent/leafd/store.py", "import leafd.errors"),
        ("agent/leafd/monitor/pages.py", "def look():\n    import lmdb"),
    ],
)
def test_python_room_may_not_reach_sideways_or_up(path: str, line: str) -> None:
    """A Python file that imports what its room must not know is complained of, relative and local imports too."""
    assert 1 == len(complaints(tidy.python_imports, path, f"{GOOD_PYTHON}{line}\n"))


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("agent/leafd/daemon.py", "from leafd.jetstream import registry"),
        ("agent/leafd/jetstream/endpoints/streams.py", "from leafd.native_types import Message"),
        ("agent/leafd/jetstream/endpoints/streams.py", "from .models import StreamConfig"),
        ("agent/leafd/native.py", "from leafd import _native"),
        ("agent/leafd/auth/verdict.py", "from leafd.config.schema import Server"),
        ("agent/leafd/__main__.py", "from leafd import __version__"),
    ],
)
def test_python_room_may_reach_down(path: str, line: str) -> None:
    """A Python file may import its own room and lower ones."""
    assert [] == complaints(tidy.python_imports, path, f"{GOOD_PYTHON}{line}\n")


def test_long_file_is_found() -> None:
    """601 lines are one too many."""
    assert [] == complaints(tidy.file_lengths, "native/base/a.c", "x\n" * 600)
    assert 1 == len(complaints(tidy.file_lengths, "native/base/a.c", "x\n" * 601))


@pytest.mark.parametrize(("path", "most"), [("native/base/a.h", 250), ("native/abi.h", 600)])
def test_long_header_is_found(path: str, most: int) -> None:
    """A header of a room has at most 250 lines; one of both languages is a file like others."""
    assert [] == complaints(tidy.file_lengths, path, "x\n" * most)
    assert 1 == len(complaints(tidy.file_lengths, path, "x\n" * (most + 1)))


def test_static_function_of_two_files_is_found() -> None:
    """Two files of C rooms may not both have a static function of one name; calls and tests do not count."""
    function = f"{GOOD_C}static int take(void) {{\n    return 1;\n}}\n"
    call = f"{GOOD_C}int other(void) {{\n    return take();\n}}\n"
    tree = [Source("native/net/a.c", function), Source("native/net/b.c", call), Source("tests/native/a.c", function)]

    assert [] == list(tidy.c_static_names(tree))
    assert 1 == len(list(tidy.c_static_names([*tree, Source("native/wire/a.c", function)])))


@pytest.mark.parametrize(("body", "count"), [(68, 0), (69, 1)])
def test_long_function_is_found(body: int, count: int) -> None:
    """A function of 70 lines passes and one of 71 does not, in C and in Python."""
    c = GOOD_C + "struct a {\n    int x;\n};\n\nint fun(int a,\n        int b);\n\nint fun(int a, int b) {\n"
    c += "    a++;\n" * body + "}\n"
    python = GOOD_PYTHON + "def fun():\n" + "    x = 1\n" * (body + 1)

    assert count == len(complaints(tidy.function_lengths, "native/base/a.c", c))
    assert count == len(complaints(tidy.function_lengths, "agent/leafd/daemon.py", python))


def test_function_with_parameters_on_two_lines_is_measured_whole() -> None:
    """The opening line of a C function may be broken."""
    text = GOOD_C + "static int fun(int a,\n               int b) {\n" + "    a++;\n" * 70 + "}\n"

    assert ["fun has 73 lines, 70 allowed"] == complaints(tidy.function_lengths, "native/base/a.c", text)


def test_banned_word_is_found() -> None:
    """A note to nobody is complained of wherever it stands."""
    assert 1 == len(complaints(tidy.banned_words, "README.md", "TO" + "DO: later\n"))
    assert [] == complaints(tidy.banned_words, "README.md", "the mastodon\n")


@pytest.mark.parametrize(
    ("path", "text", "named"),
    [
        ("native/base/a.c", "/* see gone.c */\n", ["gone.c is no file of this tree"]),
        ("native/base/a.c", "/* a.c, base/a.c, native/base/a.c, native/base/*.c */\n", []),
        ("native/base/a.c", "/* text/a.c */\n", ["text/a.c is no file of this tree"]),
        ("native/base/a.c", '#define NAME "gone.c"\n', []),
        ("tests/a.py", '"""What gone.py says."""\n', ["gone.py is no file of this tree"]),
        ("tests/a.py", "# what gone.md says\nx = 'gone.md'\n", ["gone.md is no file of this tree"]),
        ("tests/wire/a.md", "Proof: `client/gone`.\n", ["client/gone is no transcript"]),
    ],
)
def test_comment_that_names_a_file_which_is_gone_is_found(path: str, text: str, named: list[str]) -> None:
    """A file, or a transcript, that a comment names is there."""
    assert named == complaints(tidy.named_files, path, text)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("native/base/a.c", "#include <stdint.h>\n"),
        ("agent/leafd/daemon.py", "import trio\n"),
        ("deploy/setup.sh", "#!/bin/sh\nset -e\n"),
        ("tests/wire/ping.wire", "A> PING\n"),
    ],
)
def test_file_without_charter_is_found(path: str, text: str) -> None:
    """A file that does not open with what lives in it is complained of."""
    assert 1 == len(complaints(tidy.charters, path, text))
    comment = "/* a */\n" if path.endswith(".c") else '"""A."""\n' if path.endswith(".py") else "# a\n"
    first, _, rest = text.partition("\n")
    good = f"{first}\n{comment}{rest}" if first.startswith("#!") else comment + text

    assert [] == complaints(tidy.charters, path, good)


LONG = " ".join(["word"] * 30)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{LONG} and {LONG}.\n", ["a sentence of 61 words"]),
        (f"{LONG}. And {LONG}.\n", []),
        (f"{LONG}\n{LONG}.\n", ["a sentence of 60 words"]),
        (f"{LONG}\n\n{LONG}.\n", []),
        (f"- {LONG}\n- {LONG}.\n", []),
        (f"    {LONG} {LONG}\n", []),
        (f"| {LONG} | {LONG} |\n", []),
        (f"`{LONG}` is run with `{LONG}`.\n", []),
        (f"```\n{LONG} {LONG}\n```\n", []),
        ("A copy that is taken then is none.\n", ["is none"]),
        ("It is lost without a\nword.\n", ["without a word"]),
        ("There are none of them.\n", []),
    ],
)
def test_a_sentence_that_has_to_be_read_twice_is_found(text: str, said: list[str]) -> None:
    """In prose and list items of the pages that are held to it; code and tables are let be."""
    found = complaints(tidy.plain_sentences, "README.md", text)
    assert len(said) == len(found), found
    assert all(one in line for one, line in zip(said, found, strict=True)), found
    assert [] == complaints(tidy.plain_sentences, "tests/wire/leaf.md", text)


@pytest.mark.parametrize(
    "first", ["What a stream holds.", "Of a stream.", "Which stream.", "None: it is gone.", "It is over."]
)
def test_a_description_that_begins_with_no_noun_is_found(first: str) -> None:
    """In what leafd's own functions say of themselves, and those that all tests share; a word that only begins like one
    is let be."""
    good = '"""The streams of an account."""\n'
    bad = f'{good}\n\ndef held() -> int:\n    """{first}"""\n    return 1\n'
    for path in ("agent/leafd/some.py", "tests/some.py", "tests/rig/some.py"):
        assert 1 == len(complaints(tidy.plain_sentences, path, bad))
    assert [] == complaints(tidy.plain_sentences, "agent/leafd/some.py", bad.replace(first, "Offers of a stream."))
    assert [] == complaints(tidy.plain_sentences, "tests/unit/some.py", bad)


@pytest.mark.parametrize(
    ("comment", "count"),
    [
        ("Whoever asks is told.", 1),
        ("The rights of who asks.", 1),
        ("It is done. Who asks later is told.", 1),
        ("Who asks: a.c.", 0),
        ("A client who asks is told. Not here: who asks.", 0),
    ],
)
def test_a_comment_that_names_nobody_is_found(comment: str, count: int) -> None:
    """In comments and descriptions of the product "who" does not stand for a client, a server or a caller."""
    assert count == len(complaints(tidy.plain_sentences, "native/base/a.c", f"/* {comment} */\n"))
    assert count == len(complaints(tidy.plain_sentences, "agent/leafd/some.py", f"# {comment}\n"))
    assert [] == complaints(tidy.plain_sentences, "tests/some.py", f"# {comment}\n")


@pytest.mark.parametrize("where", ["", "class Box:\n    ", "def box() -> None:\n    "])
def test_the_description_of_an_attribute_begins_with_the_thing(where: str) -> None:
    """In a module, a class, and a function; what the keys of a table are may come first."""
    text = GOOD_PYTHON + where + "size: int = 0\n" + where.rpartition("\n")[2] + '"""Of a page."""\n'
    assert 1 == len(complaints(tidy.plain_sentences, "agent/leafd/some.py", text))
    for good in ("The size of a page.", "By name: the size of a page."):
        assert [] == complaints(tidy.plain_sentences, "agent/leafd/some.py", text.replace("Of a page.", good))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("word " * 21, 1),
        ("- a point: " + "word " * 20, 1),
        ("- `" + "code with spaces " * 8 + "`", 0),
        ("| a table | " + "word " * 40 + "|", 0),
        ("    code " + "word " * 40, 0),
        ("word " * 19, 0),
    ],
)
def test_a_documents_prose_has_a_hundred_columns(line: str, found: int) -> None:
    """Prose is broken there; tables, code, and a span of code that has no place to be broken are not."""
    assert found == len(complaints(tidy.document_columns, "packaging/doc/guide.md", line + "\n"))
    assert not complaints(tidy.document_columns, "tests/wire/README.md", line + "\n")
