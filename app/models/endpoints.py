from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import TypeAdapter

from app.api.dependencies import ReadView, Transaction, require
from app.api.pagination import Cursor, Name, Page, PageSize, paginate, read_single
from app.api.problems import problem_responses
from app.auth.callers import Caller
from app.models import merges
from app.models import service as models
from app.models.schemas import (
    Alias,
    Merge,
    Model,
    ModelChange,
    NewAlias,
    NewModel,
    NewVersion,
    Publication,
    Unmerge,
    Version,
)

router = APIRouter(prefix="/models", tags=["models"])

_Position = TypeAdapter(tuple[Name])
_Admin = Annotated[Caller, require("admin")]


@router.get("")
def list_models(
    caller: Annotated[Caller, require("read")],
    conn: ReadView,
    archived: Annotated[bool, Query(description="Whether to list archived models too.")] = False,
    limit: PageSize = 50,
    cursor: Cursor = None,
) -> Page[Model]:
    """List models by name.

    Unreleased ones only for a key with scope `review:read` too. Needs scope `read`. Problems: `not-authenticated`,
    `scope-missing`; `invalid` for an unknown cursor.
    """
    found = models.list_models(
        conn,
        limit=limit + 1,
        archived=archived,
        unreleased=caller.may("review:read"),
        after=read_single(cursor, _Position),
    )
    return paginate(found, limit, lambda last: (last.name,))


@router.post("", status_code=201, responses=problem_responses(409))
def post_model(body: NewModel, caller: _Admin, conn: Transaction) -> Model:
    """Add a model before any vote names it.

    A service that refuses unknown models (`STABLE_ARENA_INGEST__UNKNOWN_MODELS`) needs this for each new model, and so
    does a model that is to be `unreleased`. Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`;
    `conflict` where the name is taken, or the organization has as many unreleased models as the policy's
    `max_unreleased`; `invalid`.
    """
    return models.add_model(conn, body, added_by=caller.name)


# A name may hold slashes, as in meta-llama/Llama-3, so the parameter is a `path`, and the longer routes come first.
@router.post("/{name:path}/aliases", status_code=201, responses=problem_responses(404, 409))
def post_alias(name: str, body: NewAlias, caller: _Admin, conn: Transaction) -> Alias:
    """Give a model another name, for good or for a period.

    A vote in the period (by its `voted_at`, else by its arrival) may use the alias. Outside the period the name is
    unknown. Votes on record stay. Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`, `not-found`;
    `conflict` where the name is a model's own name, or an alias in part of the period; `invalid` for a name or period
    that is not valid.
    """
    return models.add_alias(conn, name, body, added_by=caller.name)


@router.delete("/{name:path}/aliases/{alias_id}", status_code=204, responses=problem_responses(404))
def delete_alias(name: str, alias_id: UUID, caller: _Admin, conn: Transaction) -> None:
    """Remove a model's alias.

    The votes that used it stay the model's. Needs scope `admin`. Problems: `not-authenticated`,
    `scope-missing`, `not-found`.
    """
    models.remove_alias(conn, name, alias_id, removed_by=caller.name)


@router.patch("/{name:path}", responses=problem_responses(404, 409))
def patch_model(name: str, body: ModelChange, caller: _Admin, conn: Transaction) -> Model:
    """Change a model: its name, what is known of it, whether leaderboards show it.

    A field that is left out stays; null clears it. A renamed model keeps its old name as an alias for good, so votes
    may still use it. The newest leaderboard and later ones hide an archived model; earlier ones show it as they were
    published, and its votes still count. Its `reason` stands on the page `/governance`. Needs scope `admin`. Problems:
    `not-authenticated`, `scope-missing`, `not-found`; `conflict` where the new name is taken; `invalid` for a link that
    is not http or https, or for another field that is not valid.
    """
    return models.change_model(conn, name, body, changed_by=caller.name)


@router.post("/{name:path}/publish", responses=problem_responses(404, 409))
def post_publication(name: str, body: Publication, caller: _Admin, conn: Transaction) -> Model:
    """Publish an unreleased model, under its codename or its real name.

    Leaderboards show it at once, and rank it from the next refit on. Its codename becomes an alias. Asking again
    changes nothing. Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`, `not-found`; `conflict` where
    the name is taken, or the model is published under another one; `invalid`.
    """
    return models.publish_model(conn, name, body, published_by=caller.name)


# A name may hold slashes, as in meta-llama/Llama-3, so the parameter is a `path`.
@router.post("/{name:path}/merge", responses=problem_responses(404, 409))
def post_merge(name: str, body: Merge, caller: _Admin, conn: Transaction) -> Model:
    """Let a model's votes count for another model: two spellings of one model.

    Votes on record and to come keep the name under which they were recorded. From the next refit on they count for the
    model `into`, or for the one that it is merged into; those between the two count for neither. Leaderboards and
    battles no longer show the model. Asking again changes nothing, and `unmerge` takes it back. Needs scope `admin`.
    Problems: `not-authenticated`, `scope-missing`, `not-found`; `conflict` where the model is merged into a third one,
    or the other model's votes count for this one; `invalid`.
    """
    return merges.merge_model(conn, name, body, merged_by=caller.name)


@router.post("/{name:path}/unmerge", responses=problem_responses(404))
def post_unmerge(name: str, body: Unmerge, caller: _Admin, conn: Transaction) -> Model:
    """Take a merge back: from the next refit on a model's votes count for itself again.

    A model that is not merged stays as it is. Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`,
    `not-found`, `invalid`.
    """
    return merges.unmerge_model(conn, name, reason=body.reason, unmerged_by=caller.name)


@router.post("/{name:path}/changed", responses=problem_responses(404, 409))
def post_changed(name: str, body: NewVersion, caller: _Admin, conn: Transaction) -> Version:
    """Say that a model changed at some time: the votes before it count for a model of their own.

    A vote is placed by its `voted_at`, else by its arrival. From the next refit on the votes before the time count for
    the model `NAME (before 2026-11-01)`, which battles do not show. Asking again changes nothing, and `unchanged` takes
    it back. Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`, `not-found`; `conflict` where that
    name is taken; `invalid`, also for a time in the future.
    """
    return merges.mark_changed(conn, name, body, marked_by=caller.name)


@router.post("/{name:path}/unchanged", responses=problem_responses(404))
def post_unchanged(name: str, body: NewVersion, caller: _Admin, conn: Transaction) -> Model:
    """Take back that a model changed at this time: from the next refit on the votes before it count for the model.

    A time that is not marked changes nothing. Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`,
    `not-found`, `invalid`.
    """
    return merges.unmark_changed(conn, name, body, unmarked_by=caller.name)
