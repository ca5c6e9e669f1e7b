"""Texts as HTML: rendered once, in a child process with limits, and stored beside the text.

A worker renders new texts. Where a person comes first, the process that serves lends them a child of its own.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import structlog

from app.answers.queries import StoredText, list_unrendered, read_texts, store_html
from app.answers.rendering import Rendered, render_within, show_source
from app.database.engine import Database
from app.database.leases import LeasedJob
from app.refits.fit.work_process import ON_DEMAND_PRIORITY, ProcessLostError, WorkProcess
from app.state import ProcessState

log = structlog.get_logger()

RENDER_SECONDS = 1.0
"""Of a processor; 100 kB of prose take a third."""
WAIT_SECONDS = 3.0
"""How long a voter waits for texts that are not rendered yet; then their source is shown this once."""
_STUCK_SECONDS = 60.0  # the child ends its work long before, unless the machine has no time for it
_MEMORY_BYTES = 512 * 1024**2
_ATTEMPTS = 2
_AT_ONCE = 100


class StuckError(Exception):
    """The child gave no answer; it ends where it is handled, and no user sees it."""


class RenderProcess(WorkProcess):
    """The child process that renders.

    `seconds`: of a processor, for one text.
    `stuck_seconds`: by the clock; a child that takes longer is killed.
    """

    work_name = "rendering"

    def __init__(
        self,
        *,
        priority: int = ON_DEMAND_PRIORITY,
        seconds: float = RENDER_SECONDS,
        stuck_seconds: float = _STUCK_SECONDS,
    ) -> None:
        super().__init__(memory_bytes=_MEMORY_BYTES, priority=priority)
        self._seconds = seconds
        self._stuck_seconds = stuck_seconds

    def render(self, text: str) -> Rendered:
        """Return a text as HTML, its source where it exceeds a limit. A child that died is replaced.

        Raises ProcessLostError: `stop` was called.
        """
        for _ in range(_ATTEMPTS):  # something else may have killed the child
            until = time.monotonic() + self._stuck_seconds
            try:
                return self.call(partial(render_within, text, self._seconds), watch=partial(_watch, until))
            except MemoryError:
                return show_source(text, f"it needs more than {_MEMORY_BYTES:,} bytes of memory")
            except StuckError:
                return show_source(text, "its process gave no answer")
            except ProcessLostError:
                if self.stopped:
                    raise
        return show_source(text, "its process died")


def _watch(until: float) -> None:
    if time.monotonic() > until:
        raise StuckError


def render_stored(database: Database, process: RenderProcess, one: StoredText) -> str:
    """Return a text's HTML, which is rendered and stored if it is not there."""
    with database.read() as conn:
        known = read_texts(conn, one.table, [one.id], html=True)[one.id].html
    if known is not None:
        return known
    assert one.text is not None  # noqa: S101  it is read where there is no HTML
    rendered = process.render(one.text)
    if rendered.refusal is not None:
        log.warning("text_shown_as_source", table=one.table, id=one.id, detail=rendered.refusal)
    with database.begin() as conn:
        store_html(conn, one, rendered.html)
    return rendered.html


def render_waiting(
    database: Database, process: RenderProcess, *, lease_seconds: float, stopped: Callable[[], bool]
) -> int:
    """Render the texts that wait, those of one worker at a time; return how many. Raises UnavailableError."""
    done = 0
    with database.read() as conn:
        if not list_unrendered(conn, 1):
            return 0
    job = LeasedJob(database, "rendering", lease_seconds)
    waiting = job.claim(lambda conn: list_unrendered(conn, _AT_ONCE) or None)
    if waiting is None:
        return 0
    try:
        with job, contextlib.suppress(ProcessLostError):
            while waiting:
                for one in waiting:
                    if stopped():
                        return done
                    render_stored(database, process, one)
                    done += 1
                with database.read() as conn:
                    waiting = list_unrendered(conn, _AT_ONCE)
    finally:
        process.discard()
    return done


class Renderings:
    """Renders what a person waits for, one text after another; the child ends some time after the last one."""

    def __init__(self, database: Database, process: RenderProcess) -> None:
        self._database = database
        self._process = process
        self._thread = ThreadPoolExecutor(1, "rendering")

    def submit(self, one: StoredText) -> Future[str]:
        """Return the HTML that a text has or gets."""
        if one.html is None:
            return self._thread.submit(self._render, one)
        known: Future[str] = Future()
        known.set_result(one.html)
        return known

    async def html_of(self, shown: Mapping[str, StoredText]) -> dict[str, str]:
        """Return the HTML of texts by their names, the source of those that are not ready in time."""
        ready = {name: one.html for name, one in shown.items() if one.html is not None}
        if len(ready) == len(shown):  # nearly always
            return ready
        waiting = {name: asyncio.wrap_future(self.submit(one)) for name, one in shown.items()}
        _, late = await asyncio.wait(waiting.values(), timeout=WAIT_SECONDS)
        for one in late:
            one.cancel()  # unless it has begun
        return {
            name: show_source(shown[name].text or "", "late").html if one in late else one.result()
            for name, one in waiting.items()
        }

    def close(self) -> None:
        """End the child."""
        self._process.stop()
        self._thread.shutdown(cancel_futures=True)

    def _render(self, one: StoredText) -> str:
        try:
            return render_stored(self._database, self._process, one)
        finally:
            self._process.rest()


def provide_renderings(state: ProcessState) -> None:
    """Render what people wait for; the child ends with this process."""
    state[Renderings] = renderings = Renderings(state[Database], RenderProcess())
    state.closing.push_async_callback(asyncio.to_thread, renderings.close)
