"""Whoever writes to the log, a line of it is one JSON object that says what it belongs to."""

import json
import subprocess
import sys

SCRIPT = """
import logging, threading, warnings
import structlog
from app.cli.logs import log_to_stderr

log_to_stderr()
log = structlog.get_logger()
with structlog.contextvars.bound_contextvars(request_id="r-1"):
    log.info("ours", number=1)
    log.debug("not_asked_for")
    logging.getLogger("library").warning("theirs: %s", "two\\nlines")
    try:
        raise ValueError("three\\nlines")
    except ValueError:
        log.exception("failed")
        logging.getLogger("library").exception("failed too")
    warnings.warn("something is old")

def die():
    with structlog.contextvars.bound_contextvars(request_id="r-2"):
        raise KeyError("in a thread")

thread = threading.Thread(target=die, name="dying")
thread.start()
thread.join()
"""


def test_every_line_is_an_object() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert ran.stdout == ""
    lines = [json.loads(line) for line in ran.stderr.splitlines()]
    assert all({"event", "level", "timestamp"} <= line.keys() for line in lines)
    events = [line["event"].partition(":")[0] for line in lines]
    assert events[:4] == ["ours", "theirs", "failed", "failed too"]
    assert "something is old" in lines[4]["event"]
    assert (events[5], lines[5]["thread"]) == ("thread_failed", "dying")
    assert [line.get("request_id") for line in lines[:5]] == ["r-1"] * 5
    assert ["exception" in line for line in lines] == [False, False, True, True, False, True]
