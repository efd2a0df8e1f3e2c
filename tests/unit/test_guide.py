"""The pages of packaging/doc: the guide explains every line that the daemon can log above information, and no others;
links lead somewhere; the pages are plain Markdown.

Not here: the commands of pages, the walk of fleet.md (tests/interop/test_fleet.py).
"""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

import click
import pytest
from leafd.cli.app import app
from leafd.config.flags import HELP

from tests.unit import logged

PAGES: Final = sorted((logged.ROOT / "packaging" / "doc").glob("*.md"))
GUIDE: Final = logged.ROOT / "packaging" / "doc" / "guide.md"
WARNINGS: Final = "\n## Every warning, and what to do\n"
LINK: Final = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
ELSEWHERE: Final = (
    "…: what was acknowledged since the last checkpoint may be lost; put the file back, or accept the loss …",
    "… lines like the next one were left out",  # said by the log of itself
    "log file … cannot be written (…): check log_file",  # host/log.py: its own error, which a reload meets
    "the log file … cannot be rotated (…): check log_file",  # likewise
    "a command failed: number … (account …, target …): …",  # native/exchange/answer.c adds it up piece by piece
)


@cache
def told() -> dict[str, str]:
    """Each text that the daemon can log, and where it is made."""
    found, unknown = logged.python_lines()
    assert [] == unknown, (
        "these calls hand on a text that is made elsewhere: MADE of tests/unit/logged.py has to say where"
    )
    return found | logged.c_lines()


@cache
def explained() -> frozenset[str]:
    """The texts that the guide's last section has, over the ends of lines."""
    section = " ".join(GUIDE.read_text().split(WARNINGS)[1].split())
    return frozenset(re.findall(r"`([^`]+)`", section))


def text_alone(page: str) -> str:
    """A page without code, in which nothing is Markdown."""
    page = re.sub(r"(?ms)^```.*?^```$", "", page)
    page = re.sub(r"(?m)^(?: {4}|\t).*$", "", page)
    return re.sub(r"`[^`]*`", "`", page)


def anchors(page: Path) -> set[str]:
    """What the renderers of the large hosts make of headings."""
    heads = re.findall(r"(?m)^#+ (.+)$", re.sub(r"(?ms)^```.*?^```$", "", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def test_the_guide_explains_every_line_that_the_daemon_can_log() -> None:
    """A new warning is not done before an operator can look up what it wants of them."""
    assert [] == [f"{where}: {text}" for text, where in told().items() if text.strip() not in explained()]


def test_the_guide_explains_why_a_start_is_refused() -> None:
    """Whoever stands before a box that does not start finds the words of its last line."""
    assert len(logged.refusals()) > 5
    assert set() == logged.refusals() - explained()


def test_the_guide_explains_no_line_that_the_daemon_cannot_log() -> None:
    """What was reworded or removed leaves the guide, too."""
    known = {text.strip() for text in told()} | set(ELSEWHERE) | {"…"}
    assert [] == sorted(text for text in explained() if "…" in text and text not in known)


@pytest.mark.parametrize("page", [*PAGES, logged.ROOT / "README.md"], ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    """Files are there, and so are the headings that a link names; addresses are https."""
    wrong = []
    for link in LINK.findall(text_alone(page.read_text())):
        if ":" in link:
            wrong += [] if link.startswith("https://") else [link]
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file) if file else page
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    assert [] == wrong


@pytest.mark.parametrize("page", [*PAGES, logged.ROOT / "README.md"], ids=lambda page: page.name)
def test_every_page_is_plain_markdown(page: Path) -> None:
    """One title, headings that begin one level below the one before, no HTML, no code block that is not closed."""
    text = page.read_text()
    levels = [len(marks) for marks in re.findall(r"(?m)^(#+) ", re.sub(r"(?ms)^```.*?^```$", "", text))]
    assert levels[:1] == [1]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert 0 == len(re.findall(r"(?m)^```", text)) % 2
    assert not re.search(r"</?[a-zA-Z][^>]*>", text_alone(text))


def test_readme_leads_to_every_page() -> None:
    """Whoever reads README finds the others."""
    named = set(LINK.findall((logged.ROOT / "README.md").read_text()))
    assert [] == [page.name for page in PAGES if f"packaging/doc/{page.name}" not in named]


@pytest.mark.parametrize("page", [*PAGES, logged.ROOT / "README.md"], ids=lambda page: page.name)
def test_every_command_of_a_page_is_one_with_these_options(page: Path) -> None:
    """What a page tells people to type as `leafd COMMAND --option` is there: in blocks and within sentences."""
    known = command_options()
    wrong = []
    for line in re.findall(r"(?m)^ {4,6}(leafd .*)$|`(leafd [^`]+)`", page.read_text()):
        words = shlex.split(re.split(r" {3,}|;", "".join(line))[0], comments=True)[1:]
        names = words[0].split("|") if words and re.fullmatch(r"[a-z|]+", words[0]) else [""]
        options = {word.split("=")[0] for word in words if word.startswith("-")}
        wrong += [f"{name} {' '.join(words)}" for name in names if not options <= known.get(name, set())]
        wrong += [f"{name} is no command" for name in names if name not in known]
    assert [] == wrong


@cache
def command_options() -> dict[str, set[str]]:
    """Each command's options; "": those of the server itself."""
    found = {
        name: {word for one in command.params for word in (*one.opts, *one.secondary_opts)} | {"--help"}
        for name, command in app.commands.items()
    }
    for name, command in app.commands.items():
        for inner in command.commands.values() if isinstance(command, click.Group) else ():
            found[name] |= {word for one in inner.params for word in one.opts}
    found["run"] = found[""] = set(re.findall(r"(?<!\S)--?[a-z_]+", HELP)) | {"--signal"}
    return found


def test_the_pages_render_as_html_whose_links_lead_somewhere(tmp_path: Path) -> None:
    """packaging/pages: each page, each table and each block; what a link names has that id."""
    subprocess.run([sys.executable, logged.ROOT / "packaging" / "pages", tmp_path], check=True)
    seen: dict[str, Seen] = {}
    for page in [*PAGES, logged.ROOT / "README.md"]:
        name = "index.html" if page.name == "README.md" else f"{page.stem}.html"
        text = (tmp_path / name).read_text()
        seen[name] = Seen()
        seen[name].feed(text)
        assert text.count("<table>") == len(re.findall(r"(?m)^\|(?:-+\|)+$", page.read_text()))
        assert not re.search(r'src="(?!data:image/webp;base64,)|url\(|@import', text), "nothing is loaded from anywhere"
        assert text.count("<img ") == len(re.findall(r"(?m)^!\[", page.read_text()))
    for name, one in seen.items():
        for link in one.links:
            if not link.startswith("https://"):
                file, _, anchor = link.partition("#")
                assert anchor in {"", *seen[file or name].ids}, f"{name}: {link}"


class Seen(HTMLParser):
    """Where a rendered page leads, and the names that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "href" and value:
                self.links.append(value)
            if name == "id" and value:
                self.ids.add(value)
