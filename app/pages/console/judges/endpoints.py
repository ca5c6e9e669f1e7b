"""Which judge to trust: the judges beside the people."""

from fastapi import Response

from app.api.dependencies import ReadView
from app.pages.console.rendering import Reader, console_router
from app.review.judges import read_judges_compared

router = console_router("judges")


@router.get("")
def get_judges(console: Reader, conn: ReadView) -> Response:
    """Show how well each judge follows the people."""
    return console.page("judges/page.html", found=read_judges_compared(conn))
