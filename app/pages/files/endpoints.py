"""What pages load, and the two pages of documentation: the API's description, and the site that `make site` builds."""

import hashlib
import re
from base64 import b64encode
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from app.errors import NotFoundError
from app.pages.rendering import ASSETS, ASSETS_PATH, CompressedFile, assets_version, render
from app.pages.security import ContentPolicy

router = APIRouter(include_in_schema=False)

_FILES = StaticFiles(directory=ASSETS)
_FOR_A_YEAR = "public, max-age=31536000, immutable"
_INLINE = re.compile(rb"<script(?: type=\"application/json\"| id=\"[^\"]*\")*>(.*?)</script>", re.DOTALL)
# The only page whose styles may be inline: Swagger UI sets styles on its elements.
_SWAGGER_POLICY = ContentPolicy(style_src="'self' 'unsafe-inline'", form_action="'none'")


@router.get(ASSETS_PATH + "/{version}/{name:path}")
async def get_file(version: str, name: str, request: Request) -> Response:
    """Return a style, script or picture. The address has a hash of all files, so browsers may keep it.

    A page of another release may still ask by its own hash: it gets the present file, to be checked next time.
    """
    response = await _FILES.get_response(name, request.scope)
    response.headers["Cache-Control"] = _FOR_A_YEAR if version == assets_version() else "no-cache"
    response.headers["X-Content-Type-Options"] = "nosniff"
    return CompressedFile(response)


@router.get("/docs", response_class=HTMLResponse)
def get_docs(request: Request) -> Response:
    """Show every endpoint of the API, to read and to try."""
    return render(request, "files/swagger.html", policy=_SWAGGER_POLICY)


@router.get("/docs/{name:path}")
async def get_manual(name: str, request: Request) -> Response:
    """Return a page or a file of the documentation, where the service has it."""
    folder = request.app.state.settings.pages.docs_dir
    if folder is None or not folder.is_dir():
        raise NotFoundError("this service has no copy of the documentation: see STABLE_ARENA_PAGES__DOCS_DIR")
    place = name or "index.html"
    try:
        response = await StaticFiles(directory=folder).get_response(place, request.scope)
    except HTTPException:
        raise NotFoundError(f"the documentation has no page {name}") from None
    if place.endswith(".html"):
        response.headers.update(_policy_of(folder / place).headers(""))
    response.headers["Cache-Control"] = "no-cache"
    response.headers["X-Content-Type-Options"] = "nosniff"
    return CompressedFile(response)


def _policy_of(page: Path) -> ContentPolicy:
    """Return the policy that allows the scripts that the page was built with, and no others."""
    scripts = _INLINE.findall(page.read_bytes())
    hashes = (f"'sha256-{b64encode(hashlib.sha256(script).digest()).decode()}'" for script in scripts)
    return ContentPolicy(
        style_src="'self' 'unsafe-inline'", script_src=" ".join(["'self'", *hashes]), form_action="'none'"
    )
