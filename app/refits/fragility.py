"""Finds how few changes of the votes change the newest leaderboard: a job of the worker, after the publication."""

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import numpy as np
import structlog

from app.database.engine import Database
from app.database.leases import LeasedJob
from app.rating.errors import RatingError
from app.rating.verdict.fragility import Fewest, Fragility
from app.refits.fit.fragility import measure_fragility
from app.refits.fit.process import FitProcess, FitProcessLostError, FitTooLargeError
from app.refits.load import NotReproducibleError, load_past_fit_input
from app.refits.publish import model_names
from app.snapshots.fragility import find_unmeasured, insert_fragility, list_counted_annotators, list_ranked_models
from app.snapshots.service import find_snapshot

log = structlog.get_logger()

FRAGILITY_LEASE = "fragility"

Rows = list[dict[str, Any]]


def measure_newest(
    database: Database, process: FitProcess, *, lease_seconds: float, cancelled: Callable[[], bool] = lambda: False
) -> bool:
    """Measure and store the newest snapshot's fragility if it has none; return whether there was something to do.

    It reads the votes that the snapshot names, so it can do so after any crash. What cannot be measured is stored as
    empty, so that it is tried once. A snapshot that is no longer the newest stays without.

    Parameters
    ----------
    process : measures; one that is stopped leaves the snapshot without, for another worker
    cancelled : as for `FitProcess.run`

    Raises
    ------
    FitCancelledError
        The snapshot stays without: the next call begins again, with the snapshot that is the newest then.
    UnavailableError
    """
    with database.read() as conn:
        if find_unmeasured(conn) is None:
            return False
    job = LeasedJob(database, FRAGILITY_LEASE, lease_seconds)
    snapshot_id = job.claim(find_unmeasured)
    if snapshot_id is None:
        return False
    with job:
        try:
            pairs, best = _measure(database, process, snapshot_id, cancelled)
        except (RatingError, NotReproducibleError, FitTooLargeError, FitProcessLostError) as error:
            log.warning("fragility_not_measured", snapshot=str(snapshot_id), detail=str(error))
            if process.stopped:
                return False
            pairs, best = [], []
        with database.begin() as conn:
            insert_fragility(conn, snapshot_id, pairs, best)
    return True


def fragility_rows(fragility: Fragility, names: list[str]) -> tuple[Rows, Rows]:
    """Return neighbours with how few changes swap them, and k with how few change the best k; null for none known."""
    sides = zip(fragility.upper.tolist(), fragility.lower.tolist(), fragility.gap.tolist(), strict=True)
    pairs = [
        {"above": names[upper], "below": names[lower], "gap": gap, **counts, "tied": tied}
        for (upper, lower, gap), counts, tied in zip(
            sides, _counts(fragility.swap), fragility.tied.tolist(), strict=True
        )
    ]
    return pairs, [{"k": k, **counts} for k, counts in enumerate(_counts(fragility.best), start=1)]


def _measure(
    database: Database, process: FitProcess, snapshot_id: UUID, cancelled: Callable[[], bool]
) -> tuple[Rows, Rows]:
    with database.read() as conn:
        fit_input = load_past_fit_input(conn, find_snapshot(conn, str(snapshot_id)))
        counted = np.isin(fit_input.annotator_ids, list_counted_annotators(conn, snapshot_id))
        ranked = np.isin(fit_input.model_ids, list_ranked_models(conn, snapshot_id, fit_input.settings.method))
        names = model_names(conn, fit_input.model_ids)
    found = process.run(partial(measure_fragility, fit_input, counted, ranked), cancelled=cancelled)
    return ([], []) if found is None else fragility_rows(found, names)


def _counts(fewest: Fewest) -> list[dict[str, int | None]]:
    names = ("votes", "flipped_votes", "added_votes", "annotators")
    columns = (fewest.dropped, fewest.flipped, fewest.added, fewest.annotators)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [{name: count if count >= 0 else None for name, count in zip(names, row, strict=True)} for row in rows]
