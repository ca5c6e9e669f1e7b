"""Which judge to trust: the judges beside the people."""

from fastapi import Response

from app.api.dependencies import ReadView
from app.pages.console.rendering import Reader, console_router
from app.pages.plots import draw_curves, draw_intervals
from app.review.judges import read_judges_compared

router = console_router("judges")


@router.get("")
def get_judges(console: Reader, conn: ReadView) -> Response:
    """Show how well each judge follows the people."""
    found = read_judges_compared(conn)
    rows = [(one.annotator, one.ability, one.ability_lower, one.ability_upper) for one in found.judges]
    curve = found.sharpened.curve if found.sharpened else []
    widths: dict[str, list[float | None]] = {
        "people alone": [one.people for one in curve],
        "people and judges": [one.sharpened for one in curve],
    }
    return console.page(
        "judges/page.html", found=found, plot=draw_intervals(rows, (0.0, 1.0)), widths=draw_curves(widths)
    )
