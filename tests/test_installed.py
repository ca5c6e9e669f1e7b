"""A copy installed from the wheel serves: it holds all that it needs at run time, the migrations too."""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command: object, cwd: Path) -> str:
    """Run a command with neither this clone nor the caller's settings in its way; return what it printed."""
    hidden = ("PYTHON", "STABLE_ARENA_", "COV")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    ran = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel in it; what the wheel depends on is taken from this environment."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder, cwd=ROOT)
    (wheel,) = folder.glob("*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    programs = folder / "venv" / "bin"
    offline = ("--no-deps", "--no-index", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "--python", programs / "python", "install", *offline, wheel, cwd=folder)
    (packages,) = (folder / "venv").glob("lib/*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return programs


@pytest.mark.campaign
def test_an_installed_copy_serves(programs: Path, tmp_path: Path) -> None:
    place = run(programs / "python", "-c", "import app; print(app.__file__)", cwd=tmp_path)
    assert Path(place).is_relative_to(programs.parent)
    told = run(programs / "stable-arena", "demo", "--for", "5s", cwd=tmp_path)
    assert "The demo is over" in told
    votes = re.search(r"([\d,]+) votes", told)
    assert votes is not None
    assert int(votes[1].replace(",", "")) > 0
