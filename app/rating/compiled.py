"""Compiled functions, and where numba keeps them: also in a folder that can be read and not written."""

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import InTreeCacheLocator, UserProvidedCacheLocator
from numba.core.event import install_timer

config: Any = numba.config


class CopyCacheLocator(InTreeCacheLocator):  # numba has no types
    """Copies a module's kernels from a folder that cannot be written to one of this user below the temporary folder.

    numba reads no cache that it cannot write: on a read-only disk every process would compile for itself. The copy is
    named by the source, by its path, and by numba's version, so that it never serves another installation.
    """

    def __init__(self, function: Callable[..., object], file: str) -> None:
        super().__init__(function, file)  # type: ignore[no-untyped-call]
        stamp, folder = self.get_source_stamp().hex()[:32], type(self).get_suitable_cache_subpath(file)  # type: ignore[no-untyped-call]
        self._cache_path = str(_own_folder() / numba.__version__ / f"{stamp}-{folder}")

    @classmethod
    def from_function(cls, function: Callable[..., object], file: str) -> Any:
        """Return the locator of a function's kernels; None where no compiled kernels can be read or copied."""
        compiled = _find_compiled(function, Path(file))
        if not compiled:
            return None
        try:
            locator: Any = cls(function, file)
            locator.ensure_cache_path()
            _copy(compiled, Path(locator.get_cache_path()))
        except OSError:
            return None
        return locator


LOCATORS = (
    "UserProvidedCacheLocator",
    f"{CopyCacheLocator.__module__}.{CopyCacheLocator.__name__}",
    "InTreeCacheLocator",
    "UserWideCacheLocator",
)


@contextmanager
def locating_kernels() -> Iterator[None]:
    """Let numba look for the caches of the functions that are decorated in the block in `LOCATORS`."""
    given = config.CACHE_LOCATOR_CLASSES
    config.CACHE_LOCATOR_CLASSES = given or ",".join(LOCATORS)
    try:
        yield
    finally:
        config.CACHE_LOCATOR_CLASSES = given


def _find_compiled(function: Callable[..., object], file: Path) -> list[Path]:
    """Return the files with the compiled kernels of a function's module in a folder that cannot be written."""
    locators: list[Any] = [UserProvidedCacheLocator] if config.CACHE_DIR else []
    for locator in (*locators, InTreeCacheLocator):
        folder = Path(locator(function, str(file)).get_cache_path())
        if os.access(folder, os.W_OK):
            continue
        with suppress(OSError):
            if found := sorted(folder.glob(f"{file.stem}.*.nb[ci]")):  # the data before the index that names it
                return found
    return []


def _copy(files: list[Path], folder: Path) -> None:
    for file in files:
        if not (folder / file.name).exists():
            with tempfile.NamedTemporaryFile(dir=folder, delete=False) as copy, file.open("rb") as source:
                shutil.copyfileobj(source, copy)
            Path(copy.name).replace(folder / file.name)


def _own_folder() -> Path:
    """Return this user's folder for copies. Kernels are code: no other user may write there.

    Raises OSError.
    """
    folder = Path(tempfile.gettempdir()) / f"stable-arena-kernels-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} belongs to another user, or others may use it")
    return folder


F = TypeVar("F", bound=Callable[..., object])

KERNELS: list[Any] = []
"""Every compiled function of the modules that are imported."""

timing_compilation = partial(install_timer, "numba:compile")
"""Calls a function at the end of a block with the seconds that compiling took, if anything was compiled."""


def compiled(function: F, *, fastmath: frozenset[str] = frozenset()) -> F:
    """Compile a numeric function on its first call, without the interpreter lock, and cache the machine code on disk.

    The cache lies beside the source, or in the folder of the environment variable `NUMBA_CACHE_DIR`. Where that cannot
    be written, what it has is copied below the temporary folder; where it has nothing, the user's cache folder is used.
    Where none can be written, every process compiles for itself. `NUMBA_DISABLE_JIT=1` turns compilation off.
    `fastmath` has LLVM's flags, such as those that let sums be taken in another order.
    """
    make = partial(
        numba.njit, nogil=True, error_model="numpy", no_cfunc_wrapper=True, fastmath=set(fastmath)
    )  # fmt: skip
    try:
        with locating_kernels():
            kernel = make(cache=True)(function)
    except RuntimeError:  # "cannot cache function …: no locator available"
        kernel = make()(function)
    KERNELS.append(kernel)
    return cast("F", kernel)
