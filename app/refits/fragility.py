"""How few changes of the votes would change the order of the newest leaderboard, and how its judges follow people.

The worker measures it after the publication, and it is stored beside the snapshot. Readers get it in the diagnostics.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import numpy as np
from sqlalchemy import Connection, literal, select
from sqlalchemy.dialects.postgresql import JSONB, insert

from app.database.engine import Database
from app.database.leases import LeasedJob
from app.database.tables import snapshot_fragility, snapshots
from app.rating.arrays import Mask
from app.rating.errors import RatingNotice
from app.rating.judges.comparison import JudgeComparison
from app.rating.verdict.fragility import Fewest, Fragility, find_fragility
from app.refits.fit.comparisons import compare_judges
from app.refits.fit.interface import FitInput
from app.refits.fit.parts import Parts, log_left_out
from app.refits.fit.process import FitProcess
from app.refits.load import load_past_fit_input
from app.refits.publish import model_names
from app.snapshots.queries import add_notices, list_counted_annotators, list_placed_models
from app.snapshots.service import find_snapshot

FRAGILITY_LEASE = "fragility"
MOST_LOOKS = 1_000_000_000
"""Every cell is looked at once per model and way of changing votes. This many take up to a minute."""

Rows = list[dict[str, Any]]


def measure_newest(
    database: Database, process: FitProcess, *, lease_seconds: float, cancelled: Callable[[], bool] = lambda: False
) -> bool:
    """Measure and store the newest snapshot's fragility if it has none; return whether there was something to do.

    It reads the votes that the snapshot names, so it can do so after any crash. What cannot be measured is stored as
    empty, with a notice, so that it is tried once. A snapshot that is no longer the newest stays without.

    `process`: measures; one that is stopped leaves the snapshot without, for another worker.
    `cancelled`: as for `FitProcess.run`.
    Raises FitCancelledError: the snapshot stays without: the next call begins again, with the snapshot that is the
    newest then.
    Raises UnavailableError.
    """
    with database.read() as conn:
        if find_unmeasured(conn) is None:
            return False
    job = LeasedJob(database, FRAGILITY_LEASE, lease_seconds)
    snapshot_id = job.claim(find_unmeasured)
    if snapshot_id is None:
        return False
    with job:
        parts = Parts()
        measured = parts.compute("fragility", lambda: _measure(database, process, snapshot_id, cancelled))
        if measured is None and process.stopped:
            return False
        pairs, best, judges, left_out = measured or ([], [], None, ())
        notices = (*parts.notices, *left_out)
        log_left_out(notices)
        with database.begin() as conn:
            if not job.lock(conn):
                return False  # another worker measures it
            values = {"snapshot_id": snapshot_id, "pairs": pairs, "best": best, "judges": judges}
            conn.execute(insert(snapshot_fragility).on_conflict_do_nothing(), values)
            if notices:
                add_notices(conn, snapshot_id, [notice.named(()) for notice in notices])
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
) -> tuple[Rows, Rows, dict[str, Any] | None, Sequence[RatingNotice]]:
    with database.read() as conn:
        fit_input = load_past_fit_input(conn, find_snapshot(conn, str(snapshot_id)))
        counted = np.isin(fit_input.annotator_ids, list_counted_annotators(conn, snapshot_id))
        models = list_placed_models(conn, snapshot_id, with_hidden=True)
        ranked = np.isin(fit_input.model_ids, [row["model_id"] for row in models if row["rank"]])
        names = model_names(conn, fit_input.model_ids)
    measure = partial(measure_both, fit_input, counted, ranked)
    found, compared, notices = process.run(measure, cancelled=cancelled)
    judges = compared and {name: getattr(compared, name) for name in ("people", "judges", "panels")}
    return (*(([], []) if found is None else fragility_rows(found, names)), judges, notices)


def measure_both(
    fit_input: FitInput, counted: Mask, ranked: Mask
) -> tuple[Fragility | None, JudgeComparison | None, Sequence[RatingNotice]]:
    """Return what `measure_fragility` and `compare_judges` do, and notices: they need the same votes."""
    parts = Parts()
    found = parts.compute("fragility", lambda: measure_fragility(fit_input, counted, ranked))
    compared = parts.compute(
        "comparison of judges and people", lambda: compare_judges(fit_input), omitted="judges-omitted"
    )
    return found, compared, parts.notices


def measure_fragility(fit_input: FitInput, counted: Mask, ranked: Mask) -> Fragility | None:
    """Fit the main leaderboard of a refit again, and find how few changes of its votes change the order.

    Parameters
    ----------
    fit_input : of the refit
    counted : annotators whose votes count, shape (n_annotators,)
    ranked : models with a rank, shape (n_models,)

    Returns
    -------
    None where the votes and the models are too many

    Raises
    ------
    RatingError
    """
    fitted = fit_input.fit_again(counted)
    if fitted.small.cells.n_models * len(fitted.small.cells.n) > MOST_LOOKS:
        return None
    return find_fragility(fitted, ranked=ranked)


def _counts(fewest: Fewest) -> list[dict[str, int | None]]:
    names = ("votes", "flipped_votes", "added_votes", "annotators", "prompts")
    columns = (fewest.dropped, fewest.flipped, fewest.added, fewest.annotators, fewest.prompts)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [{name: count if count >= 0 else None for name, count in zip(names, row, strict=True)} for row in rows]


def find_unmeasured(conn: Connection) -> UUID | None:
    """Return the newest snapshot's id if its fragility is not stored; None if it is, or there is no snapshot."""
    newest = select(snapshots.c.id).order_by(snapshots.c.number.desc()).limit(1).scalar_subquery()
    waits = snapshots.c.diagnostics["fragility"] == literal(None, JSONB(none_as_null=False))
    stored = select(snapshot_fragility.c.snapshot_id).where(snapshot_fragility.c.snapshot_id == snapshots.c.id)
    statement = select(snapshots.c.id).where(snapshots.c.id == newest, waits, ~stored.exists())
    found: UUID | None = conn.execute(statement).scalar_one_or_none()
    return found
