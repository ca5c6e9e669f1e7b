"""The process in which questions that need a fit are answered."""

import os
import threading
import time
from functools import partial
from typing import Any

import pytest

from app.rating.errors import VotesError
from app.refits.fit.process import FitProcessLostError
from app.refits.previews.service import CannotFitError
from app.review.impact.fits import ImpactBusyError, ReviewFits


def refuse() -> None:
    raise VotesError("no vote is left")


def test_answers_and_errors_come_back_from_a_child() -> None:
    fits = ReviewFits()
    assert fits.run(lambda: os.getpid) != os.getpid()
    with pytest.raises(CannotFitError, match="no vote is left"):
        fits.run(lambda: refuse)
    with pytest.raises(ZeroDivisionError):
        fits.run(lambda: 1 // 0)  # what is read for the question
    with pytest.raises(CannotFitError):
        fits.run(refuse)


def test_one_question_at_a_time_and_none_after_the_end() -> None:
    fits, entered = ReviewFits(), threading.Event()
    ends: list[Any] = []

    def ask_for_long() -> None:
        try:
            fits.run(lambda: entered.set() or partial(time.sleep, 600))
        except FitProcessLostError as error:
            ends.append(error)

    asking = threading.Thread(target=ask_for_long)
    asking.start()
    assert entered.wait(120)
    with pytest.raises(ImpactBusyError):
        fits.run(lambda: os.getpid)
    fits.stop()
    asking.join(120)
    assert len(ends) == 1, "the child has ended, and with it the wait"
    with pytest.raises(FitProcessLostError, match="shutting down"):
        fits.run(lambda: os.getpid)
