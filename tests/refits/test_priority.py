import os
from functools import partial

import pytest

from app.refits.fit.child_process import LOWEST_PRIORITY
from app.refits.fit.process import FitProcess


@pytest.mark.own_child
def test_a_fit_has_the_lowest_priority(fit_process: FitProcess) -> None:
    assert fit_process.run(partial(os.nice, 0)) == LOWEST_PRIORITY
