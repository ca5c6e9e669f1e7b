"""The visitor's sessions: where the key is signed in, and a button that ends each."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from app.api.dependencies import ReadView, Transaction
from app.api.sessions import signed_in
from app.auth.sessions.schemas import SignedIn
from app.auth.sessions.service import end_session, list_sessions
from app.pages.console.flash import Flash
from app.pages.console.rendering import redirect, render_console

router = APIRouter(prefix="/console/sessions", include_in_schema=False, default_response_class=HTMLResponse)


@router.get("")
def get_sessions(request: Request, visitor: Annotated[SignedIn, signed_in()], conn: ReadView) -> Response:
    """List the sessions of the visitor's key; an admin sees all."""
    return render_console(request, visitor, "console/sessions/page.html", sessions=list_sessions(conn, visitor.caller))


@router.post("/{session_id}/end")
def post_end(session_id: UUID, visitor: Annotated[SignedIn, signed_in()], conn: Transaction) -> Response:
    """End a session."""
    end_session(conn, session_id, visitor.caller)
    return redirect("/console/sessions", visitor, Flash("The session has ended. Its browser has to sign in again."))
