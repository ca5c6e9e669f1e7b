"""What rewards are computed from: who was in a snapshot's fit, how able, with how many counted votes."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, RowMapping, select

from app.database.tables import annotators, snapshot_annotators


def read_earners(conn: Connection, snapshot_id: UUID) -> Sequence[RowMapping]:
    """Return `id, annotator, ability, votes` of everyone whose votes shaped the board with a positive ability.

    In the order of the annotators' numbers, the same in every run.
    """
    c = snapshot_annotators.c
    statement = (
        select(annotators.c.public_id.label("id"), annotators.c.key.label("annotator"), c.ability, c.votes)
        .join_from(snapshot_annotators, annotators)
        .where(c.snapshot_id == snapshot_id, c.ability > 0, c.standing != "excluded")
        .order_by(annotators.c.id)
    )
    return conn.execute(statement).mappings().all()
