from typing import Annotated

from fastapi import APIRouter

from app.auth.callers import Caller
from app.http.dependencies import Transaction, require
from app.http.problems import problem_responses
from app.merges import service as merges
from app.merges.schemas import Merge, NewVersion, Unmerge
from app.models.schemas import Model, Version

router = APIRouter(prefix="/models", tags=["models"])

_Admin = Annotated[Caller, require("admin")]


# A name may hold slashes, as in meta-llama/Llama-3, so the parameter is a `path`.
@router.post("/{name:path}/merge", responses=problem_responses(401, 403, 404, 409, 422, 503))
def post_merge(name: str, body: Merge, caller: _Admin, conn: Transaction) -> Model:
    """Let a model's votes count for another model: two spellings of one model.

    Votes on record and to come keep the name under which they were recorded. From the next refit on they count for the
    model `into`, or for the one that it is merged into; those between the two count for neither. Leaderboards and
    battles no longer show the model. Asking again changes nothing, and `unmerge` takes it back. Needs scope `admin`.
    Problems: `not-authenticated`, `scope-missing`, `not-found`; `conflict` where the model is merged into a third one,
    or the other model's votes count for this one; `invalid`.
    """
    return merges.merge_model(conn, name, body, merged_by=caller.name).public()


@router.post("/{name:path}/unmerge", responses=problem_responses(401, 403, 404, 422, 503))
def post_unmerge(name: str, body: Unmerge, caller: _Admin, conn: Transaction) -> Model:
    """Take a merge back: from the next refit on a model's votes count for itself again.

    A model that is not merged stays as it is. Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`,
    `not-found`, `invalid`.
    """
    return merges.unmerge_model(conn, name, reason=body.reason, unmerged_by=caller.name).public()


@router.post("/{name:path}/changed", responses=problem_responses(401, 403, 404, 409, 422, 503))
def post_changed(name: str, body: NewVersion, caller: _Admin, conn: Transaction) -> Version:
    """Say that a model changed at some time: the votes before it count for a model of their own.

    A vote is placed by its `voted_at`, else by its arrival. From the next refit on the votes before the time count for
    the model `NAME (before 2026-11-01)`, which battles do not show. Asking again changes nothing, and `unchanged` takes
    it back. Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`, `not-found`; `conflict` where that
    name is taken; `invalid`, also for a time in the future.
    """
    return merges.mark_changed(conn, name, body, marked_by=caller.name)


@router.post("/{name:path}/unchanged", responses=problem_responses(401, 403, 404, 422, 503))
def post_unchanged(name: str, body: NewVersion, caller: _Admin, conn: Transaction) -> Model:
    """Take back that a model changed at this time: from the next refit on the votes before it count for the model.

    A time that is not marked changes nothing. Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`,
    `not-found`, `invalid`.
    """
    return merges.unmark_changed(conn, name, body, unmarked_by=caller.name).public()
