"""A real PostgreSQL for every test that asks for one: migrated once, then a savepoint or a clone per test."""

import logging
import os
import re
import secrets
import shutil
import ssl
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import hypothesis
import pytest
import structlog
import uvicorn
from fastapi import FastAPI
from httpx import Client, Response
from pydantic import SecretStr
from sqlalchemy import Connection, create_engine, text

from app.auth.service import SCOPES, create_key
from app.database.embedded.server import EmbeddedServer
from app.database.engine import Database, parse_url
from app.database.schema import upgrade
from app.main import create_app
from app.refits.fit.process import FitProcess
from app.refits.runner import RefitRunner
from app.settings import Settings, WorkerSettings

# A cluster, its log and the databases of one test; there is a server for each of pytest-xdist's workers.
_ROOM = 4 * 1024**3

# The addresses are http: a context of httpx's own would read every certificate of the world first.
pytest_plugins = ["tests.fixtures.service", "tests.fixtures.loop"]

_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

# Machines are shared, and the first example of some compiles kernels.
hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("patient")

Serving = Callable[[FastAPI], AbstractContextManager[str]]
AssertProblem = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """Commands set up the log of the whole process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    _log_plainly()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    _log_plainly()


def _log_plainly() -> None:
    """Log to the process's own standard error.

    A request is logged after its answer is sent, when the test that asked may have ended, and what pytest had put in
    the place of sys.stdout is closed.
    """
    # structlog's own default draws every frame of a traceback, which takes seconds
    plain = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.reset_defaults()
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, structlog.stdlib.add_log_level, plain],
        logger_factory=structlog.PrintLoggerFactory(sys.__stderr__),
    )


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """Address of a server on which databases may be made: STABLE_ARENA_TEST_DATABASE_URL or an embedded one."""
    given = os.environ.get("STABLE_ARENA_TEST_DATABASE_URL")
    if given:
        yield given
        return
    with _place() as folder:
        server = EmbeddedServer(folder / "data")
        try:
            yield server.start()
        finally:
            server.release()


@pytest.fixture(scope="module")
def cluster_folder() -> Iterator[Path]:
    """Where a module's tests may have a cluster of their own."""
    with _place() as folder:
        yield folder


@contextmanager
def _place() -> Iterator[Path]:
    """Make a folder for a cluster, and remove it."""
    # Not tmp_path: its parents are closed to the unprivileged user that the server runs as under root.
    folder = Path(tempfile.mkdtemp(prefix="stable-arena-test-", dir=_memory()))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _memory() -> Path | None:
    """Return a folder that lives in memory, None where there is no such or too little.

    Copying a database for every test costs a tenth there of what it costs on a busy disk.
    """
    folder = Path("/dev/shm")  # noqa: S108  as temporary as the server: it holds no secret
    roomy = folder.is_dir() and os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > _ROOM
    return folder if roomy else None


@contextmanager
def new_database(server_url: str, template: str = "template1") -> Iterator[str]:
    """Make a database, yield its URL and drop it."""
    url = parse_url(server_url)
    name = f"stable_arena_test_{secrets.token_hex(8)}"
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as conn:
            conn.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
        yield url.set(database=name).render_as_string(hide_password=False)
        with engine.connect() as conn:
            _end_sessions(conn, name)
            # Not WITH (FORCE): it fails while autovacuum is in the database, which a plain DROP sends away.
            conn.execute(text(f"DROP DATABASE {name}"))
    finally:
        engine.dispose()


def _end_sessions(conn: Connection, name: str) -> None:
    """End the sessions in this database, but not autovacuum's, which a superuser alone may end."""
    sessions = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name AND usename = user"
    conn.execute(text(sessions), {"name": name})


@pytest.fixture(scope="session")
def template_url(server_url: str) -> Iterator[str]:
    """A migrated database that nobody writes to."""
    with new_database(server_url) as url:
        upgrade(url)
        yield url


@pytest.fixture
def empty_database_url(server_url: str) -> Iterator[str]:
    """A database without any table, of the test's own."""
    with new_database(server_url) as url:
        yield url


@pytest.fixture(scope="session")
def shared_database(server_url: str, template_url: str) -> Iterator[Database]:
    """The database of all tests that leave nothing behind."""
    with new_database(server_url, str(parse_url(template_url).database)) as url, Database(url) as database:
        yield database


@pytest.fixture
def connection(shared_database: Database) -> Iterator[Connection]:
    """A transaction that is rolled back after the test: for what needs neither a commit nor a second session."""
    with shared_database.begin() as conn:
        yield conn
        conn.get_transaction().rollback()  # type: ignore[union-attr]  # begin() has begun it


@pytest.fixture
def database_url(server_url: str, template_url: str) -> Iterator[str]:
    """A migrated database of the test's own."""
    with new_database(server_url, str(parse_url(template_url).database)) as url:
        yield url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """The test's own database, opened: for what commits or races."""
    with Database(database_url, pool_size=60) as database:
        yield database


@pytest.fixture
def closed_database(server_url: str, database_url: str) -> Callable[[], AbstractContextManager[None]]:
    """Close the test's own database for a while: sessions are ended and nobody is let in."""

    @contextmanager
    def close() -> Iterator[None]:
        name = str(parse_url(database_url).database)
        engine = create_engine(parse_url(server_url), isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as conn:
                conn.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false"))
                _end_sessions(conn, name)
                yield
                conn.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true"))
        finally:
            engine.dispose()

    return close


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return Settings(database_url=SecretStr(database_url), data_dir=tmp_path, worker=WorkerSettings(run_in_server=False))


@contextmanager
def _served(app: FastAPI) -> Iterator[str]:
    """Serve the application in a thread and yield its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False, ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the application did not start"
            thread.join(0.005)
        host, port = server.servers[0].sockets[0].getsockname()[:2]
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def serving() -> Serving:
    """Serve an application of the test's own making: a context manager that yields its address."""
    return _served


@pytest.fixture(scope="session")
def _usual_app() -> FastAPI:
    """The service as most tests want it: to assemble it anew for each costs more than most of them."""
    return create_app(Settings(worker=WorkerSettings(run_in_server=False)))


@pytest.fixture
def client(settings: Settings, _usual_app: FastAPI) -> Iterator[Client]:
    """The service on the test's own database, without its worker, behind a real HTTP server."""
    place = {"database_url": settings.database_url, "data_dir": settings.data_dir}
    usual = _usual_app.state.settings.model_copy(update=place)
    app = _usual_app if settings == usual else create_app(settings)
    app.state.settings = settings  # all that lasts longer than a request is made from them when the service starts
    with _served(app) as url, Client(base_url=url, timeout=120, verify=_NO_TLS) as client:
        yield client


@pytest.fixture
def keys(database: Database) -> dict[str, str]:
    """Scope → an API key with this scope alone."""
    with database.begin() as conn:
        keys = {scope: create_key(conn, f"{scope} key", [scope])[1] for scope in SCOPES}
        conn.execute(text("TRUNCATE audit_log"))  # the log of every test starts with what the test does
    return keys


@pytest.fixture
def assert_problem() -> AssertProblem:
    """Check that a response is a complete problem of this kind, and return its body."""

    def check(response: Response, status: int, code: str) -> dict[str, Any]:
        assert response.status_code == status, response.text
        assert response.headers["content-type"] == "application/problem+json"
        body: dict[str, Any] = response.json()
        assert {"type", "title", "status", "detail", "instance", "request_id", "errors"} <= body.keys()
        assert body["type"] == f"/problems/{code}"
        assert body["status"] == status
        assert body["detail"]
        assert unquote(body["instance"]) == response.request.url.path
        assert not re.search(r"[^!-~]", body["instance"]), "a URI reference"
        assert body["request_id"] == response.headers["x-request-id"]
        assert ("www-authenticate" in response.headers) == (status == 401)
        assert ("retry-after" in response.headers) == (status in (429, 503))
        return body

    return check


@pytest.fixture(scope="session")
def fit_process() -> Iterator[FitProcess]:
    """One child for all tests: starting it is what takes long."""
    process = FitProcess()
    yield process
    process.stop()


@pytest.fixture
def runner(database: Database, fit_process: FitProcess) -> RefitRunner:
    return RefitRunner(database, lease_seconds=30, process=fit_process)
