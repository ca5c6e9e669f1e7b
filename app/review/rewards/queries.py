"""The annotators of a snapshot that earn a reward."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, RowMapping, select

from app.database.tables import annotators, snapshot_annotators


def read_earners(conn: Connection, snapshot_id: UUID) -> Sequence[RowMapping]:
    """Return `id, annotator, ability, votes` of the annotators in the fit with a positive ability.

    The order is that of the annotators' numbers, the same in every run.
    """
    c = snapshot_annotators.c
    statement = (
        select(annotators.c.public_id.label("id"), annotators.c.key.label("annotator"), c.ability, c.votes)
        .join_from(snapshot_annotators, annotators, annotators.c.id == c.annotator_id)
        .where(c.snapshot_id == snapshot_id, c.ability > 0, c.standing != "excluded")
        .order_by(annotators.c.id)
    )
    return conn.execute(statement).mappings().all()
