from collections.abc import Sequence

from sqlalchemy import Connection, RowMapping, select, true

from app.database.tables import appeals, decisions


def list_own_appeals(conn: Connection, annotator_id: int, *, limit: int) -> Sequence[RowMapping]:
    """Return the annotator's appeals, the newest first, each with the first decision after it."""
    c = decisions.c
    answer = (
        select(c.action.label("outcome"), c.decided_at)
        .where(c.annotator_id == appeals.c.annotator_id, c.decided_at > appeals.c.submitted_at)
        .order_by(c.decided_at)
        .limit(1)
        .lateral()
    )
    statement = (
        select(
            appeals.c.id, appeals.c.note, appeals.c.submitted_at, answer.c.outcome, answer.c.decided_at,
            answer.c.outcome.is_(None).label("open"),
        )
        .select_from(appeals.outerjoin(answer, true()))
        .where(appeals.c.annotator_id == annotator_id)
        .order_by(appeals.c.submitted_at.desc(), appeals.c.id.desc())
        .limit(limit)
    )  # fmt: skip
    return conn.execute(statement).mappings().all()
