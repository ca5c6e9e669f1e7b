"""The console's sessions: where the key is signed in, and a button that ends each."""

from uuid import UUID

from fastapi import Response

from app.api.dependencies import ReadView, Transaction
from app.auth.sessions.service import end_session, list_sessions
from app.pages.console.rendering import Anyone, console_router

router = console_router("sessions")


@router.get("")
def get_sessions(console: Anyone, conn: ReadView) -> Response:
    """List the sessions of the console's key; an admin sees all."""
    return console.page("sessions/page.html", sessions=list_sessions(conn, console.visitor.caller))


@router.post("/{session_id}/end")
def post_end(session_id: UUID, console: Anyone, conn: Transaction) -> Response:
    """End a session."""
    end_session(conn, session_id, console.visitor.caller)
    return console.go("/console/sessions", "The session has ended. Its browser has to sign in again.")
