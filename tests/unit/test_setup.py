"""deploy/setup.sh where it cannot go on: whoever sits in front of it is told what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "deploy" / "setup.sh"
# All that the script calls before it would need root; there is no sudo among it.
TOOLS = (
    "apt-cache", "apt-get", "cat", "cut", "dirname", "find", "flock", "grep", "head", "id", "java", "mkdir",
    "pkg-config", "sed", "sh", "sha256sum", "sort", "tail", "xargs",
)  # fmt: skip
NOBODY = 65534


def test_neither_root_nor_sudo() -> None:
    """One line names the packages and the command; it is not hidden in the log."""
    if shutil.which("apt-get") is None:
        pytest.skip("no apt-get here, which is what the line is about")
    with tempfile.TemporaryDirectory(prefix="leafd-setup-") as name:
        directory = Path(name)
        directory.chmod(0o777)  # for nobody
        (directory / "deploy").mkdir()
        shutil.copy(SCRIPT, directory / "deploy")
        shutil.copy(SCRIPT.parents[1] / "pyproject.toml", directory)
        (directory / "bin").mkdir()
        for tool in TOOLS:
            if found := shutil.which(tool):
                (directory / "bin" / tool).symlink_to(found)
        (directory / "bin" / "python3").symlink_to(os.path.realpath(sys.executable))
        identity: Any = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        done = subprocess.run(
            ["sh", str(directory / "deploy" / "setup.sh"), "test"],
            env={"PATH": str(directory / "bin"), "HOME": name, "CC": "no-such-compiler"},
            cwd=name,
            capture_output=True,
            text=True,
            **identity,
        )

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    line = done.stderr
    assert line.startswith("setup: packages are missing, to install them needs root, and there is no sudo here.")
    assert "apt-get install" in line
    assert " gcc " in line
    assert " liblmdb-dev " in line
