"""Runs the tutorial of packaging/doc/spark.md as it is written: each file, each command but pip, in an empty folder.

    python -m tests.spark.tutorial [--keep FOLDER]

The only change is the port, which has to be free. Status 1 and the output if a command fails or the plot is not made.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests import servers
from tests.spark.standalone import environment

PAGE = Path(__file__).resolve().parents[2] / "packaging" / "doc" / "spark.md"
# A fenced block, and the file's name where the sentence before it gives one.
BLOCK = re.compile(r"(?:`([\w.]+)`:\n\n)?```(\w+)\n(.*?)```\n", re.DOTALL)


def parts(page: str) -> tuple[dict[str, str], str]:
    """Files by name, and all commands as one script."""
    tutorial = page.split("## Writing")[0]
    files: dict[str, str] = {}
    script = ["set -eum"]
    for name, language, text in BLOCK.findall(tutorial):
        if language == "sh":
            script += [line for line in text.splitlines() if not line.startswith("pip ")]
        else:
            assert name, f"a file without a name: {text[:60]}"
            files[name] = text
        if "leafd -c" in text:
            script.append("sleep 5")  # a reader takes longer to go on to the next file
    return files, "\n".join(script) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="work here and leave everything there")
    given = parser.parse_args()
    files, script = parts(PAGE.read_text())
    port = str(servers.free_port())
    with tempfile.TemporaryDirectory(prefix="leafd-tutorial-") as temporary:
        folder = given.keep or Path(temporary)
        for name, text in files.items():
            (folder / name).write_text(text.replace("4222", port))
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        # Spark looks for formats among the modules on the path, where those of an editable install are not.
        more = {"PATH": path, "PYTHONPATH": str(PAGE.parents[2] / "agent")}
        ran = subprocess.run(["bash", "-c", script], cwd=folder, env=environment() | more)
        plot = folder / "hourly.png"
        made = plot.exists() and plot.read_bytes().startswith(b"\x89PNG")
    print(f"status {ran.returncode}, {'a plot' if made else 'no plot'}")
    return 0 if made and ran.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
