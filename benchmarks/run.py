"""Measure the rating engine against its peers, then votes over HTTP: `make bench`.

The engine's peers live in `.venv-bench`, made from `benchmarks/requirements.txt` (pinned, hashed), so that the
product does not depend on them. Every figure of a table comes from one run on one machine; ratios are what to compare.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-bench"
REQUIREMENTS = ROOT / "benchmarks" / "requirements.txt"


def make_environment() -> Path:
    """Create the peers' environment where it is missing or older than its requirements."""
    python, done = VENV / "bin" / "python", VENV / "ready"
    if not done.exists() or done.stat().st_mtime < REQUIREMENTS.stat().st_mtime:
        subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "--require-hashes", "--requirement", str(REQUIREMENTS)], check=True)
        done.touch()
    return python


if __name__ == "__main__":
    own = str(ROOT / ".venv" / "bin" / "python")
    benchmarks = ((str(make_environment()), "beside_peers"), (own, "rating"), (own, "ingest"))
    commands = [[python, "-m", f"benchmarks.{name}"] for python, name in benchmarks]
    sys.exit(max(subprocess.run(command, cwd=ROOT, check=False).returncode for command in commands))
