"""The progress of a long command, on standard error if that is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


@dataclass(frozen=True)
class Stages:
    """How a command reports: `stage` names a stage that begins, `share` says how much of it is done (0 to 1).

    Without a terminal `share` is None, so that the command need not count.
    """

    stage: Callable[[str], None]
    share: Callable[[float], None] | None


@contextmanager
def showing_stages() -> Iterator[Stages]:
    """Show the stages while the block runs, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield Stages(stage=lambda _: None, share=None)
        return
    # for a terminal alone
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        yield Stages(stage=_namer(progress, task), share=lambda done: progress.update(task, completed=done, total=1.0))


def _namer(progress: "Progress", task: "TaskID") -> Callable[[str], None]:
    def name(stage: str) -> None:
        progress.reset(task, total=None, description=stage)

    return name
