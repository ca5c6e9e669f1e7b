from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own, not worth one import

PROGRAM = "postgres"
START_TOLERANCE_SECONDS = 5.0


def find_postmaster(cluster: Path) -> "psutil.Process | None":
    """Return the process that serves `cluster`, or None where `postmaster.pid` names no such process.

    After a crash the number in that file may be anyone's. It is believed only for a process with PostgreSQL's name
    that works in `cluster` or, where the system does not tell (root in a container), started when the file says.
    """
    import psutil  # noqa: PLC0415 - of the `embedded` extra, whose absence `find_binaries` reports first

    try:
        lines = (cluster / "postmaster.pid").read_text().splitlines()
        pid, started = int(lines[0]), float(lines[2])
    except (FileNotFoundError, IndexError, ValueError):  # none, or one just being written
        return None
    try:
        process = psutil.Process(pid)
        if process.name() != PROGRAM or process.status() == psutil.STATUS_ZOMBIE:
            return None
        try:
            serves = Path(process.cwd()) == cluster.resolve()
        except psutil.AccessDenied:
            serves = abs(process.create_time() - started) <= START_TOLERANCE_SECONDS
    except (psutil.NoSuchProcess, ValueError):  # ValueError: a negative number, written by single-user mode
        return None
    return process if serves else None
