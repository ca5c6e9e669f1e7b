"""The API's description as Swagger UI."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from app.pages.rendering import render
from app.pages.security import ContentPolicy

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

# The only page whose styles may be inline: Swagger UI sets styles on its elements.
_POLICY = ContentPolicy(style_src="'self' 'unsafe-inline'", form_action="'none'")


@router.get("/docs")
def get_docs(request: Request) -> Response:
    """Show every endpoint of the API, to read and to try."""
    return render(request, "swagger/page.html", policy=_POLICY)
