from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection

from app.annotators.queries import lock_annotator
from app.annotators.service import find_annotator
from app.errors import ConflictError
from app.review import queries as store
from app.review.schemas import Appeal

MAX_OPEN = 5


def submit_appeal(conn: Connection, reference: str, note: str, *, submitted_by: str) -> Appeal:
    """Record an annotator's note for the reviewers. The next decision on the annotator answers it.

    Raises
    ------
    NotFoundError
        There is no such annotator.
    ConflictError
        Five appeals of this annotator already wait.
    """
    found = find_annotator(conn, reference)
    lock_annotator(conn, found.annotator_id)
    if store.count_open(conn, found.annotator_id) >= MAX_OPEN:
        raise ConflictError(f"{MAX_OPEN} appeals of this annotator already wait for a decision")
    appeal_id = store.insert_appeal(conn, found.annotator_id, note, submitted_by)
    return Appeal.model_validate(dict(store.get_appeal(conn, appeal_id)))


def list_appeals(
    conn: Connection,
    *,
    limit: int,
    only_open: bool = True,
    annotator: str | None = None,
    after: tuple[datetime, UUID] | None = None,
) -> list[Appeal]:
    """Return appeals, the longest waiting first, of all annotators or of one; `after` is (submitted_at, id).

    Raises
    ------
    NotFoundError
        There is no such annotator.
    """
    number = None if annotator is None else find_annotator(conn, annotator).annotator_id
    rows = store.list_appeals(conn, limit=limit, only_open=only_open, annotator_id=number, after=after)
    return [Appeal.model_validate(dict(row)) for row in rows]
