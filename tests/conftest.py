import gc
import logging
import re
import ssl
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any
from urllib.parse import unquote

import hypothesis
import pytest
import structlog
from httpx import Response
from threadpoolctl import threadpool_limits

pytest_plugins = [
    "tests.fixtures.database",
    "tests.fixtures.environment",
    "tests.fixtures.application",
    "tests.fixtures.clocks",
    "tests.fixtures.refits",
    "tests.fixtures.rendering",
    "tests.fixtures.snapshots",
    "tests.fixtures.service",
    "tests.fixtures.loop",
    "tests.fixtures.cluster",
    "tests.fixtures.browser",
    "tests.fixtures.arena",
    "tests.fixtures.console",
    "tests.fixtures.voting",
]

gc.disable()  # until everything is imported and collected

# Reading the machine's certificates takes 50 ms, and every client and every application that starts wants them.
ssl.create_default_context = cache(ssl.create_default_context)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our options."""
    parser.addoption("--minutes", type=float, default=60, help="how long the deployment of make soak is under load")


def pytest_collection_finish() -> None:
    """Search no more for garbage in what was imported; let the linear algebra start no threads.

    They spin while they wait for each other, and the processes of the tests share few processors.
    """
    threadpool_limits(1, user_api="blas")
    gc.freeze()
    gc.enable()


# Machines are shared, and the first example of some compiles kernels. `make campaigns` asks for the thorough profile.
PATIENT = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("quick", PATIENT, max_examples=25)
hypothesis.settings.register_profile("thorough", PATIENT, max_examples=400)
hypothesis.settings.load_profile("quick")

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
