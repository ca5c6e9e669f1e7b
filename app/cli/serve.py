import os
import signal
import socket
from logging import getLevelNamesMapping
from typing import Annotated, NoReturn

import typer
import uvicorn

from app.cli.interpreter import tune_for_serving
from app.cli.logs import log_to_stderr
from app.cli.session import open_database_of, read_settings
from app.errors import StableArenaError
from app.settings import Settings

_GRACE_SECONDS = 10


class CannotListenError(StableArenaError):
    """The address is taken, not this machine's, or not ours to use."""

    code = "cannot-listen"
    title = "The address cannot be listened on"


class _Server(uvicorn.Server):
    """A server that says where it listens once it does."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            tune_for_serving()
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            typer.echo(f"http://{f'[{host}]' if ':' in host else host}:{port}")


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on [STABLE_ARENA_SERVER__HOST].")] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port to listen on, 0 for a free one [STABLE_ARENA_SERVER__PORT]."),
    ] = None,
    worker: Annotated[
        bool | None, typer.Option("--worker/--no-worker", help="Whether to run refits too [on].", show_default=False)
    ] = None,
) -> None:
    """Run the HTTP service until told to stop (Ctrl-C or SIGTERM); prints its address once it answers."""
    settings = _chosen(read_settings(), host, port, worker)
    log_to_stderr(getLevelNamesMapping()[settings.server.log_level.upper()])
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, _stop)
    # Opened here first, so that what is wrong with the database is told in one line; and held, so that
    # the embedded server stops after everything that uses it.
    with _listening_socket(settings) as address, open_database_of(settings):
        server = _Server(_config(settings))
        try:
            server.run([address])
        finally:
            # Whoever is impatient must not leave the database half-stopped.
            for name in (signal.SIGINT, signal.SIGTERM):
                signal.signal(name, signal.SIG_IGN)
    if not server.started:
        raise typer.Exit(1)


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


def _stop(*_: object) -> NoReturn:
    # uvicorn takes the signal while it runs, and hands it on here when it has finished.
    raise SystemExit(0)


def _chosen(settings: Settings, host: str | None, port: int | None, worker: bool | None) -> Settings:
    server = {"host": host, "port": port}
    given = {name: value for name, value in server.items() if value is not None}
    running = {} if worker is None else {"run_in_server": worker}
    return settings.model_copy(
        update={
            "server": settings.server.model_copy(update=given),
            "worker": settings.worker.model_copy(update=running),
        }
    )


def _config(settings: Settings) -> uvicorn.Config:
    # The application is named, not imported: it is assembled above this layer, and reads the environment itself.
    os.environ["STABLE_ARENA_WORKER__RUN_IN_SERVER"] = str(settings.worker.run_in_server)
    return uvicorn.Config(
        "app.main:create_app",
        factory=True,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
