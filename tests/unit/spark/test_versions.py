"""Every version of Spark that pyproject.toml allows finds the format by itself, reads, and says what it cannot do.

Each takes a minute or more, so this is no part of tests/run: LEAFD_SPARK_PYTHONS names interpreters of environments in
which a pyspark is installed with pyarrow and pandas (packaging/doc/development.md). In tests/run the session of these
tests stands for them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests import servers

from .hub import running

ROOT = Path(__file__).parents[3]
PYTHONS = [path for path in os.environ.get("LEAFD_SPARK_PYTHONS", "").split(os.pathsep) if path]

pytestmark = [pytest.mark.spark, pytest.mark.minutes(30)]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The zip that packaging/spark-wheel makes, beside the wheels."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, str(ROOT / "packaging" / "spark-wheel"), "--compiled", str(folder)], check=True)
    (found,) = folder.glob("*.zip")
    return found


@pytest.mark.parametrize("python", PYTHONS)
def test_spark_finds_the_format_in_the_pure_wheel(python: str, archive: Path, tmp_path: Path) -> None:
    """With nothing but the zip: rows in batch and streaming; limits hold, or are refused by name."""
    environment = os.environ | {"PYTHONPATH": str(archive), "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
    script = Path(__file__).parent / "versions.py"
    with running(servers.REFERENCE) as hub:
        hub.create()
        hub.fill(1, 200)
        hub.create("OUT")
        command = [python, str(script), hub.server.url, str(tmp_path)]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert 0 == done.returncode, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert (150, 200) == (found["batch"], found["unlimited"])
    version = tuple(map(int, found["version"].split(".")[:2]))
    assert ("written" if version >= (4, 1) else "writing needs Spark 4.1 or later") in found["write"]
    if version >= (4, 2):
        assert "accepted: [120, 80]" == found["limited"]
    else:
        assert "maxOffsetsPerTrigger needs Spark 4.2 or later" in found["limited"]


@pytest.mark.parametrize("kind", ["py3-none-any", "cp311-abi3-*"])
def test_the_wheels_of_the_spark_side_install(archive: Path, tmp_path: Path, kind: str) -> None:
    """pip takes both; they hold what Spark looks for, nothing of the daemon, and one of them the decoder in C, by which
    rows are then read. Both names of the extra are one list."""
    (wheel,) = archive.parent.glob(f"*-{kind}.whl")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(tmp_path)]
    subprocess.run([*pip, str(wheel)], check=True)
    assert (tmp_path / "pyspark_nats" / "__init__.py").exists()
    assert ["VERSION", "__init__.py", "auth", "wire_client"] == sorted(
        path.name for path in (tmp_path / "leafd").iterdir() if path.name != "__pycache__"
    )
    look = "import leafd_spark.source.decoder as d; print(d.__file__, d.is_native())"
    said = subprocess.run(
        [sys.executable, "-c", look], env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert f"{tmp_path}/leafd_spark/source/decoder.py {'abi3' in kind}\n" == said.stdout, said.stderr
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras["spark"] == extras["hub"]


def test_spark_finds_the_format_by_itself(spark: Any) -> None:
    """A session in which nobody registered the format knows it, since pyspark_nats is on the workers' path."""
    frame = spark.newSession().read.format("nats").option("stream", "S").load()
    assert {"stream", "sequence", "subject", "data"} <= set(frame.columns)
