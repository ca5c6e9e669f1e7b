"""The distribution of abilities and of votes, with ε and δ drawn in; and what moving them would do."""

from threading import Lock
from typing import Annotated
from uuid import UUID

from cachetools import LRUCache, cached
from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field
from sqlalchemy import Connection

from app.annotators.queries import count_beyond
from app.api.dependencies import HeldDatabase, ReadView, held
from app.api.sessions import signed_in
from app.auth.sessions.schemas import SignedIn
from app.leaderboard.charts import count_abilities, count_vote_totals
from app.pages.console.abilities.drawing import Bins, draw_abilities, draw_votes
from app.pages.console.policy.preview import TEMPLATE, preview_policy
from app.pages.console.rendering import render_console
from app.policy.schemas import Policy
from app.policy.service import current_policy
from app.review.previews import PolicyPreviews
from app.snapshots.queries import newest_snapshot

router = APIRouter(prefix="/console/abilities", include_in_schema=False, default_response_class=HTMLResponse)


class Thresholds(BaseModel):
    """Where ε and δ stand; None where the policy has them."""

    min_ability: float | None = Field(None, ge=-100, le=100, allow_inf_nan=False)
    min_votes: int | None = Field(None, ge=0, le=10**9)

    def within(self, policy: Policy) -> Policy:
        """Return the policy with these thresholds."""
        moved = {name: value for name, value in self.model_dump().items() if value is not None}
        return policy.model_copy(update=moved)


@router.get("")
def get_abilities(
    request: Request,
    visitor: Annotated[SignedIn, signed_in("review:read")],
    conn: ReadView,
    moved: Annotated[Thresholds, Query()],
) -> Response:
    """Show how many annotators have which ability and how many votes."""
    current, snapshot = current_policy(conn).settings, newest_snapshot(conn)
    if snapshot is None:
        return render_console(request, visitor, "console/abilities/empty.html", min_votes=current.min_votes)
    chosen = moved.within(current)
    abilities, votes = _count_bins(conn, snapshot["id"])
    return render_console(
        request,
        visitor,
        "console/abilities/page.html",
        snapshot=snapshot,
        current=current,
        chosen=chosen,
        moved=chosen != current,
        abilities=draw_abilities(abilities, chosen.min_ability),
        votes=draw_votes(votes, chosen.min_votes),
        counts=count_beyond(conn, snapshot["id"], ability=chosen.min_ability, votes=chosen.min_votes),
    )


# A snapshot never changes, and with 100,000 annotators counting takes longer than the rest of the page.
@cached(LRUCache(8), key=lambda _, snapshot_id: snapshot_id, lock=Lock())
def _count_bins(conn: Connection, snapshot_id: UUID) -> tuple[Bins, Bins]:
    """Count a snapshot's annotators by ability, and by their number of votes."""
    abilities, votes = count_abilities(conn, snapshot_id), count_vote_totals(conn, snapshot_id)
    return [dict(row) for row in abilities], [dict(row) for row in votes]


# A plain function: FastAPI runs it in a thread, where it waits for the fit.
@router.post("/preview")
def post_preview(
    request: Request,
    visitor: Annotated[SignedIn, signed_in("admin")],
    database: HeldDatabase,
    previews: Annotated[PolicyPreviews, held(PolicyPreviews)],
    moved: Annotated[Thresholds, Form()],
) -> Response:
    """Fit the votes with these thresholds, publish nothing, and show what would change."""
    with database.read() as conn:
        settings = moved.within(current_policy(conn).settings)
    return render_console(request, visitor, TEMPLATE, **preview_policy(previews, settings))
