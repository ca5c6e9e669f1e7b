import subprocess
import sys

from app.rating.compile import compile_kernels
from app.rating.compiled import KERNELS

PAIRS_ALONE = {"tabulate_votes"}  # of `count_pairs`, which neither a refit nor `rate` calls


def test_every_kernel_of_the_rating_is_compiled() -> None:
    """Kernels that only other kernels call are part of those."""
    steps: list[str] = []
    compile_kernels(steps.append)
    compile_kernels()
    kernels = [kernel for kernel in KERNELS if kernel.py_func.__module__.startswith("app.rating")]
    inner = {name for kernel in kernels for name in kernel.py_func.__code__.co_names}
    left = {kernel.py_func.__name__ for kernel in kernels if not kernel.signatures} - inner
    assert left <= PAIRS_ALONE
    assert steps == ["votes", "m-ELO", "am-ELO", "style", "evidence", "categories", "confidence", "fragility", "Elo"]


def test_rating_loads_no_module_that_a_fit_does_not_need() -> None:
    loaded = "import app.rating.verdict.round, sys; print([name for name in sys.modules if name.startswith('scipy.')])"
    modules = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout
    assert "'scipy.special'" in modules
    assert not any(f"'scipy.{slow}'" in modules for slow in ("stats", "optimize", "interpolate", "spatial"))
