"""The audit log: who did what, found by action, actor and subject; and the check that no entry was changed."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from app.api.dependencies import ReadView
from app.api.pagination import BigNumber, Name
from app.api.sessions import signed_in
from app.audit.service import TamperedAuditLogError, list_entries, verify_log
from app.auth.sessions.schemas import SignedIn
from app.pages.console.audit.view import ACTIONS, show_entry
from app.pages.console.rendering import render_console
from app.snapshots.queries import list_audit_heads

router = APIRouter(prefix="/console/audit", include_in_schema=False, default_response_class=HTMLResponse)

_SHOWN = 50
Reader = Annotated[SignedIn, signed_in("review:read")]


@router.get("")
def get_audit(
    request: Request,
    visitor: Reader,
    conn: ReadView,
    action: Name = "",
    actor: Name = "",
    subject: Name = "",
    before: Annotated[BigNumber | None, Query()] = None,
) -> Response:
    """List entries, the newest first."""
    chosen = {"action": action.strip(), "actor": actor.strip(), "subject": subject.strip()}
    found = list_entries(conn, limit=_SHOWN + 1, before=before, **{name: text or None for name, text in chosen.items()})
    return render_console(
        request,
        visitor,
        "console/audit/page.html",
        entries=[show_entry(entry) for entry in found[:_SHOWN]],
        next_before=found[_SHOWN - 1].number if len(found) > _SHOWN else None,
        actions=ACTIONS,
        chosen=chosen,
        before=before,
    )


@router.get("/verify")
def get_verify(request: Request, visitor: Reader, conn: ReadView) -> Response:
    """Check every entry's hash, and that the log holds the hashes that snapshots carry."""
    noted = {f"snapshot {number}": head for number, head in list_audit_heads(conn)}
    found, problem = None, None
    try:
        found = verify_log(conn, noted)
    except TamperedAuditLogError as error:
        problem = error.detail
    return render_console(
        request, visitor, "console/audit/verify.html", found=found, problem=problem, snapshots=len(noted)
    )
