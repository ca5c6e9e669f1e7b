import asyncio
import signal
import threading
from types import FrameType

from app.guard.stopping import at_stop_signal


def test_open_answers_end_before_the_signal_s_own_handler_waits_for_them() -> None:
    handled: list[int] = []

    def own(number: int, _frame: FrameType | None) -> None:
        handled.append(number)

    async def run() -> None:
        stopped = asyncio.Event()
        with at_stop_signal(stopped.set):
            signal.raise_signal(signal.SIGTERM)
            await asyncio.wait_for(stopped.wait(), 120)

    before = signal.signal(signal.SIGTERM, own)
    try:
        asyncio.run(run())
        assert handled == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGTERM) is own
        threads = threading.Thread(target=lambda: asyncio.run(_nothing()))
        threads.start()
        threads.join()
    finally:
        signal.signal(signal.SIGTERM, before)


async def _nothing() -> None:
    with at_stop_signal(lambda: None):
        pass
