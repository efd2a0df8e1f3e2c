"""packaging/release on a copy of the tree: what it writes, and what it refuses before it writes anything."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = (
    "agent/leafd/VERSION",
    "packaging/doc/changelog.md",
    "packaging/helm/leafd-hub/Chart.yaml",
    "packaging/release",
)


def git(tree: Path, *words: str) -> str:
    named = ("-c", "user.name=Tester", "-c", "user.email=tester@example.org")
    done = subprocess.run(["git", *named, *words], cwd=tree, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that a release changes, in a repository of their own."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Tester")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "tester@example.org")
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "agent/leafd/VERSION").write_text("0.1.0\n")
    entries(tmp_path, "## 0.1.0, not released yet\n\nThe first.\n\n- A broker.\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "All")
    return tmp_path


def entries(tree: Path, text: str) -> None:
    (tree / "packaging/doc/changelog.md").write_text(f"# Changelog\n\n{text}")


def release(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, tree / "packaging/release", *words], capture_output=True, text=True)


def test_a_release_is_a_commit_and_a_tag_with_one_version_everywhere(tree: Path) -> None:
    """The first one has the version that is there; the next one's changelog is above it."""
    assert release(tree, "0.1.0").returncode == 0
    assert ("v0.1.0", "") == (git(tree, "describe", "--exact-match"), git(tree, "status", "--porcelain"))
    said = (tree / "packaging/doc/changelog.md").read_text()
    assert re.search(r"^## 0\.1\.0, 20\d\d-\d\d-\d\d$", said, re.MULTILINE)
    entries(tree, "## 0.2.0, not released yet\n\n- More.\n\n" + said.partition("\n\n")[2])
    git(tree, "commit", "--quiet", "--all", "-m", "More")
    done = release(tree, "0.2.0")
    assert done.returncode == 0, done.stderr
    assert (tree / "agent/leafd/VERSION").read_text() == "0.2.0\n"
    chart = (tree / "packaging/helm/leafd-hub/Chart.yaml").read_text()
    assert ("\nversion: 0.2.0\n" in chart, '\nappVersion: "0.2.0"\n' in chart) == (True, True)


@pytest.mark.parametrize(
    ("version", "text", "why"),
    [
        ("0.0.9", "## 0.0.9, not released yet\n\n- A.\n", "does not follow"),
        ("0.1.1-rc.1", "## 0.1.1-rc.1, not released yet\n\n- A.\n", "no version"),
        ("1.2", "## 1.2, not released yet\n\n- A.\n", "no version"),
        ("0.2.0", "## 0.1.0, not released yet\n\n- A.\n", "first section"),
        ("0.2.0", "## 0.2.0, not released yet\n\n## 0.1.0, 2026-01-01\n\n- A.\n", "no entries"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(tree: Path, version: str, text: str, why: str) -> None:
    """A version that goes back or is none, a changelog that says nothing of it."""
    entries(tree, text)
    git(tree, "commit", "--quiet", "--all", "-m", "Text")
    before = git(tree, "rev-parse", "HEAD")
    done = release(tree, version)
    assert (done.returncode, why in done.stderr) == (1, True), done.stderr
    assert (before, "") == (git(tree, "rev-parse", "HEAD"), git(tree, "status", "--porcelain"))


def test_uncommitted_work_and_a_tag_that_is_there_are_refused(tree: Path) -> None:
    """A release is of a state that others can have."""
    (tree / "agent/leafd/VERSION").write_text("0.1.1\n")
    assert "not committed" in release(tree, "0.1.0").stderr
    git(tree, "checkout", "--quiet", ".")
    git(tree, "tag", "v0.1.0")
    assert "there already" in release(tree, "0.1.0").stderr
    assert release(tree, "0.1.0", "--dry-run").returncode == 1


def test_the_tree_s_own_versions_are_one() -> None:
    """The daemon's, and that of the chart that runs it."""
    version = (ROOT / "agent/leafd/VERSION").read_text().strip()
    chart = (ROOT / "packaging/helm/leafd-hub/Chart.yaml").read_text()
    assert (f"\nversion: {version}\n" in chart, f'\nappVersion: "{version}"\n' in chart) == (True, True)
