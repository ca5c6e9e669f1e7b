"""Pages from templates: `render` makes every page of the service. The files that pages load are beside them."""

import secrets
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from sqlalchemy import Connection

from app.api.fragments import Fragment, FragmentedResponse
from app.api.kept_answers import PublicRoute
from app.api.sessions import page_reader
from app.pages import formatting
from app.pages.security import STRICT, ContentPolicy
from app.policy.service import current_policy

ASSETS = Path(__file__).parent / "static"
ASSETS_PATH = "/static"


@cache
def assets_version() -> str:
    """Return a hash of every file: it stands in the address of each, so that browsers may keep them."""
    digest = sha256()
    for path in sorted(path for path in ASSETS.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(ASSETS)}\0".encode() + sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def asset(name: str) -> str:
    """Return the address of a file, such as `style.css`."""
    return f"{ASSETS_PATH}/{assets_version()}/{name}"


NAVIGATION = (
    ("/", "Leaderboard"),
    ("/matchups", "Matchups"),
    ("/compare", "Compare"),
    ("/history", "History"),
    ("/method", "Method"),
    ("/governance", "Governance"),
    ("/docs", "API"),
    ("/console", "Console"),
)
"""The links at the top of every page: a new page is one line here."""

templates = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
templates.filters |= {function.__name__: function for function in formatting.FILTERS}
templates.globals |= {"asset": asset, "navigation": NAVIGATION}


def render(
    request: Request,
    template: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    policy: ContentPolicy = STRICT,
    fragments: tuple[Fragment, ...] = (),
    **values: Any,
) -> Response:
    """Return a template as a page, or as the part of a page that it is.

    The template has `values`, `request`, and `nonce`: each element with an attribute of htmx needs
    `hx-nonce="{{ nonce }}"`, each script `nonce="{{ nonce }}"`.

    `template`: its path below app/pages, such as `leaderboard/page.html`.
    `headers`: in place of the usual ones, or beside them.
    `fragments`: whose marks are among the values. The nonce is one too: no two readers of a kept page share it.
    """
    nonce = Fragment(lambda _state: secrets.token_urlsafe(16))
    content = templates.get_template(template).render(request=request, nonce=nonce.mark, **values)
    public = request.app.state.settings.public_leaderboard
    usual = {
        **policy.headers(nonce.mark),
        "Cache-Control": "no-cache" if public else "no-store",
        "Vary": "HX-Request" if public else "Cookie, HX-Request",
    }
    shown = {**usual, **(headers or {})}
    return FragmentedResponse(content, (nonce, *fragments), status_code=status, headers=shown, media_type="text/html")


def public_router() -> APIRouter:
    """Return a router of pages that show the leaderboard: their answers are kept, for those who may read it."""
    return APIRouter(
        include_in_schema=False,
        default_response_class=HTMLResponse,
        route_class=PublicRoute,
        dependencies=[page_reader],
    )


def render_nothing_published(request: Request, conn: Connection, title: str) -> Response:
    """Return a page that says how the first leaderboard comes about."""
    policy = current_policy(conn).settings
    needs = {name: getattr(policy, name) for name in ("min_votes", "min_board_annotators", "min_board_votes")}
    return render(request, "templates/nothing_published.html", title=title, **needs)
