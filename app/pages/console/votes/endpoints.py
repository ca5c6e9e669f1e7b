"""The votes on a pair of models."""

from typing import Annotated
from uuid import UUID

from fastapi import Query, Response

from app.api.dependencies import ReadView
from app.models.service import find_contestant
from app.pages.console.rendering import Reader, console_router
from app.review.queries import list_votes_on

router = console_router("votes")

_SHOWN = 100
_Name = Annotated[str, Query(max_length=500)]


@router.get("")
def get_votes(console: Reader, conn: ReadView, a: _Name, b: _Name, before: UUID | None = None) -> Response:
    """List the votes that count for these two models, the one recorded last first."""
    first, second = find_contestant(conn, a), find_contestant(conn, b)
    found = list_votes_on(conn, first.model_id, second.model_id, limit=_SHOWN + 1, before=before)
    shown = found[:_SHOWN]
    return console.page(
        "votes/page.html",
        pair=(first.name, second.name),
        votes=shown,
        older={"a": first.name, "b": second.name, "before": shown[-1]["id"]} if len(found) > _SHOWN else None,
    )
