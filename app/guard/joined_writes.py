import asyncio
from typing import Any

MOST_HELD = 16 * 1024
"""Bytes of a write that may wait: more than the head of any answer."""


class JoinedWrites:
    """A transport that sends the head of an answer together with its body.

    uvicorn writes both one after the other, and uvloop sends each at once: two system calls and two packets. Here a
    write that finds nothing waiting waits itself for the next one, at most for a turn of the event loop.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting = b""
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:
        """Return what else a transport has."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send the data with what waits before it, or let it wait."""
        if self._waiting:
            waiting, self._waiting = self._waiting, b""
            self._transport.writelines((waiting, data))
        elif len(data) > MOST_HELD:
            self._transport.write(data)
        else:
            self._waiting = data
            self._loop.call_soon(self._send_waiting)

    def close(self) -> None:
        """Send what waits, and close the connection."""
        self._send_waiting()
        self._transport.close()

    def _send_waiting(self) -> None:
        waiting, self._waiting = self._waiting, b""
        if waiting and not self._transport.is_closing():
            self._transport.write(waiting)
