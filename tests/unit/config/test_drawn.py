"""Whatever a configuration file holds, it is read or refused in one line that says where."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from tests.unit.config.drawn import Draw, findings

TEXTS = 1000


@pytest.mark.parametrize("seed", [1, 2])
def test_every_text_is_read_or_refused_with_its_place(seed: int, tmp_path: Path) -> None:
    """Any bytes give a tree or one error with file, line and column of a place that is there, in bounded time."""
    assert [] == list(findings(seed, tmp_path, texts=TEXTS))


def test_same_seed_draws_the_same() -> None:
    """A finding can be looked at again by its seed and number."""
    assert list(islice(Draw(7), 50)) == list(islice(Draw(7), 50))
