from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile a numeric function on first use, without the interpreter lock, and keep the machine code for later.

    Where no place for it can be written (neither beside the source nor in the user's cache), it is compiled anew in
    every process; `NUMBA_CACHE_DIR` names another place, `NUMBA_DISABLE_JIT=1` leaves everything interpreted.
    """
    try:
        return cast("F", numba.njit(nogil=True, error_model="numpy", cache=True)(function))
    except RuntimeError:  # "cannot cache function …: no locator available"
        return cast("F", numba.njit(nogil=True, error_model="numpy")(function))
