"""The process that fits what a request asks for."""

import os
import threading
import time
from functools import partial
from typing import Any

import pytest

from app.rating.errors import VotesError
from app.refits.fit.on_demand import CannotFitError, OnDemandFits
from app.refits.fit.process import FitProcessLostError
from app.review.impact.service import ImpactBusyError


def refuse() -> None:
    raise VotesError("no vote is left")


def run(fits: OnDemandFits, work: Any) -> Any:
    with fits.process() as process:
        return process.run(work)


@pytest.mark.own_child
def test_answers_and_errors_come_back_from_a_child() -> None:
    fits = OnDemandFits(None, busy=ImpactBusyError)
    assert run(fits, os.getpid) != os.getpid()
    with pytest.raises(CannotFitError, match="no vote is left"):
        run(fits, refuse)
    with pytest.raises(ZeroDivisionError), fits.process():
        _ = 1 // 0  # an error while the votes are read
    with pytest.raises(CannotFitError), fits.process():
        refuse()


@pytest.mark.own_child
def test_one_question_at_a_time_and_none_after_the_end() -> None:
    fits, entered = OnDemandFits(None, busy=ImpactBusyError), threading.Event()
    ends: list[Any] = []

    def ask_for_long() -> None:
        try:
            with fits.process() as process:
                entered.set()
                process.run(partial(time.sleep, 600))
        except FitProcessLostError as error:
            ends.append(error)

    asking = threading.Thread(target=ask_for_long)
    asking.start()
    assert entered.wait(120)
    with pytest.raises(ImpactBusyError):
        run(fits, os.getpid)
    fits.stop()
    asking.join(120)
    assert len(ends) == 1, "the child has ended, and with it the wait"
    with pytest.raises(FitProcessLostError, match="shutting down"):
        run(fits, os.getpid)
