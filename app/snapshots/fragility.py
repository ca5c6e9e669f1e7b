"""How few changes of the votes change a snapshot's order: measured after its publication, and stored beside it."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, func, literal, select
from sqlalchemy.dialects.postgresql import JSONB, insert

from app.database.tables import snapshot_annotators, snapshot_fragility, snapshot_models, snapshots

_EMPTY: dict[str, None] = {}


def diagnostics_with_fragility() -> ColumnElement[Any]:
    """Return the column of a snapshot's diagnostics, with the fragility once it is there."""
    c = snapshot_fragility.c
    stored = (
        select(func.jsonb_build_object("fragility", c.pairs, "fragility_of_best", c.best))
        .where(c.snapshot_id == snapshots.c.id)
        .scalar_subquery()
    )
    both = snapshots.c.diagnostics.op("||", return_type=JSONB())(func.coalesce(stored, literal(_EMPTY, JSONB)))
    return both.label("diagnostics")


def find_unmeasured(conn: Connection) -> UUID | None:
    """Return the newest snapshot's id if its fragility is not stored; None if it is, or there is no snapshot."""
    newest = select(snapshots.c.id).order_by(snapshots.c.number.desc()).limit(1).scalar_subquery()
    waits = snapshots.c.diagnostics["fragility"] == literal(None, JSONB(none_as_null=False))
    stored = select(snapshot_fragility.c.snapshot_id).where(snapshot_fragility.c.snapshot_id == snapshots.c.id)
    statement = select(snapshots.c.id).where(snapshots.c.id == newest, waits, ~stored.exists())
    found: UUID | None = conn.execute(statement).scalar_one_or_none()
    return found


def list_counted_annotators(conn: Connection, snapshot_id: UUID) -> list[int]:
    """Return the annotators whose votes count in a snapshot: those outside the fit have a shadow ability at most."""
    c = snapshot_annotators.c
    return list(
        conn.execute(select(c.annotator_id).where(c.snapshot_id == snapshot_id, c.ability.is_not(None))).scalars()
    )


def list_ranked_models(conn: Connection, snapshot_id: UUID, method: str) -> list[int]:
    """Return the models with a rank on the leaderboard of all votes."""
    c = snapshot_models.c
    ranked = c.identified & ~c.provisional
    statement = select(c.model_id).where(c.snapshot_id == snapshot_id, c.method == method, c.tag == "", ranked)
    return list(conn.execute(statement).scalars())


def insert_fragility(
    conn: Connection, snapshot_id: UUID, pairs: Sequence[Mapping[str, Any]], best: Sequence[Mapping[str, Any]]
) -> None:
    """Store a snapshot's fragility, unless another process has."""
    values = {"snapshot_id": snapshot_id, "pairs": pairs, "best": best}
    conn.execute(insert(snapshot_fragility).on_conflict_do_nothing(), values)
