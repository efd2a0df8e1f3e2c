"""The packages of this checkout, built once for all files here that try them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging import machine


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """deb and rpm. Who changes them changes a copy."""
    return machine.built(tmp_path_factory.mktemp("dist"))
