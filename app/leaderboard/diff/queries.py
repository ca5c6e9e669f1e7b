"""Changes of annotators' standings between two snapshots."""

from uuid import UUID

from sqlalchemy import Connection, RowMapping, func, select

from app.database.tables import snapshot_annotators

_OUT = ("pending", "excluded")


def count_annotator_changes(conn: Connection, before: UUID, after: UUID) -> RowMapping:
    """Count the annotators whose standing differs between two snapshots.

    `entered`: count now, and were absent, pending or excluded before. `newly_excluded`, and their votes as
    `newly_excluded_votes`. `newly_flagged`. `cleared`: neither flagged nor excluded any more.
    """
    old = select(snapshot_annotators).where(snapshot_annotators.c.snapshot_id == before).subquery("old")
    new = select(snapshot_annotators).where(snapshot_annotators.c.snapshot_id == after).subquery("new")
    was, now = func.coalesce(old.c.standing, "pending"), func.coalesce(new.c.standing, "pending")
    excluded = (was != "excluded") & (now == "excluded")
    statement = select(
        func.count().filter(was.in_(_OUT) & now.not_in(_OUT)).label("entered"),
        func.count().filter(excluded).label("newly_excluded"),
        func.coalesce(func.sum(new.c.votes).filter(excluded), 0).label("newly_excluded_votes"),
        func.count().filter((was != "flagged") & (now == "flagged")).label("newly_flagged"),
        func.count().filter((was == "flagged") & now.not_in(("flagged", "excluded"))).label("cleared"),
    ).select_from(old.join(new, old.c.annotator_id == new.c.annotator_id, full=True))
    return conn.execute(statement).mappings().one()
