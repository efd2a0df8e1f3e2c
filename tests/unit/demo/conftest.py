"""The demo is a program beside the checkout's packages, not a part of them: its directory has to be named."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "deploy"))
