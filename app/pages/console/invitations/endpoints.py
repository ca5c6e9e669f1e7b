"""Invitations: open voting to everyone or by links, see how many votes came by each, and revoke them."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

from fastapi import Form, Response
from pydantic import BaseModel, BeforeValidator, ValidationError
from sqlalchemy import Connection

from app.answers.queries import count_prompts
from app.api.dependencies import ReadView, Transaction
from app.errors import BadInputError, FieldError, validation_message
from app.invitations.schemas import NewInvitation
from app.invitations.service import add_invitation, list_invitations, revoke_invitation
from app.pages.console.rendering import Admin, Console, console_router

router = console_router("invitations")

LIFETIMES: dict[str, tuple[str, int | None]] = {
    "day": ("a day", 1),
    "week": ("a week", 7),
    "month": ("30 days", 30),
    "never": ("no end", None),
}
"""How long an invitation may be used: the words, and the days."""
_SHOWN = 200

OrNone = BeforeValidator(lambda value: value or None)


class InvitationForm(BaseModel):
    """What the form says of the invitation to make."""

    door: str = "link"
    annotator: Annotated[str | None, OrNone] = None
    category: Annotated[str | None, OrNone] = None
    max_votes: Annotated[str | None, OrNone] = None
    lifetime: str = "month"


@router.get("")
def get_invitations(console: Admin, conn: ReadView) -> Response:
    """List invitations, and show the form that makes one."""
    return _show(console, conn)


@router.post("")
def post_invitation(console: Admin, conn: Transaction, form: Annotated[InvitationForm, Form()]) -> Response:
    """Make an invitation, and show its link."""
    try:
        made = add_invitation(conn, _read(form), created_by=console.actor)
    except BadInputError as error:
        return _show(console, conn, form=form, problem=error, status=422)
    return _show(console, conn, made=made)


@router.post("/{invitation_id}/revoke")
def post_revoke(invitation_id: UUID, console: Admin, conn: Transaction) -> Response:
    """Revoke an invitation."""
    revoke_invitation(conn, invitation_id, revoked_by=console.actor)
    return console.go("/console/invitations", "The invitation is revoked. Its votes stay.")


def _read(form: InvitationForm) -> NewInvitation:
    days, everyone = LIFETIMES.get(form.lifetime, LIFETIMES["month"])[1], form.door == "everyone"
    values = {
        **form.model_dump(include={"category", "max_votes"}),
        "everyone": everyone,
        "annotator": None if everyone or form.annotator is None else form.annotator.strip(),
        "expires_at": None if days is None else (datetime.now(UTC) + timedelta(days=days)).isoformat(),
    }
    try:
        return NewInvitation.model_validate(values)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)
        errors = tuple(FieldError(f"/{one['loc'][0]}", validation_message(one)) for one in wrong)
        raise BadInputError("the invitation is not valid", errors) from None


def _show(console: Console, conn: Connection, *, status: int = 200, **shown: Any) -> Response:
    prompts = count_prompts(conn)
    usual = {"form": InvitationForm(), "problem": None, "made": None}
    return console.page(
        "invitations/page.html",
        status=status,
        invitations=list_invitations(conn, limit=_SHOWN),
        origin=str(console.request.base_url).rstrip("/"),
        prompts=sum(prompts.values()),
        categories={name: number for name, number in prompts.items() if name},
        lifetimes=LIFETIMES,
        **(usual | shown),
    )
