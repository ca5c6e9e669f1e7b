import operator
import time

import pytest

from app.cli.children import Child, Children


def test_one_that_must_start_and_cannot_is_not_started_again(capfd: pytest.CaptureFixture[str]) -> None:
    child = Child("calculator", operator.index, must_start=True)  # which makes no number of a lifeline
    with Children(child) as children:
        assert not children.wait_until_ready()
    assert capfd.readouterr().err.count("TypeError") == 1


def test_one_that_does_not_end_when_told_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.cli.children.GRACE_SECONDS", 0.2)
    monkeypatch.setattr("multiprocessing.process.BaseProcess.terminate", lambda _: None)
    with Children(Child("sleeper", operator.methodcaller("poll", 60))):
        began = time.monotonic()
    assert time.monotonic() - began < 30
