import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from app.guard.joined_writes import MOST_HELD, JoinedWrites

HEAD, BODY, LARGE = b"HTTP/1.1 200 OK\r\n\r\n", b"{}", b"x" * (MOST_HELD + 1)


class Sent:
    """What a transport is asked to do, in order."""

    def __init__(self) -> None:
        self.calls: list[bytes | str] = []
        self.closing = False

    def write(self, data: bytes) -> None:
        self.calls.append(data)

    def writelines(self, parts: tuple[bytes, ...]) -> None:
        self.calls.append(b"".join(parts))

    def close(self) -> None:
        self.closing = True
        self.calls.append("close")

    def abort(self) -> None:
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing


Step = Callable[[JoinedWrites], object]


def write(data: bytes) -> Step:
    return lambda transport: transport.write(data)


@pytest.mark.parametrize(
    ("steps", "before", "after"),
    [
        ([write(HEAD), write(BODY)], [HEAD + BODY], [HEAD + BODY]),
        ([write(HEAD)], [], [HEAD]),  # the head of a stream does not wait for its first event
        ([write(HEAD), write(BODY), write(HEAD)], [HEAD + BODY], [HEAD + BODY, HEAD]),
        ([write(HEAD), write(LARGE)], [HEAD + LARGE], [HEAD + LARGE]),
        ([write(LARGE), write(BODY)], [LARGE], [LARGE, BODY]),
        ([write(HEAD), JoinedWrites.close], [HEAD, "close"], [HEAD, "close"]),
        ([write(HEAD), lambda transport: transport.abort()], [], []),
    ],
)
def test_what_is_sent_at_once_and_after_a_turn_of_the_loop(
    steps: list[Step], before: list[object], after: list[object]
) -> None:
    sent = Sent()

    async def run() -> None:
        transport = JoinedWrites(cast("asyncio.Transport", sent), asyncio.get_running_loop())
        for step in steps:
            step(transport)
        assert sent.calls == before
        await asyncio.sleep(0)

    asyncio.run(run())
    assert sent.calls == after
