from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import TypeAdapter

from app.auth.service import Caller
from app.http.dependencies import ReadView, Transaction, require
from app.http.pagination import Cursor, Name, Page, PageSize, paginate, read_cursor
from app.http.problems import problem_responses
from app.models import changes as model_changes
from app.models import service as models
from app.models.changes import ModelChange, NewAlias, NewModel
from app.models.service import Alias, FoundModel, Model

router = APIRouter(prefix="/models", tags=["models"])

_Position = TypeAdapter(tuple[Name])
_Admin = Annotated[Caller, require("admin")]


@router.get("", dependencies=[require("read")], responses=problem_responses(401, 403, 422, 503))
def list_models(
    conn: ReadView,
    archived: Annotated[bool, Query(description="Whether the archived ones are listed too.")] = False,
    limit: PageSize = 50,
    cursor: Cursor = None,
) -> Page[Model]:
    """List models by name.

    Needs scope `read`. Problems: `not-authenticated`, `scope-missing`; `invalid` for an unknown cursor.
    """
    position = read_cursor(cursor, _Position)
    found = models.list_models(conn, limit=limit + 1, archived=archived, after=position and position[0])
    return paginate(found, limit, lambda last: (last.name,)).convert(FoundModel.public)


@router.post("", status_code=201, responses=problem_responses(401, 403, 409, 422, 503))
def post_model(body: NewModel, caller: _Admin, conn: Transaction) -> Model:
    """Add a model before any vote names it.

    Where unknown models are refused (`STABLE_ARENA_INGEST__UNKNOWN_MODELS`), this is how new ones come in. Needs scope
    `admin`. Problems: `not-authenticated`, `scope-missing`; `conflict` where the name is taken; `invalid`.
    """
    return model_changes.add_model(conn, body, added_by=caller.name).public()


# Names may hold slashes, as in meta-llama/Llama-3: `path` takes them, and the longer routes come first.
@router.post("/{name:path}/aliases", status_code=201, responses=problem_responses(401, 403, 404, 409, 422, 503))
def post_alias(name: str, body: NewAlias, caller: _Admin, conn: Transaction) -> Alias:
    """Give a model another name, for good or for a time.

    A vote that was cast within the dates (by its `voted_at`, else now) means the model by it; at any other time the
    name is an unknown one. Votes on record stay as they are. Needs scope `admin`. Problems: `not-authenticated`,
    `scope-missing`, `not-found`; `conflict` where the name is a model's own or an alias within the same dates;
    `invalid` for what is no name or no period.
    """
    return model_changes.add_alias(conn, name, body, added_by=caller.name)


@router.delete("/{name:path}/aliases/{alias_id}", status_code=204, responses=problem_responses(401, 403, 404, 422, 503))
def delete_alias(name: str, alias_id: UUID, caller: _Admin, conn: Transaction) -> None:
    """Take a name from a model.

    The votes that came in by it stay the model's. Needs scope `admin`. Problems: `not-authenticated`,
    `scope-missing`, `not-found`.
    """
    model_changes.remove_alias(conn, name, alias_id, removed_by=caller.name)


@router.patch("/{name:path}", responses=problem_responses(401, 403, 404, 409, 422, 503))
def patch_model(name: str, body: ModelChange, caller: _Admin, conn: Transaction) -> Model:
    """Change a model: its name, what is known of it, whether boards show it.

    What is left out stays; null forgets. A renamed model keeps its old name as an alias for good, so that votes may go
    on naming it. An archived one is left out of boards, whose ranks stay as published; its votes count all the same.
    Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`, `not-found`; `conflict` where the new name is
    taken; `invalid` for a link that is not http or https, or any other field that is not valid.
    """
    return model_changes.change_model(conn, name, body, changed_by=caller.name).public()
