import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from app.cli.logs import log_level, log_to_stderr
from app.cli.serving import serve_here, serve_in_children, stop_on_signals
from app.errors import BadInputError, StableArenaError
from app.naming.service import require_pseudonym_key
from app.opening import open_database_of
from app.settings import Settings, read_settings

_METRICS = "stable-arena-metrics-"


class CannotListenError(StableArenaError):
    """The address is taken, not this machine's, or not ours to use."""

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
    """Run the HTTP service until told to stop (Ctrl-C, SIGTERM or SIGHUP); prints its address once it answers."""
    settings = _chosen(read_settings(), host, port, workers, worker)
    level = log_level(settings)
    log_to_stderr(level)
    stop_on_signals()
    # Opened here first, so that what is wrong with the database is told in one line; and held, so that
    # the embedded server stops after everything that uses it.
    with _shared_metrics(settings), _listening_socket(settings) as address, open_database_of(settings) as database:
        with database.read() as conn:
            require_pseudonym_key(conn)
        with_worker, workers = settings.worker.run_in_server, settings.server.workers
        # A worker is a process beside: whoever assembles the application does not do its work too.
        with _environment("STABLE_ARENA_WORKER__RUN_IN_SERVER", "false"):
            if workers == 1:
                answered = serve_here(address, with_worker=with_worker, log_level=level)
            else:
                answered = serve_in_children(address, workers, with_worker=with_worker, log_level=level)
    if not answered:
        raise typer.Exit(1)


@contextmanager
def _shared_metrics(settings: Settings) -> Iterator[None]:
    """Let the metrics of several processes be counted together, in files that end with the service."""
    if settings.server.workers == 1 and not settings.worker.run_in_server:
        yield
        return
    _tidy_up()
    # The variable is read when prometheus_client is first imported.
    with (
        tempfile.TemporaryDirectory(prefix=f"{_METRICS}{os.getpid()}-") as folder,
        _environment("PROMETHEUS_MULTIPROC_DIR", folder),
    ):
        yield


def _tidy_up() -> None:
    """Remove the metrics of services that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_METRICS}*"):
        process = folder.name.removeprefix(_METRICS).partition("-")[0]
        if process.isdecimal() and not Path("/proc", process).exists() and Path("/proc/self").exists():
            shutil.rmtree(folder, ignore_errors=True)  # another user's stays


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Set a variable for this process and its children, for a while."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


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
