"""Refits: ask for one, watch it, cancel it, and accept what it would exclude."""

from typing import Annotated
from uuid import UUID

from fastapi import Form, Response

from app.api.dependencies import ReadView, Transaction
from app.api.texts import Reason
from app.pages.console.rendering import Admin, Reader, Tone, console_router, redirect
from app.policy.service import current_policy
from app.refits.schemas import RefitState
from app.refits.service import cancel_refit, find_refit, list_refits, request_refit

router = console_router("refits")

_SHOWN = 50


@router.get("")
def get_refits(console: Reader, conn: ReadView) -> Response:
    """List the latest refits."""
    interval = current_policy(conn).settings.refit_interval_seconds
    refits = list_refits(conn, limit=_SHOWN)
    return console.page("refits/page.html", refits=refits, states=_STATES, triggers=TRIGGERS, interval=interval)


@router.post("")
def post_refit(console: Admin, conn: Transaction) -> Response:
    """Ask for a refit and show it."""
    refit_id = request_refit(conn, trigger="request", requested_by=console.actor)
    return redirect(f"/console/refits/{refit_id}")


@router.post("/accept")
def post_accept(console: Admin, conn: Transaction, reason: Annotated[Reason, Form()]) -> Response:
    """Ask for a refit that publishes however many votes it excludes."""
    refit_id = request_refit(conn, trigger="request", requested_by=console.actor, accept_exclusions=True, reason=reason)
    return redirect(f"/console/refits/{refit_id}")


@router.get("/{refit_id}")
def get_refit(refit_id: UUID, console: Reader, conn: ReadView) -> Response:
    """Show a refit; until it has ended, the browser asks for it again every second."""
    refit = find_refit(conn, refit_id)
    is_latest = list_refits(conn, limit=1)[0].id == refit_id
    return console.page("refits/refit.html", one=refit, is_latest=is_latest, states=_STATES, triggers=TRIGGERS)


@router.post("/{refit_id}/cancel")
def post_cancel(refit_id: UUID, console: Admin, conn: Transaction) -> Response:
    """Cancel a refit."""
    cancel_refit(conn, refit_id)
    text = "The refit is being cancelled. The leaderboard stays as it is. To undo, ask for a refit again."
    return console.go(f"/console/refits/{refit_id}", text)


_STATES: dict[RefitState, tuple[str, Tone, str]] = {
    "queued": ("waiting", "accent", "A worker takes it in a moment."),
    "reading": ("reading", "accent", "The worker reads the votes."),
    "fitting": ("fitting", "accent", "The worker estimates scores and abilities."),
    "publishing": ("publishing", "accent", "The worker writes the new leaderboard."),
    "done": ("published", "good", "The leaderboard shows its scores."),
    "failed": ("failed", "bad", "The leaderboard stays as it was. The reason is below; mend it, then ask again."),
    "superseded": ("taken over", "", "Another worker took over. The leaderboard shows that worker's refit."),
    "needs_review": ("waits for you", "warn", "It published nothing. Look at what it found, then accept or change."),
    "cancelled": ("cancelled", "", "The leaderboard stays as it was."),
}
TRIGGERS = {
    "schedule": "by the schedule",
    "import": "because an import ended",
    "votes": "because of new votes",
    "request": "by request",
    "command": "from the command line",
}
