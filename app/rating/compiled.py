from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])

KERNELS: list[Any] = []
"""Every compiled function of the modules that are imported."""


def compiled(function: F) -> F:
    """Compile a numeric function on its first call, without the interpreter lock, and cache the machine code on disk.

    The cache lies beside the source, or in the user's cache folder where the source cannot be written; where neither
    can be written, every process compiles for itself. The environment variable `NUMBA_CACHE_DIR` names another folder,
    `NUMBA_DISABLE_JIT=1` turns compilation off.
    """
    try:
        kernel = numba.njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:  # "cannot cache function …: no locator available"
        kernel = numba.njit(nogil=True, error_model="numpy")(function)
    KERNELS.append(kernel)
    return cast("F", kernel)
