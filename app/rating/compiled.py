from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import numba
from numba.core.event import install_timer

from app.rating.kernel_cache import locating_kernels

F = TypeVar("F", bound=Callable[..., object])

KERNELS: list[Any] = []
"""Every compiled function of the modules that are imported."""

timing_compilation = partial(install_timer, "numba:compile")
"""Calls a function at the end of a block with the seconds that compiling took, if anything was compiled."""


def compiled(function: F) -> F:
    """Compile a numeric function on its first call, without the interpreter lock, and cache the machine code on disk.

    The cache lies beside the source, or in the folder of the environment variable `NUMBA_CACHE_DIR`. Where that cannot
    be written, what it has is copied below the temporary folder; where it has nothing, the user's cache folder is used.
    Where none can be written, every process compiles for itself. `NUMBA_DISABLE_JIT=1` turns compilation off.
    """
    try:
        with locating_kernels():
            kernel = numba.njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:  # "cannot cache function …: no locator available"
        kernel = numba.njit(nogil=True, error_model="numpy")(function)
    KERNELS.append(kernel)
    return cast("F", kernel)
