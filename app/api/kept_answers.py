"""Answers to public reads: each is made once for a state of what is published, and kept.

Few are made at once, so that readers leave the processor to the votes. Kept answers need no database.
"""

import asyncio
import gzip
import hashlib
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from fastapi import Request, Response
from starlette.datastructures import MutableHeaders

from app.api.blanks import Blank, Blanks, begin_blanks, deflate, end_blanks, fill_in, gzip_filled
from app.api.shelf import Shelf
from app.errors import NotFoundError, UnavailableError
from app.guard.compression import GZIP_LEVEL, LEAST_BYTES, Encoding, choose_encoding, compress_zstd
from app.guard.lanes import Lane, TooManyReadersError
from app.guard.limits import caller_network

MAX_BYTES = 32 * 1024 * 1024
_OVERHEAD_BYTES = 2048
_OK = 200

Make = Callable[[Request], Awaitable[Response]]


class State(Protocol):
    """What is published now. Answers to a request are the same in one version, but for their blanks."""

    @property
    def version(self) -> Hashable:
        """Changes whenever an answer may change."""

    def aged(self, seconds: float) -> Self:
        """Return what is known of this state so many seconds later, if the database was away since."""


@dataclass(eq=False)
class Kept:
    """An answer that was made, for every reader but for its blanks.

    Attributes
    ----------
    parts : the body; every second part stands for a blank
    state : the newest for which the answer is known to hold; None before the first
    seen : when that was known
    encoded : the parts compressed, by encoding
    """

    status: int
    headers: dict[str, str]
    parts: tuple[bytes, ...]
    blanks: dict[str, Blank]
    state: Any
    seen: float = field(default_factory=time.monotonic)
    encoded: dict[Encoding, tuple[bytes, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._digest = hashlib.sha256(b"".join(self.parts[::2])).hexdigest()[:32]

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return _OVERHEAD_BYTES + sum(len(part) for parts in (self.parts, *self.encoded.values()) for part in parts)

    def encoding_for(self, request: Request) -> Encoding | None:
        """Return how the body is to be compressed for a reader; None for as it is."""
        if sum(map(len, self.parts)) < LEAST_BYTES:
            return None
        return choose_encoding(
            request.headers.get("accept-encoding", ""), self.headers["content-type"], zstd=not self.blanks
        )

    def encode(self, encoding: Encoding) -> None:
        """Compress the body. It takes long: not on the event loop."""
        if self.blanks:
            self.encoded[encoding] = deflate(self.parts, GZIP_LEVEL)
        elif encoding == "gzip":
            self.encoded[encoding] = (gzip.compress(self.parts[0], GZIP_LEVEL, mtime=0),)
        else:
            self.encoded[encoding] = (compress_zstd(self.parts[0]),)

    async def answer(self, request: Request) -> Response:
        """Return the response to one reader, compressed in a thread if that was not done before."""
        encoding = self.encoding_for(request)
        if encoding is not None and encoding not in self.encoded:
            await asyncio.to_thread(self.encode, encoding)
        return self.respond(request, encoding, late=False)

    def respond(self, request: Request, encoding: Encoding | None, *, late: bool) -> Response:
        """Return the response to one reader; `late` if the database cannot say that it still holds."""
        seconds = time.monotonic() - self.seen if late else 0.0
        state = self.state.aged(seconds) if late else self.state
        filled = {mark: blank.fill(state) for mark, blank in self.blanks.items()}
        headers = {name: self._fill_header(value, filled) for name, value in self.headers.items()}
        if late:
            headers |= {"age": str(int(seconds)), "warning": '110 - "Response is Stale"'}
        if self.status == _OK and not (self.blanks and self.headers["content-type"].startswith("text/html")):
            headers["etag"] = etag = self._etag(state)
            if names_tag(request.headers.get("if-none-match", ""), etag):
                return Response(status_code=304, headers={**headers, "content-type": ""})
        response = Response(self._body(encoding, filled), self.status, headers)
        if encoding is not None:
            response.headers["content-encoding"] = encoding
        MutableHeaders(raw=response.raw_headers).add_vary_header("Accept-Encoding")
        return response

    def _body(self, encoding: Encoding | None, texts: dict[str, bytes]) -> bytes:
        filled = {mark.encode(): text for mark, text in texts.items()}
        if encoding is None:
            return fill_in(self.parts, filled)
        if self.blanks:
            return gzip_filled(self.parts, self.encoded["gzip"], filled)
        return self.encoded[encoding][0]

    @staticmethod
    def _fill_header(value: str, filled: dict[str, bytes]) -> str:
        for mark, text in filled.items():
            if mark in value:
                value = value.replace(mark, text.decode("latin-1"))
        return value

    def _etag(self, state: Any) -> str:
        """Return the entity tag. With a blank it is weak: an answer that is only older is not new."""
        if not self.blanks:
            return f'"{self._digest}"'
        tags = [blank.tag(state) for blank in self.blanks.values() if blank.tag is not None]
        return f'W/"{hashlib.sha256(repr([self._digest, *tags]).encode()).hexdigest()[:32]}"'


class KeptAnswers:
    """The answers to public reads, by path and query, of which the route has left what it knows.

    An answer is served while it holds: its version is that of the newest state, which is looked up for every request.
    While the database cannot say so, the last answer is served all the same, with its age and a warning. Belongs to one
    event loop.

    `newest`: returns the newest state, read after the call began; raises a NotFoundError before the first one.
    """

    def __init__(self, newest: Callable[[], Awaitable[State]], *, max_bytes: int = MAX_BYTES) -> None:
        self._newest = newest
        self._kept: Shelf[Kept] = Shelf(max_bytes)
        self._strangers, self._known = Lane(rests=True), Lane(rests=False)

    async def answer(self, request: Request, make: Make, *, stranger: bool) -> Response:
        """Return the answer to a request, kept or made now by `make`. Strangers and known callers wait apart.

        Raises UnavailableError: the database is away, or too many wait, and no answer is kept.
        """
        key = (request.scope["path"], request.scope["query_string"])
        lane = self._strangers if stranger else self._known
        late = False
        try:
            state = await self._find_state()
            answer = self._find(key, state) or await self._make(request, key, state, make, lane)
        except UnavailableError:
            kept = self._kept.get(key)
            if kept is None:
                raise
            answer, late = kept, True
        if not isinstance(answer, Kept):
            return answer
        return answer.respond(request, await self._encode(request, key, answer, lane), late=late)

    async def _find_state(self) -> State | None:
        try:
            return await self._newest()
        except NotFoundError:
            return None

    def _find(self, key: Hashable, state: State | None) -> Kept | None:
        kept = self._kept.get(key)
        if kept is None or state is None or kept.state.version != state.version:
            return None
        kept.state, kept.seen = state, time.monotonic()
        return kept

    async def _make(
        self, request: Request, key: Hashable, state: State | None, make: Make, lane: Lane
    ) -> Kept | Response:
        async with lane.turn(request.scope, key) as turn:
            if (kept := self._find(key, state)) is not None:  # it was made while this request waited
                turn.is_free = True
                return kept
            blanks = begin_blanks(request.scope)
            try:
                response = await make(request)
            finally:
                end_blanks(request.scope)
            if not hasattr(response, "body"):
                return response
            # Without a state there was none when the request came: the answer may be of one published since.
            filled = state or await self._find_state()
            made = await asyncio.to_thread(_take, request, response, blanks, filled)
            if made.status == _OK and state is not None:
                after = await self._find_state()
                if after is not None and after.version == state.version:  # else it may be of either version
                    turn.is_kept = self._keep(request, key, made)
            return made

    async def _encode(self, request: Request, key: Hashable, kept: Kept, lane: Lane) -> Encoding | None:
        """Compress the body for this reader, if that was not done for an earlier one."""
        encoding = kept.encoding_for(request)
        if encoding is None or encoding in kept.encoded:
            return encoding
        try:
            async with lane.turn(request.scope, key) as turn:
                turn.is_free = encoding in kept.encoded
                if not turn.is_free:
                    await asyncio.to_thread(kept.encode, encoding)
                    turn.is_kept = True
                    if self._kept.get(key) is kept:
                        self._keep(request, key, kept)  # its size is another
        except TooManyReadersError:
            return None
        return encoding

    def _keep(self, request: Request, key: Hashable, kept: Kept) -> bool:
        return self._kept.put(key, kept, kept.size, caller_network(request.scope))


def keep_body(response: Response) -> Kept:
    """Return an answer that is the same for every reader and for as long as it is kept."""
    headers = {name: value for name, value in response.headers.items() if name != "content-length"}
    return Kept(response.status_code, headers, (bytes(response.body),), {}, None)


def _take(request: Request, response: Response, blanks: Blanks, state: State | None) -> Kept:
    """Return what was made, compressed for the reader who waits for it."""
    headers = {name: value for name, value in response.headers.items() if name != "content-length"}
    made = Kept(response.status_code, headers, blanks.split(bytes(response.body)), blanks.known, state)
    encoding = made.encoding_for(request)
    if encoding is not None:
        made.encode(encoding)
    return made


def names_tag(header: str, tag: str) -> bool:
    """Whether an `If-Match` or `If-None-Match` header names the tag. Proxies may have marked either as weak."""
    named = {part.strip().removeprefix("W/") for part in header.split(",")}
    return tag.removeprefix("W/") in named or "*" in named
