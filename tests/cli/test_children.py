import operator
import os
import select
import signal
import subprocess
import sys
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


STOPS = 15  # a third of them leave a main thread that does not look up asleep
WAITING = """
import operator, signal
from app.cli.children import Child, Children
signal.signal(signal.SIGTERM, lambda *_: print("told", flush=True))
with Children(Child("sleeper", operator.methodcaller("poll", 600), must_start=True)) as children:
    print("waiting", flush=True)
    children.wait_until_ready()
"""


def test_a_signal_that_comes_while_the_process_is_stopped_is_acted_on() -> None:
    with subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "waiting\n"
            for _ in range(STOPS):
                process.send_signal(signal.SIGSTOP)
                os.waitpid(process.pid, os.WUNTRACED)
                process.send_signal(signal.SIGTERM)
                process.send_signal(signal.SIGCONT)
                assert select.select([process.stdout], [], [], 30)[0], "the signal was not acted on"
                assert process.stdout.readline() == "told\n"
        finally:
            process.kill()
