"""Kernels that were compiled ahead are used where their folder can be read and not written."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COUNT = """
from numba.core import event

class Counter(event.Listener):
    compiled = 0
    def on_start(self, event):
        Counter.compiled += 1
    def on_end(self, event):
        pass

event.register("numba:compile", Counter())
import numpy as np
from app.rating.votes.graph import link
join(*np.arange(2, dtype={dtype!r}).reshape(2, 1), np.arange(2))
print(Counter.compiled)
"""

CountCompiled = Callable[..., int]


def in_namespace(*command: str) -> list[str]:
    return ["unshare", "--mount", *(() if os.geteuid() == 0 else ("--map-root-user",)), *command]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the sources without kernels."""
    if shutil.which("unshare") is None or subprocess.run(in_namespace("true"), check=False).returncode:
        pytest.skip("no mount namespaces here")
    shutil.copytree(ROOT / "app", tmp_path / "tree" / "app", ignore=shutil.ignore_patterns("*.nb?", "static", "lab"))
    return tmp_path / "tree"


@pytest.fixture
def count_compiled(tree: Path, tmp_path: Path) -> CountCompiled:
    """Run a kernel in a fresh process; return how many functions were compiled for it."""
    (tmp_path / "tmp").mkdir()

    def count(*, read_only: Path | None = None, dtype: str = "int64", **environment: str) -> int:
        process = [sys.executable, "-c", COUNT.format(dtype=dtype)]
        if read_only is not None:
            bind = f'mount --bind "{read_only}" "{read_only}" && mount -o remount,bind,ro "{read_only}" && exec "$@"'
            process = in_namespace("sh", "-c", bind, "sh", *process)
        usual = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "TMPDIR": str(tmp_path / "tmp"), "NUMBA_OPT": "0"}
        done = subprocess.run(
            process, cwd=tree, env=usual | {"PYTHONPATH": str(tree)} | environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    return count


@pytest.mark.campaign
def test_beside_the_sources(tree: Path, count_compiled: CountCompiled) -> None:
    assert count_compiled() > 0
    assert count_compiled(read_only=tree) == 0


@pytest.mark.campaign
def test_in_the_folder_that_the_image_names(tree: Path, tmp_path: Path, count_compiled: CountCompiled) -> None:
    cache = tmp_path / "cache"
    assert count_compiled(NUMBA_CACHE_DIR=str(cache)) > 0
    assert count_compiled(read_only=tmp_path / "cache", NUMBA_CACHE_DIR=str(cache)) == 0
    assert not list(tree.rglob("*.nbi"))


@pytest.mark.campaign
def test_what_was_not_compiled_ahead_is_compiled_once(tree: Path, count_compiled: CountCompiled) -> None:
    count_compiled()
    assert count_compiled(read_only=tree, dtype="int32") > 0
    assert count_compiled(read_only=tree, dtype="int32") == 0


@pytest.mark.campaign
def test_kernels_of_another_user_are_not_run(tree: Path, tmp_path: Path, count_compiled: CountCompiled) -> None:
    count_compiled()
    folder = tmp_path / "tmp" / f"stable-arena-kernels-{os.geteuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    assert count_compiled(read_only=tree) > 0
    assert not list(folder.iterdir())
