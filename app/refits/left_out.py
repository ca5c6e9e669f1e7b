from collections.abc import Iterable

import structlog

from app.rating.uncertainty.results import RatingNotice
from app.refits.fit.parts import PartNotice

log = structlog.get_logger()


def log_left_out(notices: Iterable[RatingNotice]) -> None:
    """Log the parts that are left out, with the traceback: where the service runs, not in the child that fits."""
    for notice in notices:
        if isinstance(notice, PartNotice):
            log.error("part_left_out", part=notice.part, detail=notice.detail, exception=notice.trace)
