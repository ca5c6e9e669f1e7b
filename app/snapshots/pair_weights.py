"""Tables of pair weights, as rows of the database."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import numpy as np
from sqlalchemy import Connection

from app.rating.sampling.pair_weights import PairWeights
from app.snapshots import queries

_STORED = np.dtype("<f2")


def pair_weight_rows(tables: Mapping[str, PairWeights]) -> list[dict[str, Any]]:
    """Return the rows that a snapshot stores; `tables` by tag."""
    return [
        {
            "tag": tag,
            "model_ids": table.models.tolist(),
            "scores": table.R.tolist(),
            "weights": table.weight.astype(_STORED).tobytes(),
        }
        for tag, table in tables.items()
    ]


def find_pair_weights(conn: Connection, snapshot_id: UUID) -> dict[str, PairWeights]:
    """Return a snapshot's tables by tag, "" for battles without a tag; none of a snapshot of an earlier version."""
    return {
        row["tag"]: PairWeights(
            np.array(row["model_ids"], dtype=np.int64),
            np.frombuffer(row["weights"], dtype=_STORED).astype(np.float16),
            np.array(row["scores"], dtype=np.float64),
        )
        for row in queries.read_pair_weights(conn, snapshot_id)
    }
