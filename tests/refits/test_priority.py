import os
from functools import partial

import pytest

from app.refits.fit.process import FitProcess, OnDemandFits
from app.refits.fit.work_process import AUTOGROUP, LOWEST_PRIORITY, ON_DEMAND_PRIORITY, SESSION_PRIORITY
from app.review.impact.service import ImpactBusyError


@pytest.mark.own_child
def test_a_fit_has_the_lowest_priority(fit_process: FitProcess) -> None:
    assert fit_process.run(partial(os.nice, 0)) == LOWEST_PRIORITY


@pytest.mark.own_child
@pytest.mark.skipif(not AUTOGROUP.exists(), reason="the kernel does not group processes by session")
def test_a_fit_has_a_low_priority_where_sessions_share_the_processors(fit_process: FitProcess) -> None:
    assert fit_process.run(partial(os.getsid, 0)) != os.getsid(0)
    assert fit_process.run(AUTOGROUP.read_text).split()[1:] == ["nice", str(SESSION_PRIORITY)]


@pytest.mark.own_child
def test_a_fit_that_a_person_waits_for_has_a_higher_priority() -> None:
    fits = OnDemandFits(None, busy=ImpactBusyError)
    try:
        with fits.process() as process:
            assert process.run(partial(os.nice, 0)) - os.nice(0) == ON_DEMAND_PRIORITY < LOWEST_PRIORITY
    finally:
        fits.stop()
