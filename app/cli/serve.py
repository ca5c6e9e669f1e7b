import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import structlog
import typer

from app.cli.logs import log_level, log_to_stderr
from app.cli.stopping import stop_at_once, stop_signals
from app.cli.supervisor import Supervisor
from app.errors import BadInputError, StableArenaError
from app.naming.service import require_pseudonym_key
from app.opening import open_database_of
from app.settings import Settings, read_settings

log = structlog.get_logger()

_METRICS = "stable-arena-metrics-"


class CannotListenError(StableArenaError):
    """The address is in use, belongs to another machine, or needs more rights."""

    code = "cannot-listen"
    title = "The address cannot be listened on"


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on [STABLE_ARENA_SERVER__HOST].")] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port to listen on, 0 for a free one [STABLE_ARENA_SERVER__PORT]."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="Processes that answer requests [STABLE_ARENA_SERVER__WORKERS]."),
    ] = None,
    worker: Annotated[
        bool | None,
        typer.Option(
            "--worker/--no-worker", help="Whether to run refits too, in a process beside [on].", show_default=False
        ),
    ] = None,
) -> None:
    """Run the HTTP service until it is stopped (Ctrl-C, SIGTERM or SIGHUP)."""
    settings = _chosen(read_settings(), host, port, workers, worker)
    log_to_stderr(log_level(settings))
    stopped = stop_at_once(stop_signals())  # later the supervisor handles them
    # The database is opened here first, so that what is wrong with it is said in one line. It is held, so that the
    # embedded server stops after everything that uses it.
    with _shared_metrics(settings), _listening_socket(settings) as address:
        if settings.database_url is None:
            log.info("starting", stage="starting the embedded PostgreSQL, which is made first if it is new")
        with open_database_of(settings) as database:
            with database.read() as conn:
                require_pseudonym_key(conn)
            supervisor = Supervisor(settings, address)
            if not stopped.is_set():
                log.info("starting", stage="starting the servers", servers=settings.server.workers)
                supervisor.run()
    if supervisor.failed:
        raise typer.Exit(1)


@contextmanager
def _shared_metrics(settings: Settings) -> Iterator[None]:
    """Let several servers count their metrics together, in files that end with the service."""
    if settings.server.workers == 1:
        yield
        return
    remove_old_metrics(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=f"{_METRICS}{os.getpid()}-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # for the servers, which import prometheus_client later
        yield


def remove_old_metrics(temporary: Path) -> None:
    """Remove the metrics of services that were killed from the folder of temporary files."""
    for folder in temporary.glob(f"{_METRICS}*"):
        process = folder.name.removeprefix(_METRICS).partition("-")[0]
        if process.isdecimal() and not Path("/proc", process).exists() and Path("/proc/self").exists():
            shutil.rmtree(folder, ignore_errors=True)  # another user's folder stays


def _listening_socket(settings: Settings) -> socket.socket:
    host, port = settings.server.host, settings.server.port
    address = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        address.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        address.bind((host, port))
    except OSError as error:
        address.close()
        raise CannotListenError(f"cannot listen on {host}, port {port}: {error.strerror}") from error
    return address


def _chosen(
    settings: Settings, host: str | None, port: int | None, workers: int | None, worker: bool | None
) -> Settings:
    if host is not None and not host.strip():
        raise BadInputError("--host is empty; 0.0.0.0 listens on every address")
    server = {"host": host, "port": port, "workers": workers}
    given = {name: value for name, value in server.items() if value is not None}
    running = {} if worker is None else {"run_in_server": worker}
    return settings.model_copy(
        update={
            "server": settings.server.model_copy(update=given),
            "worker": settings.worker.model_copy(update=running),
        }
    )
