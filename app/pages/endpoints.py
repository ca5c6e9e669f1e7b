"""Pages for people: the front page and the API's description. They load nothing from other hosts."""

from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse
from starlette.staticfiles import StaticFiles

router = APIRouter(include_in_schema=False)

_STATIC = Path(__file__).parent / "static"
_SWAGGER_UI = StaticFiles(directory=_STATIC / "docs")
_NOTHING_ELSE = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_HOME_POLICY = f"default-src 'none'; img-src data:; {_NOTHING_ELSE}"
# Swagger UI sets styles on its elements, and its icons are data: URLs.
_DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    f"connect-src 'self'; {_NOTHING_ELSE}"
)


@router.get("/")
async def get_home() -> FileResponse:
    """Show the front page, which links to the leaderboard and to the API's description."""
    return FileResponse(_STATIC / "home.html", headers={"Content-Security-Policy": _HOME_POLICY})


@router.get("/docs")
async def get_docs() -> FileResponse:
    """Show the API's description as Swagger UI."""
    return FileResponse(_STATIC / "docs" / "index.html", headers={"Content-Security-Policy": _DOCS_POLICY})


@router.get("/docs/{name}")
async def get_docs_file(name: str, request: Request) -> Response:
    """Return a script or a style of the description."""
    return await _SWAGGER_UI.get_response(name, request.scope)
