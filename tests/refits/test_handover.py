import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.refits.fit.handover import WORTH_SHARING, hand_over
from app.refits.fit.work_process import ProcessLostError, WorkProcess
from tests.fixtures.waiting import wait_until


def describe(*arrays: np.ndarray[Any, Any], fails: bool = False) -> list[Any]:
    if fails:
        raise ValueError("as asked")
    return [os.getpid(), *((x.dtype.str, x.shape, float(x.sum()), x.flags.writeable) for x in arrays)]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


LARGE = np.arange(WORTH_SHARING, dtype=np.int32)


def test_arrays_arrive_as_they_were() -> None:
    arrays = (LARGE, np.zeros(0), np.full((3, 5), 0.1), np.arange(4)[::2], np.ones(9, dtype=np.bool_))
    process = WorkProcess()
    try:
        process.start()
        before = open_files()
        pid, *found = process.call(partial(describe, *arrays))
        assert found == describe(*arrays)[1:]
        assert pid == process.child_pid
        with pytest.raises(ValueError, match="as asked"):
            process.call(partial(describe, LARGE, fails=True))
        wait_until(lambda: open_files() == before)
    finally:
        process.stop()
    with pytest.raises(ProcessLostError):
        process.call(partial(describe, LARGE))
    wait_until(lambda: open_files() <= before)


def test_little_goes_through_the_pipe() -> None:
    work = partial(describe, np.zeros(3))
    assert hand_over(work)[0] is work
