"""The policy: every setting in a form, the changes before they are saved, and the versions."""

from typing import Annotated, Any

from fastapi import Depends, Form, Path, Request, Response
from pydantic import BaseModel, Json
from sqlalchemy import Connection
from starlette.datastructures import ImmutableMultiDict

from app.api.dependencies import ReadView, Transaction, held
from app.api.texts import Reason
from app.errors import ConflictError
from app.pages.console.policy.fields import (
    GivenTexts,
    changed,
    describe_fields,
    differing,
    find_errors,
    preview_policy,
    read_form,
)
from app.pages.console.rendering import Admin, Console, console_router
from app.policy.changes import anchor_error, set_policy
from app.policy.schemas import Policy, PolicyVersion
from app.policy.service import current_policy, find_policy, list_policies, policy_before
from app.review.previews import PolicyPreviews

router = console_router("policy")

_SHOWN = 50


class Draft(BaseModel):
    """Settings to try out."""

    settings: Json[Policy]


class Change(Draft):
    """Settings to put in force, why, and the version on which they are based."""

    reason: Reason
    based_on: int


async def _whole_form(request: Request) -> GivenTexts:
    return _texts(await request.form())


def _texts(given: ImmutableMultiDict[str, Any]) -> GivenTexts:
    """Return what a form or a query has, by name; files are left out."""
    return {name: [value for value in given.getlist(name) if isinstance(value, str)] for name in given}


Version = Annotated[int, Path(ge=1, le=2**31 - 1)]
WholeForm = Annotated[GivenTexts, Depends(_whole_form)]


@router.get("")
def get_policy(console: Admin, conn: ReadView) -> Response:
    """Show the policy as a form. The query may name settings with other values, to begin with."""
    current = current_policy(conn)
    named, _ = read_form(_texts(console.request.query_params))
    moved = {name: named[name] for name in console.request.query_params if name in named}
    return _edit(console, current, {**current.settings.model_dump(), **moved}, list_policies(conn, limit=_SHOWN))


@router.post("/check")
def post_check(console: Admin, conn: ReadView, form: WholeForm) -> Response:
    """Show what the form would change, or what is wrong in it."""
    current = current_policy(conn)
    values, errors = read_form(form)
    settings = None if errors else Policy.model_validate(values)
    if settings is not None and (wrong := anchor_error(conn, settings)):
        errors = {"anchor": wrong}
    if settings is None or errors:
        return _edit(console, current, values, list_policies(conn, limit=_SHOWN), errors)
    return console.page(
        "policy/changes.html",
        version=current,
        settings=settings,
        changes=changed(current.settings, settings),
        descriptions={name: field.description for name, field in Policy.model_fields.items()},
    )


@router.post("")
def post_policy(console: Admin, conn: Transaction, form: Annotated[Change, Form()]) -> Response:
    """Put the settings in force as a new version."""
    current = current_policy(conn)
    if current.version != form.based_on:
        raise ConflictError(
            f"the policy was changed meanwhile: version {current.version} is in force. Look at it, then change it again"
        )
    return _put_in_force(conn, console, form.settings, form.reason, current)


# A plain function: FastAPI runs it in a thread, where it waits for the fit.
@router.post("/preview")
def post_preview(
    console: Admin, previews: Annotated[PolicyPreviews, held(PolicyPreviews)], form: Annotated[Draft, Form()]
) -> Response:
    """Fit the votes under the settings, publish nothing, and show what would change."""
    return console.page("policy/preview.html", **preview_policy(previews, form.settings))


@router.get("/versions/{version}")
def get_version(version: Version, console: Admin, conn: ReadView) -> Response:
    """Show a version: what it changed, and all of its settings."""
    found, current, before = find_policy(conn, version), current_policy(conn), policy_before(conn, version)
    return console.page(
        "policy/version.html",
        version=found,
        current=current,
        changes=changed(before.settings, found.settings) if before else [],
        to_current=changed(current.settings, found.settings),
        problems=find_errors(found.settings.model_dump()),
        groups=describe_fields(found.settings.model_dump()),
    )


@router.post("/versions/{version}/restore")
def post_restore(version: Version, console: Admin, conn: Transaction) -> Response:
    """Put the settings of an earlier version in force again, as a new version."""
    current, settings = current_policy(conn), find_policy(conn, version).settings
    if find_errors(settings.model_dump()):
        raise ConflictError("today's rules refuse this version: take its settings into the form one by one")
    return _put_in_force(conn, console, settings, f"back to version {version}", current)


def _put_in_force(conn: Connection, console: Console, settings: Policy, reason: str, before: PolicyVersion) -> Response:
    put = set_policy(conn, settings, reason=reason, created_by=console.actor)
    text = f"Version {put.version} of the policy is in force, from the next refit on."
    undo = f"/console/policy/versions/{before.version}/restore"
    return console.go("/console/policy", text, undo=undo)


def _edit(
    console: Console,
    current: PolicyVersion,
    values: dict[str, Any],
    versions: list[PolicyVersion],
    errors: dict[str, str] | None = None,
) -> Response:
    moved, groups = differing(current.settings, values), describe_fields(values, errors)
    return console.page(
        "policy/page.html",
        status=422 if errors else 200,
        current=current,
        moved=moved,
        groups=groups,
        more_open=any(field.error or field.name in moved for _, fields in groups[1:] for field in fields),
        errors=errors or {},
        versions=versions,
    )
