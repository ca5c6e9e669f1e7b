from collections.abc import Sequence

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

_REMEMBERED_SECONDS = 600


def install_cors(app: FastAPI, origins: Sequence[str]) -> None:
    """Let pages of these origins call the service from a browser; without any, browsers keep pages out.

    Nothing rides on cookies, so credentials are never allowed: a page shows the token that its backend gave it.
    """
    if not origins:
        return
    app.add_middleware(
        CORSMiddleware,
        allow_origins=list(origins),
        allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "If-None-Match", "X-Request-ID"],
        expose_headers=[
            "ETag", "Idempotency-Replayed", "Location", "RateLimit", "RateLimit-Policy", "Retry-After", "X-Request-ID",
        ],
        max_age=_REMEMBERED_SECONDS,
    )  # fmt: skip
