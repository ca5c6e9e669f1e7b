"""Tables of pair weights, as a snapshot stores them."""

from collections.abc import Mapping
from uuid import UUID

import numpy as np
from sqlalchemy import Connection, insert, select

from app.database.tables import snapshot_pair_weights
from app.rating.sampling.pair_weights import PairWeights

_STORED = np.dtype("<f2")


def insert_pair_weights(conn: Connection, snapshot_id: UUID, tables: Mapping[str, PairWeights]) -> None:
    """Store tables of pair weights by tag."""
    rows = [
        {
            "snapshot_id": snapshot_id,
            "tag": tag,
            "model_ids": table.models.tolist(),
            "scores": table.R.tolist(),
            "weights": table.weight.astype(_STORED).tobytes(),
        }
        for tag, table in tables.items()
    ]
    if rows:
        conn.execute(insert(snapshot_pair_weights), rows)


def find_pair_weights(conn: Connection, snapshot_id: UUID) -> dict[str, PairWeights]:
    """Return a snapshot's tables by tag, "" for battles without a tag; none where they are left out."""
    statement = select(snapshot_pair_weights).where(snapshot_pair_weights.c.snapshot_id == snapshot_id)
    return {
        row.tag: PairWeights(
            np.array(row.model_ids, dtype=np.int64),
            np.frombuffer(row.weights, dtype=_STORED).astype(np.float16),
            np.array(row.scores, dtype=np.float64),
        )
        for row in conn.execute(statement)
    }
