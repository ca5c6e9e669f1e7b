"""The database files (PostgreSQL calls them a cluster), made by initdb."""

import os
import shutil
from pathlib import Path
from secrets import token_hex

from app.database.embedded import EmbeddedServerError
from app.database.embedded.account import Account
from app.database.embedded.binaries import MAJOR
from app.database.embedded.folder import ServerFolder
from app.database.embedded.locks import FileLock

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
    "--set=shared_buffers=128MB",
)


def ensure_cluster(folder: ServerFolder, programs: Path, account: Account, alive: FileLock) -> None:
    """Make the database files if there are none, and check that these programs can serve them.

    initdb inherits `alive`: if the caller is killed, the next one waits until initdb has ended.

    Raises
    ------
    EmbeddedServerError
        initdb failed, or the files are not PostgreSQL's or of another major version.
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
