"""The files that pages load."""

from fastapi import APIRouter, Request, Response
from starlette.staticfiles import StaticFiles

from app.pages.assets import FOLDER, PLACE, assets_version
from app.pages.rendering import CompressedFile

router = APIRouter(include_in_schema=False)

_FILES = StaticFiles(directory=FOLDER)
_FOR_A_YEAR = "public, max-age=31536000, immutable"


@router.get(PLACE + "/{version}/{name:path}")
async def get_file(version: str, name: str, request: Request) -> Response:
    """Return a style, script or picture. The address has a hash of all files, so browsers may keep it.

    A page of another release may still ask by its own hash: it gets the present file, to be checked next time.
    """
    response = await _FILES.get_response(name, request.scope)
    response.headers["Cache-Control"] = _FOR_A_YEAR if version == assets_version() else "no-cache"
    response.headers["X-Content-Type-Options"] = "nosniff"
    return CompressedFile(response)
