import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import uvicorn

from app.cli.whole_answers import WholeAnswersProtocol, _PairedWrites


class Wire(asyncio.Transport):
    """A transport that remembers what was written to it, each time."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.written.append(b"".join(list_of_data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def on_wire(*turns: list[bytes], close: bool = False) -> list[bytes]:
    """Write so much in each turn of an event loop, and return what went out at once."""
    wire = Wire()

    async def write() -> None:
        paired = _PairedWrites(wire, asyncio.get_running_loop())
        for pieces in turns:
            for piece in pieces:
                paired.write(piece)
            if close:
                paired.close()
                assert paired.is_closing()
            await asyncio.sleep(0)

    asyncio.run(write())
    return wire.written


def test_a_head_goes_out_with_its_body() -> None:
    assert on_wire([b"head", b"body"]) == [b"headbody"]


def test_what_nothing_follows_goes_out_in_the_next_turn() -> None:
    assert on_wire([b"100"], [b"head", b"body"], [b"more"]) == [b"100", b"headbody", b"more"]


def test_no_more_than_one_piece_is_held() -> None:
    assert on_wire([b"1", b"2", b"3", b"4", b"5"]) == [b"12", b"34", b"5"]


def test_a_connection_is_closed_behind_what_was_written() -> None:
    assert on_wire([b"head"], close=True) == [b"head"]


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Answer in as many pieces as the path says, the body's length told only for one."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    pieces = int(scope["path"][1:])
    told = [(b"content-length", b"%d" % len(body))] if pieces == 1 else []
    await send({"type": "http.response.start", "status": 200, "headers": told})
    for left in reversed(range(pieces)):
        await send({"type": "http.response.body", "body": body, "more_body": left > 0})


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    config = uvicorn.Config(answer, port=0, http=WholeAnswersProtocol, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    listening = threading.Event()
    startup = server.startup

    async def tell(sockets: Any = None) -> None:
        await startup(sockets)
        listening.set()

    server.startup = tell  # type: ignore[method-assign]  # it has no event of its own to wait for
    thread = threading.Thread(target=server.run)
    thread.start()
    assert listening.wait(120)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(120)


@pytest.mark.parametrize("pieces", [1, 2, 5])
@pytest.mark.parametrize("size", [0, 10, 1_000_000])
def test_answers_arrive_whole_and_in_order(address: str, pieces: int, size: int) -> None:
    body = bytes(i % 251 for i in range(size))
    with httpx.Client(base_url=address, trust_env=False) as client:
        for _ in range(3):  # on one connection
            assert client.post(f"/{pieces}", content=body).content == body * pieces
            assert client.head(f"/{pieces}").content == b""


def test_a_caller_who_waits_for_leave_to_send_gets_it(address: str) -> None:
    with httpx.Client(base_url=address, trust_env=False) as client:
        host, port = client.base_url.host, client.base_url.port

    async def ask() -> tuple[bytes, bytes]:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        async with asyncio.timeout(30):
            leave = await reader.readuntil(b"\r\n\r\n")
            writer.write(b"ok")
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(2)
        writer.close()
        await writer.wait_closed()
        return leave, head[:15] + body

    assert asyncio.run(ask()) == (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OKok")
