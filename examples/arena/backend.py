"""The backend of a small arena. It asks Stable Arena for battles, shows canned answers, and passes votes on.

The browser never learns which models it compares: it gets two answers and an opaque token. The reveal comes with the
answer to the vote.
"""

import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import httpx
from cachetools import TTLCache
from fastapi import Cookie, FastAPI, HTTPException, Request, Response
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel

HERE = Path(__file__).parent
COOKIE = "visitor"
YEAR = 365 * 24 * 3600
REMEMBERED, HOUR = 10_000, 3600
POLICY = "default-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


class Prompt(BaseModel):
    """A question and each model's answer to it."""

    prompt: str
    answers: dict[str, str]


class Battle(BaseModel):
    """What the browser gets."""

    prompt: str
    left: str
    right: str
    token: str


class Verdict(BaseModel):
    """What the visitor thought of a battle."""

    token: str
    winner: Literal["left", "right", "tie", "bothbad"]


class Skip(BaseModel):
    """A battle that the visitor does not want to judge."""

    token: str


class Reveal(BaseModel):
    """The models behind the two answers."""

    left: str
    right: str


def read_prompts(path: Path = HERE / "answers.json") -> list[Prompt]:
    """Return the prompts of a file; every model has an answer to each."""
    prompts = [Prompt.model_validate(one) for one in json.loads(path.read_text(encoding="utf-8"))]
    models = set(prompts[0].answers)
    if any(set(one.answers) != models for one in prompts):
        raise ValueError(f"{path}: every prompt needs an answer of each of {', '.join(sorted(models))}")
    return prompts


def create_app(api: str, key: str, prompts: list[Prompt]) -> FastAPI:
    """Return the arena.

    Parameters
    ----------
    api : address of Stable Arena's API, such as `http://127.0.0.1:8000/api/v1`
    key : of scope `ingest`; it never reaches the browser
    prompts : from `read_prompts`
    """
    service = httpx.AsyncClient(base_url=api, headers={"Authorization": f"Bearer {key}"})

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service:
            yield

    app = FastAPI(title="A small arena", openapi_url=None, lifespan=lifespan)
    app.mount("/static", StaticFiles(directory=HERE / "static"))
    open_battles: TTLCache[str, str] = TTLCache(REMEMBERED, HOUR)  # token → battle

    @app.middleware("http")
    async def set_policy(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call_next(request)
        response.headers["Content-Security-Policy"] = POLICY
        return response

    @app.get("/")
    async def show_page() -> FileResponse:
        return FileResponse(HERE / "static" / "page.html")

    @app.post("/battle")
    async def draw_battle(response: Response, visitor: Annotated[str | None, Cookie()] = None) -> Battle:
        # A visitor without the cookie is a new annotator. An arena that counts on votes signs people in.
        visitor = visitor or secrets.token_urlsafe(16)
        response.set_cookie(COOKIE, visitor, max_age=YEAR, httponly=True, samesite="lax")
        models = list(prompts[0].answers)
        drawn = await _ask(service, "/battles", {"annotator": f"visitor-{visitor}", "candidates": models})
        open_battles[drawn["token"]] = drawn["battle_id"]
        shown = secrets.choice(prompts)
        left, right = shown.answers[drawn["left"]], shown.answers[drawn["right"]]
        return Battle(prompt=shown.prompt, left=left, right=right, token=drawn["token"])

    @app.post("/vote")
    async def cast_vote(verdict: Verdict) -> Reveal:
        cast = await _ask(service, "/votes", verdict.model_dump())
        return Reveal(left=cast["left"], right=cast["right"])

    @app.post("/skip", status_code=204)
    async def skip_battle(skip: Skip) -> None:
        battle = open_battles.pop(skip.token, None)
        if battle is not None:
            await _ask(service, f"/battles/{battle}/skip", {"reason": "skip", "token": skip.token})

    return app


async def _ask(service: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Send a request to Stable Arena. Its problems become the backend's, with their status and detail."""
    try:
        answer = await service.post(path, json=body)
    except httpx.TransportError:
        raise HTTPException(502, "the service that counts the votes does not answer") from None
    if answer.is_error:
        raise HTTPException(answer.status_code, answer.json().get("detail") or answer.json()["title"])
    content: dict[str, Any] = answer.json()
    return content
