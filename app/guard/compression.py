"""Compresses large answers for callers that accept it."""

import asyncio
import sys
from typing import Literal

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware, IdentityResponder
from starlette.types import ASGIApp, Message, Receive, Scope, Send

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdCompressor
else:
    from backports.zstd import ZstdCompressor

LEAST_BYTES = 1024  # a smaller answer fits into one packet as it is
_THREAD_BYTES = 32 * 1024  # a larger one would hold up the votes that the event loop answers
GZIP_LEVEL = 5
_EXCLUDED = (*DEFAULT_EXCLUDED_CONTENT_TYPES, "application/vnd.apache.parquet", "application/octet-stream")
Encoding = Literal["gzip", "zstd"]
_READING = frozenset({"GET", "HEAD"})


class Compression:
    """Compresses what is read, with zstd or gzip, unless it is already."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._gzip = GZipMiddleware(app, LEAST_BYTES, GZIP_LEVEL, _THREAD_BYTES, exclude_content_types=_EXCLUDED)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["method"] not in _READING:
            await self._app(scope, receive, send)
            return

        async def send_weakened(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                if "content-encoding" in headers and headers.get("etag", "").startswith('"'):
                    headers["etag"] = f"W/{headers['etag']}"  # a strong tag would promise the bytes before compression
            await send(message)

        if _accepts_zstd(Headers(scope=scope).get("accept-encoding", "")):
            await _ZstdResponder(self._app, LEAST_BYTES, exclude_content_types=_EXCLUDED)(scope, receive, send_weakened)
        else:
            await self._gzip(scope, receive, send_weakened)


class _ZstdResponder(IdentityResponder):
    content_encoding = "zstd"
    _compressor: ZstdCompressor | None = None

    async def apply_compression(self, body: bytes, *, more_body: bool) -> bytes:
        """Return the part compressed: flushed, so that a stream arrives as it is made; the last part ends the frame."""
        compressor = self._compressor = self._compressor or ZstdCompressor()
        mode: Literal[1, 2] = 1 if more_body else 2  # ZstdCompressor.FLUSH_BLOCK and FLUSH_FRAME, which are typed int
        if len(body) < _THREAD_BYTES:
            return compressor.compress(body, mode)
        return await asyncio.to_thread(compressor.compress, body, mode)


def choose_encoding(accepted: str, content_type: str, *, zstd: bool) -> Encoding | None:
    """Return how to compress a body of this type for a caller who accepts these; `zstd` if that is possible."""
    kind = content_type.partition(";")[0].strip().lower()
    if not {kind, f"{kind.partition('/')[0]}/*"}.isdisjoint(_EXCLUDED):
        return None
    if zstd and _accepts_zstd(accepted):
        return "zstd"
    return "gzip" if "gzip" in accepted else None


def compress_zstd(body: bytes) -> bytes:
    """Return a body compressed."""
    return ZstdCompressor().compress(body, 2)


def _accepts_zstd(accepted: str) -> bool:
    offers = (offer.partition(";") for offer in accepted.lower().split(","))
    return any(name.strip() == "zstd" and weight.strip() not in {"q=0", "q=0.0"} for name, _, weight in offers)
