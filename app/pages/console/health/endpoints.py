"""The health of the service in plain words, each part with its remedy."""

from typing import Annotated

from fastapi import Response

from app.api.dependencies import held
from app.monitoring.cache import FiguresCache
from app.monitoring.checks import check_service, database_is_away, what_became_of_votes
from app.pages.console.rendering import Reader, console_router

router = console_router("health")


@router.get("")
async def get_health(console: Reader, kept: Annotated[FiguresCache, held(FiguresCache)]) -> Response:
    """Show what is well and what is not; the page renews itself."""
    figures = await kept.read()
    return console.page(
        "health/page.html",
        checks=database_is_away() if figures is None else check_service(figures),
        votes=[] if figures is None else list(what_became_of_votes(figures)),
    )
