"""The process that fits what a request asks for."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from app.rating.errors import VotesError
from app.refits.fit.process import CannotFitError, FitProcessLostError, OnDemandFits
from app.review.impact.service import ImpactBusyError
from tests.fixtures.waiting import wait_until


@pytest.fixture
def fits() -> Iterator[OnDemandFits]:
    fits = OnDemandFits(None, busy=ImpactBusyError)
    yield fits
    fits.stop()


def refuse() -> None:
    raise VotesError("no vote is left")


def run(fits: OnDemandFits, work: Any) -> Any:
    with fits.process() as process:
        return process.run(work)


@pytest.mark.campaign
@pytest.mark.own_child
def test_answers_and_errors_come_back_from_one_child(fits: OnDemandFits) -> None:
    child = run(fits, os.getpid)
    assert child != os.getpid()
    with pytest.raises(CannotFitError):
        run(fits, refuse)
    with pytest.raises(ZeroDivisionError), fits.process():
        _ = 1 // 0  # an error while the votes are read
    with pytest.raises(CannotFitError), fits.process():
        refuse()
    assert run(fits, os.getpid) == child


@pytest.mark.own_child
def test_one_question_at_a_time_and_none_after_the_end(fits: OnDemandFits) -> None:
    entered = threading.Event()
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
    with pytest.raises(FitProcessLostError):
        run(fits, os.getpid)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.campaign
@pytest.mark.own_child
def test_an_idle_child_ends_after_a_while_and_the_next_request_has_another() -> None:
    fits = OnDemandFits(None, busy=ImpactBusyError, idle_seconds=0.01)
    first = run(fits, os.getpid)
    wait_until(lambda: is_gone(first), 60)
    second = run(fits, os.getpid)
    fits.stop()
    assert second != first


@pytest.mark.campaign
@pytest.mark.own_child
def test_an_idle_child_that_was_killed_is_replaced(fits: OnDemandFits) -> None:
    first = run(fits, os.getpid)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: is_gone(first), 60)
    assert run(fits, os.getpid) != first


@pytest.mark.campaign
@pytest.mark.own_child
def test_an_idle_child_ends_with_the_service(fits: OnDemandFits) -> None:
    child = run(fits, os.getpid)
    fits.stop()
    assert is_gone(child)
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
