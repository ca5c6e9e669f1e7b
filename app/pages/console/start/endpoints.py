"""The first page of the console where no vote is on record: three ways to get some."""

from fastapi import Response

from app.answers.queries import count_prompts
from app.api.dependencies import ReadView
from app.pages.console.rendering import Admin, console_router

router = console_router("start")


@router.get("")
def get_start(console: Admin, conn: ReadView) -> Response:
    """Offer to import a file, to open voting, and to connect a frontend."""
    return console.page("start/page.html", prompts=bool(count_prompts(conn)))
