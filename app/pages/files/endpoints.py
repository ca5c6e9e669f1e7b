"""What pages load, and the two pages of documentation: the API's description, and the site that `make site` builds."""

import asyncio
import hashlib
import mimetypes
import re
from base64 import b64encode
from functools import cache, lru_cache
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from app.api.kept_answers import Kept
from app.errors import NotFoundError
from app.guard.strangers import file_for_all, open_to_all
from app.pages.rendering import ASSETS, ASSETS_PATH, assets_version, render
from app.pages.security import ContentPolicy

router = APIRouter(include_in_schema=False)

_FOR_A_YEAR = "public, max-age=31536000, immutable"
_INLINE = re.compile(rb"<script(?: type=\"application/json\"| id=\"[^\"]*\")*>(.*?)</script>", re.DOTALL)
# The only page whose styles may be inline: Swagger UI sets styles on its elements.
_SWAGGER_POLICY = ContentPolicy(style_src="'self' 'unsafe-inline'", form_action="'none'")


@router.get(ASSETS_PATH + "/{version}/{name:path}", dependencies=[file_for_all])
async def get_file(version: str, name: str, request: Request) -> Response:
    """Return a style, script or picture. The address has a hash of all files, so browsers may keep it.

    A page of another release may still ask by its own hash: it gets the present file, to be checked next time.
    """
    path = _assets().get(name)
    if path is None:
        raise HTTPException(404)
    response = await _read(path, 0).answer(request)
    response.headers["Cache-Control"] = _FOR_A_YEAR if version == assets_version() else "no-cache"
    return response


@cache
def _assets() -> dict[str, Path]:
    return {str(path.relative_to(ASSETS)): path for path in ASSETS.rglob("*") if path.is_file()}


@lru_cache(256)
def _read(path: Path, _changed: int) -> Kept:
    """Return a file, which is compressed once for all readers."""
    kind = mimetypes.guess_type(path)[0] or "text/plain"
    headers = _policy_of(path).headers("") if path.suffix == ".html" else {}
    return Kept.of(Response(path.read_bytes(), headers=headers, media_type=kind))


@router.get("/docs", response_class=HTMLResponse, dependencies=[open_to_all])
def get_docs(request: Request) -> Response:
    """Show every endpoint of the API, to read and to try."""
    return render(request, "files/swagger.html", policy=_SWAGGER_POLICY)


@router.get("/docs/{name:path}", dependencies=[file_for_all])
async def get_manual(name: str, request: Request) -> Response:
    """Return a page or a file of the documentation, where the service has it."""
    folder = request.app.state.settings.pages.docs_dir
    if folder is None or not folder.is_dir():
        raise NotFoundError("this service has no copy of the documentation: see STABLE_ARENA_PAGES__DOCS_DIR")
    file = await asyncio.to_thread(_find, folder, name or "index.html")
    if file is None:
        raise NotFoundError(f"the documentation has no page {name}")
    response = await file.answer(request)
    response.headers["Cache-Control"] = "no-cache"
    return response


def _find(folder: Path, name: str) -> Kept | None:
    try:
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()) or not path.is_file():
            return None
        return _read(path, path.stat().st_mtime_ns)
    except (OSError, ValueError):  # a name that no file can have
        return None


def _policy_of(page: Path) -> ContentPolicy:
    """Return the policy that allows the scripts that the page was built with, and no others."""
    scripts = _INLINE.findall(page.read_bytes())
    hashes = (f"'sha256-{b64encode(hashlib.sha256(script).digest()).decode()}'" for script in scripts)
    return ContentPolicy(
        style_src="'self' 'unsafe-inline'", script_src=" ".join(["'self'", *hashes]), form_action="'none'"
    )
