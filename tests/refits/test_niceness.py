"""Processes that let others go first."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from app.refits.fit.process import FitProcess
from app.refits.fit.process_priority import NICENESS, SESSION_NICENESS

AUTOGROUP = Path("/proc/self/autogroup")


def test_a_fit_lets_requests_go_first(fit_process: FitProcess) -> None:
    assert fit_process.run(partial(os.nice, 0)) == NICENESS


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="only Linux has classes of its own")
def test_a_fit_is_scheduled_as_a_batch(fit_process: FitProcess) -> None:
    assert fit_process.run(partial(os.sched_getscheduler, 0)) == os.SCHED_BATCH


@pytest.mark.skipif(os.nice(0) == NICENESS, reason="as nice already: the fit shares this session")
@pytest.mark.skipif(not AUTOGROUP.exists(), reason="the kernel does not group processes by session")
def test_a_fit_stands_back_where_sessions_share_the_processors(fit_process: FitProcess) -> None:
    assert fit_process.run(partial(os.getsid, 0)) != os.getsid(0)
    assert fit_process.run(partial(AUTOGROUP.read_text)).split()[1:] == ["nice", str(SESSION_NICENESS)]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux lets a process choose its processors")
def test_a_processor_is_left_free_where_there_is_another() -> None:
    code = (
        "import os; from app.refits.fit.process_priority import leave_a_processor_free;"
        "before = os.sched_getaffinity(0);"
        "leave_a_processor_free(); after = os.sched_getaffinity(0); assert after <= before;"
        "assert len(after) == max(1, len(before) - 1); os.sched_setaffinity(0, {min(after)}); leave_a_processor_free();"
        "assert os.sched_getaffinity(0) == {min(after)}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_one_that_leads_its_session_stays_in_it() -> None:
    code = (
        "import os; from app.refits.fit.process_priority import let_others_go_first; let_others_go_first();"
        "print(os.nice(0), os.getsid(0) == os.getpid())"
    )
    command = [sys.executable, "-c", code]
    told = subprocess.run(command, start_new_session=True, capture_output=True, check=True, text=True)
    assert told.stdout.split() == [str(NICENESS), "True"]
