"""How sure the order of a leaderboard is, as a snapshot stores it."""

from collections.abc import Mapping
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, insert, select

from app.database.tables import snapshot_confidence
from app.rating.arrays import Floats
from app.rating.settings import VerdictRule
from app.rating.verdict.order import Confidence, JointScores, Unscored

_ERRORS = np.dtype("<f2")  # to .05 % of each
_SHARES, _STEPS = np.dtype("<u2"), 65_535  # of probabilities


def insert_confidence(
    conn: Connection, snapshot_id: UUID, measured: Mapping[tuple[str, int], Confidence], model_ids: NDArray[np.int32]
) -> None:
    """Store how sure the order of each leaderboard is.

    `measured`: by tag, "" for the main leaderboard, and component.
    `model_ids`: of the models by their index.
    """
    rows = [
        {
            "snapshot_id": snapshot_id,
            "tag": tag,
            "component": component,
            "model_ids": model_ids[found.joint.models].tolist(),
            "scores": found.joint.score.tolist(),
            "freedom": found.joint.freedom.tolist(),
            "errors": _pack(found.joint.errors),
            "doubled": _pack(found.doubled),
            "within": np.rint(found.within * _STEPS).astype(_SHARES).tobytes(),
            "forecasts": found.forecasts.tolist(),
            "votes": round(found.votes),
            "unscored": found.unscored.number,
            "unscored_ceiling": found.unscored.ceiling,
            "provisional": found.unscored.provisional,
            "confidence": found.rule.confidence,
            "margin": found.rule.margin,
        }
        for (tag, component), found in measured.items()
    ]
    if rows:
        conn.execute(insert(snapshot_confidence), rows)


def find_confidence(conn: Connection, snapshot_id: UUID, tag: str = "", component: int = 0) -> Confidence | None:
    """Return how sure the order of a group is, its models as numbers; None where it is not kept."""
    statement = select(snapshot_confidence).filter_by(snapshot_id=snapshot_id, tag=tag, component=component)
    row = conn.execute(statement).mappings().one_or_none()
    if row is None:
        return None
    n = len(row["model_ids"])
    return Confidence(
        joint=JointScores(
            models=np.array(row["model_ids"], dtype=np.int64),
            score=np.array(row["scores"]),
            errors=_unpack(row["errors"], n),
            freedom=np.array(row["freedom"]),
        ),
        doubled=_unpack(row["doubled"], n),
        within=np.frombuffer(row["within"], dtype=_SHARES).reshape(n, -1) / _STEPS,
        forecasts=np.array(row["forecasts"]),
        votes=row["votes"],
        unscored=Unscored(row["unscored"], row["unscored_ceiling"], row["provisional"]),
        rule=VerdictRule(row["confidence"], row["margin"]),
    )


def list_orders(conn: Connection, snapshot_id: UUID, tag: str = "") -> list[JointScores]:
    """Return the scores of each group of a leaderboard; none where they are not kept."""
    statement = select(snapshot_confidence.c.component).filter_by(snapshot_id=snapshot_id, tag=tag)
    groups = conn.execute(statement.order_by(snapshot_confidence.c.component)).scalars().all()
    found = (find_confidence(conn, snapshot_id, tag, component) for component in groups)
    return [known.joint for known in found if known is not None]


def _pack(errors: Floats) -> bytes:
    return errors[np.triu_indices(len(errors), 1)].astype(_ERRORS).tobytes()


def _unpack(packed: bytes, n: int) -> Floats:
    errors = np.zeros((n, n))
    errors[np.triu_indices(n, 1)] = np.frombuffer(packed, dtype=_ERRORS)
    symmetric: Floats = errors + errors.T
    return symmetric
