"""Marks of a page that is hard to read, as far as a machine can tell: long sentences, turns that hide the noun.

Not here: the rule itself, with all others (tidy.py).
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from typing import Final

# Pages whose sentences are held to a length and to plain turns: all of them.
PLAIN_PAGES: Final = {
    "README.md",
    *(
        f"packaging/doc/{name}.md"
        for name in (
            *("architecture", "changelog", "cluster-design", "contributing", "declared", "development", "differences"),
            *("doctor", "enrol", "field-figures", "figures", "fleet", "guide", "large-hubs", "monitoring"),
            *("mqtt-design", "mqtt-figures", "packages", "promises", "put-back-design", "security"),
            *("spark", "spark-jobs", "spark-options", "systemd"),
        )
    ),
}
# Python whose descriptions begin with the thing that they describe: the daemon, and what all tests share.
DESCRIBED: Final = ("agent/", "deploy/", "packaging/", "tests/packaging/", "tests/rig/", "tests/wire/")
SENTENCE_WORDS_MAX: Final = 40  # people read 25 at a breath; lists and conditions take some more
# Words that stand for a thing which the reader has not heard of yet, at the beginning of a description.
HANGING: Final = re.compile(
    r"(?:What|Who|Whoever|Which|Where|That|Those|It|None|Nobody|Everything|Nothing|Of|By)\b", re.ASCII
)
# A person without a noun: the reader has to find out which client, server or caller that is.
UNNAMED: Final = re.compile(
    r"\b[Ww]hoever\b|\b(?:for|of|by|to|from|than) who\b|(?:^|[.!?] |/\* |\* |# |\"{3})Who [^:.?]*[.;,]", re.MULTILINE
)
RIDDLES: Final = re.compile(
    r"\b(?:is|are|was|were) none\b(?! of)|\bwithout a word\b|\b(?:is|are) nobody's\b", re.IGNORECASE
)


def faults(text: str) -> Iterator[tuple[int, str]]:
    """Line and complaint, of a page in Markdown."""
    for number, piece in prose(text):
        for sentence in re.split(r"(?<=[.!?:;]) (?=[A-Z\"(\[])", piece):
            count = len(re.findall(r"[\w'\u2019-]+", sentence))
            if count > SENTENCE_WORDS_MAX:
                yield number, f"a sentence of {count} words, make it two: {sentence[:60]}..."
        for found in RIDDLES.finditer(piece):
            yield number, f"{found[0]}: say what the thing is"


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The paragraphs and list items of a page, each as one line, with the line that it begins in. Code and tables are
    none; a piece of code within a sentence, and what a link leads to, count for one word."""
    lines = re.sub(r"(?ms)^```.*?^```$", lambda found: "\n" * found[0].count("\n"), text).splitlines()
    first = 0
    parts: list[str] = []
    for number, line in enumerate([*lines, ""], 1):
        indented = line.startswith(("    ", "\t")) and not parts
        if (not line.strip() or re.match(r"\s*([-*] |\d+\. |#|\||>)", line) or indented) and parts:
            yield first, re.sub(r"`[^`]*`", "CODE", re.sub(r"\]\([^)]*\)", "]", " ".join(parts)))
            parts = []
        if line.strip() and not indented and not re.match(r"\s*(#|\|)", line):
            first = first if parts else number
            parts.append(line.strip())


def is_described(path: str) -> bool:
    return path.startswith(DESCRIBED) or (path.startswith("tests/") and path.count("/") == 1)


def hanging(text: str) -> Iterator[tuple[int, str]]:
    """Line and complaint, of the docstrings of a Python file that begin with a word for an unnamed thing. That of an
    attribute may begin with By: it says then what the keys of a table are."""
    for node in ast.walk(ast.parse(text)):
        for line, said in _attributes(node):
            if (found := HANGING.match(said)) and found[0] != "By":
                yield line, f"the description begins with {found[0]}: begin with the thing"
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if found := HANGING.match(ast.get_docstring(node) or ""):
            yield node.body[0].lineno, f"the description begins with {found[0]}: begin with the thing"


def unnamed(comment: str) -> Iterator[tuple[int, str]]:
    """Line within a comment or docstring, and complaint: where "who" stands for a noun. "Who asks: append.c" names a
    file."""
    for found in UNNAMED.finditer(comment):
        turn = " ".join(found[0].strip('/*#" ').split()[:4])
        yield comment.count("\n", 0, found.start()), f"{turn}: say which client, server or caller"


def _attributes(node: ast.AST) -> Iterator[tuple[int, str]]:
    """The texts behind the assignments in a module, class or function, with their lines."""
    body = getattr(node, "body", ())
    for one, behind in itertools.pairwise(body if isinstance(body, list) else ()):
        if isinstance(one, ast.Assign | ast.AnnAssign) and isinstance(behind, ast.Expr):
            said = behind.value
            if isinstance(said, ast.Constant) and isinstance(said.value, str):
                yield behind.lineno, said.value
