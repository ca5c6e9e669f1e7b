import subprocess
import sys
from typing import Any

import numba
import pytest

from app.rating.compile import compile_kernels
from app.rating.compiled import KERNELS, compiled


def test_every_kernel_of_the_rating_is_compiled() -> None:
    """Kernels that only other kernels call are part of those."""
    steps: list[str] = []
    compile_kernels(steps.append)
    compile_kernels()
    kernels = [kernel for kernel in KERNELS if kernel.py_func.__module__.startswith("app.rating")]
    inner = {name for kernel in kernels for name in kernel.py_func.__code__.co_names}
    left = {kernel.py_func.__name__ for kernel in kernels if not kernel.signatures} - inner
    assert left == set()
    assert steps == [
        "votes",
        "m-ELO",
        "am-ELO",
        "style",
        "copies",
        "evidence",
        "folders",
        "categories",
        "confidence",
        "fragility",
        "Elo",
    ]


def test_rating_loads_no_module_that_a_fit_does_not_need() -> None:
    """Dask is for a cluster alone; of scipy the start of the service needs no more than a fit."""
    loaded = "import sys, app.rating.cluster, app.refits.fit.fit, app.refits.fit.process; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    modules = {*ran.stdout.split()}
    assert "scipy.special" in modules
    slow = {f"scipy.{slow}" for slow in ("stats", "optimize", "interpolate", "spatial")}
    assert not modules & {"distributed", *slow}


def test_without_a_place_for_machine_code_functions_compile_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    njit, asked = numba.njit, []

    def nowhere(**options: Any) -> Any:
        asked.append(options.get("cache", False))
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    monkeypatch.setattr(numba, "njit", nowhere)
    assert compiled(lambda x: x + 1)(1) == 2
    assert asked == [True, False]
