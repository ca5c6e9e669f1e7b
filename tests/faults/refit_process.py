"""Runs refits and kills them: for each line `URL N NAME` a forked process runs the next refit, killed at an event.

An event is the moment before or after a statement, a copy, a commit, a roll-back, a step of the fit, or of what is done
to the files of the votes kept. It is the Nth from the first whose name begins so (nothing: from the very first). N = 0
kills nothing. The answer is a line of JSON: how the process ended, and the events up to there.
"""

import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import wraps
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Engine, event
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from app.database.engine import Database
from app.refits.fit.fit import fit_snapshot
from app.refits.fit.process import FitProcess
from app.refits.fit.work_process import RememberingContext
from app.refits.load import load_fit_input
from app.refits.runner import RefitRunner
from app.votes.kept import KeptVotes

LEASE_SECONDS = 60.0  # the killed process never gives it back: the test lets the time pass


class Countdown:
    """Counts events from one on, and ends the process and its children at one of them."""

    def __init__(self, last: int, first: str, report: int) -> None:
        self._last, self._first, self._report, self._count = last, first, report, 0

    def note(self, what: str) -> None:
        self._count += bool(self._count or what.startswith(self._first))
        os.write(self._report, what.replace("\n", " ").encode()[:160] + b"\n")
        if self._count == self._last:
            os.killpg(0, signal.SIGKILL)

    def around(self, owner: Any, name: str) -> None:
        call: Callable[..., Any] = getattr(owner, name)

        @wraps(call)
        def noted(*arguments: Any, **named: Any) -> Any:
            self.note(f"before {name}")
            result = call(*arguments, **named)
            self.note(f"after {name}")
            return result

        setattr(owner, name, noted)

    def watch(self) -> None:
        def before(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
            self.note(f"before {' '.join(statement.split())}")

        def after(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
            self.note(f"after {' '.join(statement.split())}")

        event.listen(Engine, "before_cursor_execute", before)
        event.listen(Engine, "after_cursor_execute", after)
        self.around(PGDialect_psycopg, "do_commit")
        self.around(PGDialect_psycopg, "do_rollback")
        self.around(psycopg.Cursor, "copy")
        self.around(FitProcess, "submit")  # after it the fit is under way
        self.around(FitProcess, "run")
        for name in ("open", "touch", "unlink", "replace"):
            self.around(Path, name)


def fork_process(context: RememberingContext, *arguments: Any, **named: Any) -> ForkProcess:
    context.child = ForkProcess(*arguments, **named)
    return context.child


def run_refit(url: str, folder: Path, last: int, first: str, report: int) -> None:
    os.setpgid(0, 0)
    os.setsid = lambda: None  # a fit in a session of its own would not be killed with the group
    # Nothing runs in this process yet that a fork could cut in two, and the kernels are compiled.
    RememberingContext.Process = fork_process
    Countdown(last, first, report).watch()
    with Database(url) as database:
        runner = RefitRunner(database, lease_seconds=LEASE_SECONDS, kept=KeptVotes(folder))
        runner.run_next(scheduled=False)
        runner.stop()


def fork_refit(url: str, folder: Path, last: int, first: str) -> dict[str, Any]:
    told, report = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(told)
        try:
            run_refit(url, folder, last, first, report)
        except BaseException:  # noqa: BLE001  the parent's own code must not run here
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    os.close(report)
    with os.fdopen(told) as lines:
        events = lines.read().splitlines()
    _, status = os.waitpid(child, 0)
    return {"exit": os.waitstatus_to_exitcode(status), "events": events}


def warm_up(url: str) -> None:
    """Load and compile in this process what every child then has."""
    with Database(url) as database, database.read() as conn:
        task = load_fit_input(conn)
    fit_snapshot(task)


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # where the log goes
    warm = False
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            url, last, first = line.rstrip("\n").split(" ", 2)
            if not warm:
                warm_up(url)
                warm = True
            print(json.dumps(fork_refit(url, Path(folder), int(last), first)), file=answers, flush=True)


if __name__ == "__main__":
    main()
