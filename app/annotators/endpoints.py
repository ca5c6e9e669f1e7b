from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import TypeAdapter

from app.annotators import erasure
from app.annotators import service as annotators
from app.annotators.schemas import (
    Annotator,
    AnnotatorChange,
    DecisionRequest,
    DecisionTaken,
    Erasure,
    ErasureRequest,
    PastEvidence,
)
from app.api.dependencies import HeldDatabase, ReadView, Transaction, held, require
from app.api.pagination import Cursor, Number, Page, PageSize, paginate, read_cursor, read_single
from app.api.problems import problem_responses
from app.auth.callers import Caller
from app.naming.known_names import KnownNames
from app.rating.settings import Standing

router = APIRouter(tags=["annotators"], dependencies=[require("review:read")])

_Position = TypeAdapter(tuple[float, Number])
_HistoryPosition = TypeAdapter(tuple[Number])


@router.get("/annotators")
def list_annotators(
    conn: ReadView,
    standing: Standing | None = None,
    annotator: Annotated[str | None, Query(description="Only the annotator with this key.")] = None,
    limit: PageSize = 50,
    cursor: Cursor = None,
) -> Page[Annotator]:
    """List annotators with their figures in the newest snapshot, the lowest ability first.

    Needs scope `review:read`. Problems: `not-authenticated`, `scope-missing`; `invalid` for an unknown standing or
    cursor.
    """
    after = read_cursor(cursor, _Position)
    found = annotators.list_annotators(conn, limit=limit + 1, standing=standing, key=annotator, after=after)
    return paginate(found, limit, lambda last: last.position)


# A key may hold slashes, so the parameter is a `path`. `app.routes` installs `GET /annotators/{annotator}`, which would
# match all of these too, after them.
@router.get("/annotators/{annotator:path}/history", responses=problem_responses(404))
def list_history(annotator: str, conn: ReadView, limit: PageSize = 50, cursor: Cursor = None) -> Page[PastEvidence]:
    """List an annotator's figures in past snapshots, the newest first.

    Needs scope `review:read`. Problems: `not-authenticated`, `scope-missing`, `not-found`; `invalid` for an unknown
    cursor.
    """
    found = annotators.find_annotator(conn, annotator)
    items = annotators.list_history(conn, found, limit=limit + 1, before=read_single(cursor, _HistoryPosition))
    return paginate(items, limit, lambda last: (last.number,))


@router.post("/annotators/{annotator:path}/decisions", status_code=201, responses=problem_responses(404, 409))
def post_decision(
    annotator: str, decision: DecisionRequest, caller: Annotated[Caller, require("review")], conn: Transaction
) -> DecisionTaken:
    """Decide on an annotator, by id or by key.

    `exclude` leaves the votes out. `reinstate` counts them whatever the rule says. `trust` counts them and the
    annotator is never flagged. `dismiss` closes an open flag until the evidence is materially worse. `withdraw` gives
    the annotator back to the rule. The next refit is the first to use the decision. Decisions stay on record for ever;
    posting twice records two. Needs scope `review`. Problems: `not-authenticated`, `scope-missing`, `not-found`;
    `conflict` where there is no flag to dismiss or nothing to withdraw; `invalid` for an unknown action or a blank
    reason.
    """
    found, taken = annotators.decide(conn, annotator, decision.action, reason=decision.reason, decided_by=caller.name)
    return DecisionTaken(**taken.model_dump(), annotator=found)


@router.patch("/annotators/{annotator:path}", responses=problem_responses(404))
def change_annotator(
    annotator: str, change: AnnotatorChange, caller: Annotated[Caller, require("review")], conn: Transaction
) -> Annotator:
    """Say whether an annotator, by id or by key, is a person or a judge, whatever votes said.

    Where both vote, the leaderboard is of people, and judges are rated against it (`leaderboard_of` of the policy). The
    next refit is the first to know. Needs scope `review`. Problems: `not-authenticated`, `scope-missing`, `not-found`;
    `invalid` for another kind.
    """
    return annotators.set_kind(conn, annotator, change.kind, changed_by=caller.name)


@router.post("/annotators/{annotator:path}/erase", responses=problem_responses(404))
def erase_annotator(
    annotator: str,
    body: ErasureRequest,
    caller: Annotated[Caller, require("admin")],
    database: HeldDatabase,
    names: Annotated[KnownNames, held(KnownNames)],
) -> Erasure:
    """Cut the link between an annotator's votes and the person, for good.

    Name the annotator by id or by key. A random key replaces the key. The votes' metadata, the annotator's notes and
    every other place that could name the person are cleared. Votes and scores stay as they are. Later votes under the
    old key belong to a new annotator (replicas may know the old key 5 seconds longer). Erasing again clears what came
    in meanwhile. Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`, `not-found`; `invalid` for a
    reason that is blank or has the annotator's key.
    """
    with database.begin() as conn:
        erased = erasure.erase_annotator(conn, annotator, reason=body.reason, erased_by=caller.name)
    names.forget()  # after the commit: before it, a look-up would remember the old key again
    return erased
