"""Answers to public reads: each is made once for a state of what is published, and kept.

Few are made at once, so that readers leave the processor to the votes. Kept answers need no database.
"""

import asyncio
import gzip
import hashlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, Self

from fastapi import Depends, Header, Request, Response
from fastapi.routing import APIRoute
from fastapi.sse import EventSourceResponse
from sqlalchemy import Connection
from starlette.datastructures import MutableHeaders

from app.api.dependencies import ReadView, check_parameters, declared_parameters, known_query
from app.api.fragments import Fragment, deflate, fill_in, gzip_filled, split
from app.api.shelf import Shelf
from app.errors import UnavailableError
from app.guard.admission import admissions_of
from app.guard.compression import GZIP_LEVEL, LEAST_BYTES, Encoding, choose_encoding, compress_zstd
from app.guard.lanes import Lane, Outcome
from app.guard.limits import caller_network
from app.state import state_of

MAX_BYTES = 32 * 1024 * 1024
_OVERHEAD_BYTES = 2048
_OK = 200
_STATE = "newest"  # in a request's state: what was published when its answer was made

Make = Callable[[Request], Awaitable[Response]]


class State(Protocol):
    """What is published now. Answers to a request are the same in one version, but for their fragments."""

    @property
    def version(self) -> Hashable:
        """Changes whenever an answer may change."""

    def aged(self, seconds: float) -> Self:
        """Return what is known of this state so many seconds later, if the database was away since."""


@dataclass(eq=False)
class Kept:
    """An answer that was made, for every reader but for its fragments.

    Attributes
    ----------
    parts : the body; every second part stands for a fragment
    state : the newest for which the answer is known to hold; None before the first
    seen : when that was read
    encoded : the parts compressed, by encoding; without fragments the body
    """

    status: int
    headers: dict[str, str]
    parts: tuple[bytes, ...]
    fragments: tuple[Fragment, ...]
    state: Any
    seen: float
    encoded: dict[Encoding, tuple[bytes, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, response: Response, state: Any = None, seen: float = 0.0) -> Self:
        """Return an answer that holds in this state, which was read then."""
        headers = {name: value for name, value in response.headers.items() if name != "content-length"}
        fragments = getattr(response, "fragments", ())
        return cls(response.status_code, headers, split(bytes(response.body), fragments), fragments, state, seen)

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
        accepted = request.headers.get("accept-encoding", "")
        return choose_encoding(accepted, self.headers["content-type"], zstd=not self.fragments)

    def is_ready_for(self, request: Request) -> bool:
        """Whether the body is compressed for a reader."""
        return self.encoding_for(request) in (None, *self.encoded)

    def prepare(self, request: Request) -> None:
        """Compress the body for a reader. It takes long: not on the event loop."""
        encoding = self.encoding_for(request)
        if encoding is None or encoding in self.encoded:
            return
        if self.fragments:
            self.encoded[encoding] = deflate(self.parts, GZIP_LEVEL)
        else:
            (body,) = self.parts
            zipped = compress_zstd(body) if encoding == "zstd" else gzip.compress(body, GZIP_LEVEL, mtime=0)
            self.encoded[encoding] = (zipped,)

    async def answer(self, request: Request) -> Response:
        """Return the response to one reader, compressed in a thread if that was not done before."""
        if not self.is_ready_for(request):
            await asyncio.to_thread(self.prepare, request)
        return self.respond(request)

    def respond(self, request: Request, *, late: bool = False) -> Response:
        """Return the response to one reader; `late` if the database cannot say that it still holds."""
        seconds = time.monotonic() - self.seen
        state = self.state.aged(seconds) if late else self.state
        filled = {one.mark: one.fill(state) for one in self.fragments}
        headers = {name: _fill_header(value, filled) for name, value in self.headers.items()}
        if late:
            headers |= {"age": str(int(seconds)), "warning": '110 - "Response is Stale"'}
        if self.status == _OK and not (self.fragments and self.headers["content-type"].startswith("text/html")):
            headers["etag"] = etag = self._etag(state)
            if names_tag(request.headers.get("if-none-match", ""), etag):
                return Response(status_code=304, headers={**headers, "content-type": ""})
        encoding = self.encoding_for(request)
        response = Response(self._body(encoding, filled), self.status, headers)
        if encoding in self.encoded:
            response.headers["content-encoding"] = encoding
        MutableHeaders(raw=response.raw_headers).add_vary_header("Accept-Encoding")
        return response

    def _body(self, encoding: Encoding | None, texts: dict[str, str]) -> bytes:
        filled = {mark.encode(): text.encode() for mark, text in texts.items()}
        if encoding is None or encoding not in self.encoded:
            return fill_in(self.parts, filled)
        return gzip_filled(self.parts, self.encoded[encoding], filled) if filled else self.encoded[encoding][0]

    def _etag(self, state: Any) -> str:
        """Return the entity tag. With a fragment it is weak: an answer that is only older is not new."""
        if not self.fragments:
            return f'"{self._digest}"'
        tags = [one.tag(state) for one in self.fragments if one.tag is not None]
        return f'W/"{hashlib.sha256(repr([self._digest, *tags]).encode()).hexdigest()[:32]}"'


def _fill_header(value: str, filled: dict[str, str]) -> str:
    for mark, text in filled.items():
        value = value.replace(mark, text)
    return value


class KeptAnswers:
    """The answers to public reads, by path and query, of which the route has left what it knows.

    An answer is served while it holds: its version is that of the newest state, which is looked up for every request.
    While the database cannot say so, the last answer is served all the same, with its age and a warning. Belongs to one
    event loop.

    `look`: returns the newest state, read after the call began; None before the first one.
    `read`: returns it as a transaction sees it: the one in which an answer is made.
    """

    def __init__(
        self,
        look: Callable[[], Awaitable[State | None]],
        read: Callable[[Connection], State | None],
        *,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._look = look
        self.read = read
        self._kept: Shelf[Kept] = Shelf(max_bytes)
        self._strangers, self._known = Lane(rests=True), Lane(rests=False)

    async def answer(self, request: Request, make: Make, *, stranger: bool) -> Response:
        """Return the answer to a request, kept or made now by `make`. Strangers and known callers wait apart.

        Raises UnavailableError: the database is away, or too many wait, and no answer is kept.
        """
        asked, key = time.monotonic(), (request.scope["path"], request.scope["query_string"])
        lane = self._strangers if stranger else self._known
        try:
            answer = await self._find_or_make(request, key, asked, make, lane)
        except UnavailableError:
            kept = self._kept.get(key)
            if kept is None:
                raise
            return kept.respond(request, late=kept.seen < asked)
        return answer.respond(request) if isinstance(answer, Kept) else answer

    async def _renew(self, kept: Kept | None, asked: float) -> Kept | None:
        """Return an answer if it holds for a reader who asked then, else None."""
        if kept is None or kept.seen >= asked:
            return kept
        state = await self._look()
        if state is None or state.version != kept.state.version:
            return None
        kept.state, kept.seen = state, time.monotonic()
        return kept

    async def _find_or_make(
        self, request: Request, key: Hashable, asked: float, make: Make, lane: Lane
    ) -> Kept | Response:
        before = self._kept.get(key)
        kept = await self._renew(before, asked)
        if kept is not None and kept.is_ready_for(request):
            return kept

        async def work() -> tuple[Kept | Response, Outcome]:
            now = self._kept.get(key)  # another one if it was made while this request waited
            found = kept if now is before else await self._renew(now, asked)
            if found is None:
                began = time.monotonic()
                response = await make(request)
                if not hasattr(response, "body"):
                    return response, "made"
                found = await asyncio.to_thread(Kept.of, response, request.scope["state"].get(_STATE), began)
            elif found.is_ready_for(request):
                return found, "free"
            await asyncio.to_thread(found.prepare, request)
            may_stay = found.status == _OK and found.state is not None
            is_kept = may_stay and self._kept.put(key, found, found.size, caller_network(request.scope))
            return found, "kept" if is_kept else "made"

        return await lane.take(request.scope, key, work)


def _read_state(request: Request, conn: ReadView) -> Any:
    state = request.scope["state"][_STATE] = state_of(request.scope)[KeptAnswers].read(conn)
    return state


newest_state = Depends(_read_state)
"""The newest state, read in the transaction in which the answer is made; None before the first."""


class PublicRoute(APIRoute):
    """A route whose answers depend on what is published, the path and the known parameters alone; see `KeptAnswers`.

    Who asks is decided for every request, and counted. Parameters that the route does not know are refused, or left
    out of the request where it is for a page: no answer is made for them. A stream is not kept.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **settings: Any) -> None:
        if settings.get("response_class") is not EventSourceResponse:
            settings["dependencies"] = [*(settings.get("dependencies") or ()), newest_state]
        super().__init__(path, endpoint, **settings)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers a request."""
        make, admissions = super().get_route_handler(), admissions_of(self.dependant)
        if self.is_sse_stream:
            return make

        known, is_page = declared_parameters(self.dependant), not self.include_in_schema

        async def handle(request: Request) -> Response:
            readers = [await admission(request) for admission in admissions]
            if request.scope["query_string"]:
                if not is_page:
                    check_parameters(request.query_params, known)
                request.scope["query_string"] = known_query(request.query_params, known)
                request = Request(request.scope, request.receive)
            return await state_of(request.scope)[KeptAnswers].answer(request, make, stranger=not any(readers))

        return handle


async def _describe(if_none_match: Annotated[str | None, Header()] = None) -> None:
    """Let the API's description name the header, which `KeptAnswers` reads."""


revalidated = Depends(_describe)
"""Says of an endpoint that it answers 304 to a request whose `If-None-Match` names the current `ETag`."""


def names_tag(header: str, tag: str) -> bool:
    """Whether an `If-Match` or `If-None-Match` header names the tag. Proxies may have marked either as weak."""
    named = {part.strip().removeprefix("W/") for part in header.split(",")}
    return tag.removeprefix("W/") in named or "*" in named
