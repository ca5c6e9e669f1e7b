import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.database.engine import Database
from app.rating.errors import RatingError
from app.rating.method import METHOD
from app.refits.fit.fit import fit_snapshot
from app.refits.load import NotReproducibleError, load_past_fit_input
from app.refits.publish import model_names
from app.refits.rows import annotator_columns, leaderboard_rows
from app.snapshots.queries import read_annotators, read_models
from app.snapshots.service import find_snapshot

TOLERANCE = 1e-6
"""How far a number may be from the published one. It is identical on most machines, but not on all."""

# Columns that name a row or are not computed; all others are compared.
_NAMES = {
    "snapshot_id",
    "method",
    "tag",
    "model_id",
    "annotator_id",
    "standing",
    "override",
    "strength",
    "evidence",
    "leans",
    "above",  # follows from what is compared, and earlier versions did not store it
}


@dataclass(frozen=True)
class Reproduction:
    """A snapshot made again from the votes that it names, compared with what was published.

    Attributes
    ----------
    votes : how many votes counted in the fit's input
    same_votes : whether they have the hash that was published
    code_version : of the service that made it
    same_method : whether that had the method of this one, so that the numbers should be the same
    differences : column → largest absolute difference; infinite where a value or a row is missing on one side
    """

    snapshot_id: UUID
    number: int
    votes: int
    same_votes: bool
    code_version: str
    same_method: bool
    differences: dict[str, float]

    @property
    def largest_difference(self) -> float:
        """The largest of all differences."""
        return max(self.differences.values(), default=0.0)

    @property
    def reproduced(self) -> bool:
        """Whether the votes are the same and every number is, up to the tolerance."""
        return self.same_votes and self.largest_difference <= TOLERANCE

    @property
    def explained(self) -> bool:
        """Whether it is reproduced, or as near as another method comes: by the same votes."""
        return self.reproduced or (self.same_votes and not self.same_method)


def reproduce(database: Database, reference: str) -> Reproduction:
    """Fit a snapshot, named by id or number, again: its votes, retractions, decisions, policy and settings.

    What was recorded after the snapshot is not read. Nothing is published or written. No transaction is open while the
    fit runs.

    Raises NotFoundError.
    Raises NotReproducibleError: the snapshot's votes or settings can no longer be determined, or another method made
    it, and this one cannot rate its votes.
    Raises RatingError.
    """
    with database.read() as conn:
        snapshot = find_snapshot(conn, reference)
        fit_input = load_past_fit_input(conn, snapshot)
        names = model_names(conn, fit_input.model_ids)
        models, annotators = read_models(conn, snapshot.id), read_annotators(conn, snapshot.id)
    same_method = snapshot.diagnostics.get("method_version") == METHOD
    try:
        output = fit_snapshot(fit_input)
    except RatingError as error:
        if same_method:
            raise
        raise NotReproducibleError(f"version {snapshot.code_version} made it, by another method: {error}") from error
    published = {(row["method"], row["tag"]) for row in models}  # earlier versions published fewer leaderboards
    made = [row for row in leaderboard_rows(output, fit_input.model_ids) if (row["method"], row["tag"]) in published]
    if annotators:  # old snapshots lose them to save space
        columns = annotator_columns(fit_input, output, names)
        made += [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return Reproduction(
        snapshot_id=snapshot.id,
        number=snapshot.number,
        votes=len(fit_input.outcome),
        same_votes=output.votes_hash == snapshot.votes_hash,
        code_version=snapshot.code_version,
        same_method=same_method,
        differences=_compare([dict(row) for row in (*models, *annotators)], made),
    )


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
