"""The packages of this checkout and a clean Debian, made once for all files here that try them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.packaging import machine


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """deb and rpm. Who changes them changes a copy."""
    return machine.built(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A system with what leafd depends on. Tests change copies of it."""
    assert os.geteuid() == 0, "this makes a Debian system in a directory: run it as root"
    machine.bring_tools()
    root = tmp_path_factory.mktemp("debian") / "root"
    machine.make_debian(root)
    return root
