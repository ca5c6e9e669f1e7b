"""The documentation as a site, which `make site` builds."""

import hashlib
import re
from base64 import b64encode
from pathlib import Path

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from app.errors import NotFoundError
from app.pages.rendering import CompressedFile
from app.pages.security import ContentPolicy

router = APIRouter(include_in_schema=False)

_INLINE = re.compile(rb"<script(?: type=\"application/json\"| id=\"[^\"]*\")*>(.*?)</script>", re.DOTALL)


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
