"""What old snapshots let go of: crowds, matchups, boards by tag; never the boards of all votes, never a change told."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from sqlalchemy import Connection, delete, func, select, text, update

from app.database.tables import snapshot_matchups, snapshot_models, snapshots

# The last snapshot of a day is the one whose successor belongs to another day; the newest has no successor.
_PRUNABLE = text(
    """
    SELECT id
    FROM (
        SELECT id, number, published_at, crowd_pruned_at, lead(published_at) OVER (ORDER BY number) AS next_at
        FROM snapshots
    ) AS followed
    WHERE crowd_pruned_at IS NULL
        AND next_at IS NOT NULL
        AND published_at < clock_timestamp() - :whole
        AND date_trunc('month', published_at, 'UTC') = date_trunc('month', next_at, 'UTC')
        AND (
            published_at < clock_timestamp() - :daily
            OR date_trunc('day', published_at, 'UTC') = date_trunc('day', next_at, 'UTC')
        )
    ORDER BY number
    LIMIT :most
    """
)

# A row stays where the annotator's standing differs from that in the snapshot before or after, as far as those still
# have a row: one that was let go of said the same as its neighbour. And where a decision was taken on it.
_DELETE_PIECE = text(
    """
    DELETE FROM snapshot_annotators AS own
    WHERE own.snapshot_id = :snapshot AND own.annotator_id > :after AND own.annotator_id <= :last
        AND NOT EXISTS (
            SELECT FROM snapshot_annotators AS near
            WHERE near.snapshot_id IN (:before_it, :after_it) AND near.annotator_id = own.annotator_id
                AND near.standing <> own.standing
        )
        AND NOT EXISTS (
            SELECT FROM decisions AS decided
            WHERE decided.annotator_id = own.annotator_id AND decided.snapshot_id = own.snapshot_id
        )
    """
)

_END_OF_PIECE = text(
    """
    SELECT max(annotator_id)
    FROM (
        SELECT annotator_id FROM snapshot_annotators
        WHERE snapshot_id = :snapshot AND annotator_id > :after
        ORDER BY annotator_id
        LIMIT :rows
    ) AS piece
    """
)


def list_prunable(conn: Connection, *, whole: timedelta, daily: timedelta, at_most: int) -> Sequence[UUID]:
    """Return snapshots to be pruned, the oldest first.

    Kept whole are those of the time `whole`; the last of each day (UTC) of the time `daily`; the last of each month;
    and the newest.
    """
    return conn.execute(_PRUNABLE, {"whole": whole, "daily": daily, "most": at_most}).scalars().all()


def last_pruned(conn: Connection) -> UUID | None:
    """Return the snapshot whose pruning began last, which may have been cut short."""
    statement = select(snapshots.c.id).where(snapshots.c.crowd_pruned_at.is_not(None))
    return conn.execute(statement.order_by(snapshots.c.crowd_pruned_at.desc()).limit(1)).scalar_one_or_none()


def begin_pruning(conn: Connection, snapshot_id: UUID) -> None:
    """Say of a snapshot that it is not whole any more, and delete its matchups and its boards by tag."""
    here = snapshots.c.id == snapshot_id
    conn.execute(
        update(snapshots)
        .where(here, snapshots.c.crowd_pruned_at.is_(None))
        .values(crowd_pruned_at=func.clock_timestamp())
    )
    conn.execute(delete(snapshot_matchups).where(snapshot_matchups.c.snapshot_id == snapshot_id))
    of_tag = snapshot_models.c.tag != ""
    conn.execute(delete(snapshot_models).where(snapshot_models.c.snapshot_id == snapshot_id, of_tag))


def neighbours(conn: Connection, snapshot_id: UUID) -> tuple[UUID | None, UUID | None]:
    """Return the snapshots published right before and right after this one."""
    number = select(snapshots.c.number).where(snapshots.c.id == snapshot_id).scalar_subquery()
    earlier = select(snapshots.c.id).where(snapshots.c.number < number).order_by(snapshots.c.number.desc()).limit(1)
    later = select(snapshots.c.id).where(snapshots.c.number > number).order_by(snapshots.c.number).limit(1)
    return conn.execute(earlier).scalar_one_or_none(), conn.execute(later).scalar_one_or_none()


def prune_piece(
    conn: Connection, snapshot_id: UUID, near: tuple[UUID | None, UUID | None], *, after: int, rows: int
) -> int | None:
    """Go through the next rows of a snapshot's annotators, those with ids above `after`, and delete what need not stay.

    Returns the last id gone through, None where there were no more.
    """
    last: int | None = conn.execute(
        _END_OF_PIECE, {"snapshot": snapshot_id, "after": after, "rows": rows}
    ).scalar_one_or_none()
    if last is not None:
        piece = {"snapshot": snapshot_id, "after": after, "last": last, "before_it": near[0], "after_it": near[1]}
        conn.execute(_DELETE_PIECE, piece)
    return last
