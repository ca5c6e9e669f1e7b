"""Refits: ask for one, watch it, cancel it, and accept what it would exclude."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import HTMLResponse

from app.api.dependencies import ReadView, Transaction
from app.api.sessions import signed_in
from app.api.texts import Reason
from app.auth.sessions.schemas import SignedIn
from app.pages.console.flash import Flash
from app.pages.console.refits.view import show_refit
from app.pages.console.rendering import redirect, render_console
from app.policy.service import current_policy
from app.refits.service import cancel_refit, find_refit, list_refits, request_refit

router = APIRouter(prefix="/console/refits", include_in_schema=False, default_response_class=HTMLResponse)

_SHOWN = 50
Reader = Annotated[SignedIn, signed_in("review:read")]
Admin = Annotated[SignedIn, signed_in("admin")]


@router.get("")
def get_refits(request: Request, visitor: Reader, conn: ReadView) -> Response:
    """List the latest refits."""
    found = [show_refit(refit) for refit in list_refits(conn, limit=_SHOWN)]
    settings = current_policy(conn).settings
    return render_console(
        request, visitor, "console/refits/page.html", refits=found, interval=settings.refit_interval_seconds
    )


@router.post("")
def post_refit(visitor: Admin, conn: Transaction) -> Response:
    """Ask for a refit and show it."""
    refit_id = request_refit(conn, trigger="request", requested_by=visitor.caller.name)
    return redirect(f"/console/refits/{refit_id}")


@router.post("/accept")
def post_accept(visitor: Admin, conn: Transaction, reason: Annotated[Reason, Form()]) -> Response:
    """Ask for a refit that publishes however many votes it excludes."""
    refit_id = request_refit(
        conn, trigger="request", requested_by=visitor.caller.name, accept_exclusions=True, reason=reason
    )
    return redirect(f"/console/refits/{refit_id}")


@router.get("/{refit_id}")
def get_refit(refit_id: UUID, request: Request, visitor: Reader, conn: ReadView) -> Response:
    """Show a refit; until it has ended, the browser asks for it again every second."""
    latest = list_refits(conn, limit=1)
    refit = show_refit(find_refit(conn, refit_id))
    is_latest = not latest or latest[0].id == refit_id
    return render_console(request, visitor, "console/refits/refit.html", refit=refit, is_latest=is_latest)


@router.post("/{refit_id}/cancel")
def post_cancel(refit_id: UUID, visitor: Admin, conn: Transaction) -> Response:
    """Cancel a refit."""
    cancel_refit(conn, refit_id)
    text = "The refit is being cancelled. The leaderboard stays as it is. To undo, ask for a refit again."
    return redirect(f"/console/refits/{refit_id}", visitor, Flash(text))
