"""The log: one JSON object a line on standard error, from every library too; standard output is for results."""

import logging
import sys
import threading

import structlog
from structlog.typing import Processor

from app.settings import Settings

_SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
)


def log_level(settings: Settings) -> int:
    """Return the least that is logged, as `logging` counts levels."""
    return logging.getLevelNamesMapping()[settings.server.log_level.upper()]


def log_to_stderr(level: int = logging.INFO, *, for_good: bool = False) -> None:
    """Send the service's log, and what libraries log, to standard error from this level on.

    `for_good` says that this process never changes the level: then a line below the level costs nothing.
    """
    structlog.configure(
        processors=[*_SHARED, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=for_good,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    # Libraries log every step at the level info; their warnings and errors are enough.
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[handler], force=True)
    logging.captureWarnings(True)
    threading.excepthook = _log_thread_failure


def _log_thread_failure(failure: threading.ExceptHookArgs) -> None:
    """Log in one line that a thread died of an exception; Python would print a traceback over many lines."""
    if failure.exc_type is SystemExit:
        return
    log = structlog.get_logger()
    log.error("thread_failed", thread=failure.thread and failure.thread.name, exc_info=failure.exc_value)
