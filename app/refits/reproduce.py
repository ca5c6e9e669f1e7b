import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

import numpy as np
from sqlalchemy import Connection, RowMapping

from app.annotators.decisions.queries import last_actions
from app.annotators.decisions.service import OVERRIDES
from app.annotators.standings.queries import read_standings
from app.database.engine import Database
from app.errors import ConflictError
from app.models.queries import read_model_ids
from app.policy.service import past_policy
from app.rating.settings import LoopSettings
from app.refits.fit.fitting import fit
from app.refits.fit.task import FitTask, Fitted
from app.refits.load import make_task, read_counted
from app.refits.publish import board_rows, crowd_columns, model_names
from app.snapshots.queries import list_tags, read_annotators, read_held, read_models
from app.snapshots.service import Snapshot, find_snapshot
from app.snapshots.vote_sets import holds_foreign_rows

TOLERANCE = 1e-6
"""How far a number may be from the one published: identical is the aim, but not on every machine."""

# What a refit computes of a model or an annotator; the rest of a row names it.
_NAMES = {"snapshot_id", "method", "tag", "model_id", "annotator_id", "standing", "override", "strength", "evidence"}


class NotReproducibleError(ConflictError):
    """The snapshot's votes or settings can no longer be told."""

    code = "not-reproducible"
    title = "The snapshot cannot be made again"


@dataclass(frozen=True)
class Reproduction:
    """A snapshot made again from the votes it names, beside the one published.

    Attributes
    ----------
    votes : how many votes counted in the fit's input
    same_votes : whether they have the hash that was published
    differences : column → largest absolute difference; infinite where a value or a row is there on one side only
    """

    snapshot_id: UUID
    number: int
    votes: int
    same_votes: bool
    differences: dict[str, float]

    @property
    def largest_difference(self) -> float:
        """The largest of all differences."""
        return max(self.differences.values(), default=0.0)

    @property
    def reproduced(self) -> bool:
        """Whether the votes are the same and every number is, up to the tolerance."""
        return self.same_votes and self.largest_difference <= TOLERANCE


def reproduce(database: Database, reference: str) -> Reproduction:
    """Fit a snapshot, named by id or number, again: its votes, retractions, decisions, policy and settings.

    What was recorded after the snapshot, retractions and decisions included, plays no part. Nothing is published and
    nothing is written; no transaction is open while the fit runs.

    Raises
    ------
    NotFoundError
    NotReproducibleError
        The database was restored from a dump into another cluster, whose transaction numbers say nothing about the
        rows, or the snapshot's settings are of another version of this service.
    RatingError
    """
    with database.read() as conn:
        snapshot = find_snapshot(conn, reference)
        if holds_foreign_rows(conn):
            raise NotReproducibleError("votes were restored from a dump: the vote sets name another cluster's rows")
        task, overrides = past_task(conn, snapshot)
        names = model_names(conn, task.model_ids)
        models, annotators = read_models(conn, snapshot.id), read_annotators(conn, snapshot.id)
    fitted = fit(task)
    made = _published(board_rows(fitted, task.model_ids), models)
    if annotators:  # old snapshots lose them to save space
        made += _crowd_rows(fitted, task, overrides, names)
    return Reproduction(
        snapshot_id=snapshot.id,
        number=snapshot.number,
        votes=len(task.outcome),
        same_votes=fitted.votes_hash == snapshot.votes_hash,
        differences=_compare([dict(row) for row in (*models, *annotators)], made),
    )


def past_task(conn: Connection, snapshot: Snapshot) -> tuple[FitTask, list[str | None]]:
    """Return what the snapshot's refit worked on, but for names that came later: they have no votes in the set."""
    annotator_ids = np.array([annotator_id for annotator_id, _, _ in read_standings(conn)], dtype=np.int32)
    model_ids = np.array(read_model_ids(conn), dtype=np.int32)
    policy = past_policy(conn, snapshot.policy_version).settings
    tags = list_tags(conn, snapshot.id)
    votes = read_counted(
        conn, annotator_ids, model_ids,
        votes_per_day=policy.max_votes_per_day, tags=tags, vote_set=snapshot.vote_set,
    )  # fmt: skip
    actions = last_actions(conn, snapshot.vote_set)
    overrides = [OVERRIDES[actions[i]] if i in actions else None for i in annotator_ids.tolist()]
    # Of those marked before, only who was held is known; nobody else's verdict depended on it.
    was_low = np.isin(annotator_ids, read_held(conn, snapshot.id))
    task = make_task(
        votes, annotator_ids, model_ids, overrides, was_low=was_low, tags=tags, settings=past_settings(snapshot)
    )
    return task, overrides


def past_settings(snapshot: Snapshot) -> LoopSettings:
    """Return the settings that the snapshot was made with.

    Raises
    ------
    NotReproducibleError
        This version does not know one of them.
    """
    known, given = {field.name for field in fields(LoopSettings)}, set(snapshot.settings)
    if not given <= known:
        named = ", ".join(sorted(given - known))
        raise NotReproducibleError(f"version {snapshot.code_version} made it, with settings unknown now: {named}")
    # What an earlier version did not know yet has a default that is what it did.
    values: dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in snapshot.settings.items()}
    return LoopSettings(**values)


def _published(made: list[dict[str, Any]], models: Sequence[RowMapping]) -> list[dict[str, Any]]:
    """Return the rows of the boards that the snapshot has: an earlier version published fewer."""
    boards = {(row["method"], row["tag"]) for row in models}
    return [row for row in made if (row["method"], row["tag"]) in boards]


def _crowd_rows(
    fitted: Fitted, task: FitTask, overrides: list[str | None], names: Mapping[int, str]
) -> list[dict[str, Any]]:
    crowd = crowd_columns(fitted, task.annotator_ids, overrides, names)
    return [dict(zip(crowd, values, strict=True)) for values in zip(*crowd.values(), strict=True)]


def _compare(stored: Iterable[Mapping[str, Any]], made: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    here, there = ({_name(row): row for row in rows} for rows in (stored, made))
    differences: dict[str, float] = defaultdict(float)
    for name in here.keys() | there.keys():
        one, other = here.get(name), there.get(name)
        if one is None or other is None:
            differences["rows"] = math.inf
            continue
        for column in (one.keys() & other.keys()) - _NAMES:
            differences[column] = max(differences[column], _distance(one[column], other[column]))
    return dict(sorted(differences.items()))


def _name(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row.get("method"), row.get("tag"), row.get("model_id"), row.get("annotator_id")


def _distance(one: Any, other: Any) -> float:
    if one == other:
        return 0.0
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    return abs(one - other) if numbers else math.inf
