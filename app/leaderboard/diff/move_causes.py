"""How much of every model's move from one snapshot to another is due to the policy, to who counts, and to votes."""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import isfinite
from typing import Any
from uuid import UUID

import numpy as np
from sqlalchemy import Connection, RowMapping

from app.annotators.queries import read_crowd, read_model_ids
from app.database.engine import Database
from app.errors import BadInputError, FieldError
from app.leaderboard.diff.service import ModelChange, Shares, SnapshotDiff, keep_company
from app.leaderboard.diff.states import Between, Counted, Crowd, State, States, fit_states
from app.policy.service import past_policy
from app.rating.results import Method
from app.refits.load import Ids, read_counted
from app.refits.reproduce import NotReproducibleError, past_settings, past_task
from app.review.impact.fits import ReviewFits
from app.review.queries import crowd_is_pruned, read_published, read_voters
from app.snapshots.service import Snapshot, find_snapshot
from app.snapshots.vote_sets import holds_foreign_rows

MOST_REMEMBERED = 100
MOST_TOLD = 5

# Settings that say who counts, or how sure a score is: the scores of a given crowd do not depend on them.
_WHO_COUNTS = {
    "min_votes", "min_ability", "flag_rule", "flag_probability", "evidence_ratio", "evidence_tests", "release_margin",
    "exclude", "interval", "confidence",
}  # fmt: skip

_NOTHING = States(None, None)
_Key = tuple[UUID, UUID, Method]


@dataclass(frozen=True)
class _Answer:
    """What was computed: the boards between, and the models they are of."""

    states: States
    model_ids: Ids


@dataclass(frozen=True)
class _Board:
    """A board, published or fitted here, by the models' numbers: who has a score, and where each model belongs."""

    scores: dict[int, float]
    components: dict[int, int]


class DiffCauses:
    """Says why models moved; snapshots never change, so what was computed is kept while the process lives."""

    def __init__(self, database: Database, fits: ReviewFits) -> None:
        self._database = database
        self._fits = fits
        self._answers: OrderedDict[_Key, _Answer] = OrderedDict()
        self._lock = threading.Lock()

    def explain(self, diff: SnapshotDiff) -> SnapshotDiff:
        """Add to a comparison how much of every move is due to what; the parts add up to the whole.

        One thing changes at a time: how scores are estimated, with the earlier votes and crowd; then who counts; then
        the votes. No transaction is open while the child fits.

        Raises
        ------
        BadInputError
            The method is neither am-elo nor m-elo.
        NotReproducibleError
            The earlier snapshot's votes, or a snapshot's settings, can no longer be told.
        ImpactBusyError
            Another impact is being computed.
        CannotFitError
            A state between the two has no ranking.
        """
        if diff.method not in ("am-elo", "m-elo"):
            error = FieldError("/method", "causes are told of the boards am-elo and m-elo")
            raise BadInputError(f"{error.pointer}: {error.detail}", (error,))
        key: _Key = diff.before.id, diff.after.id, diff.method
        with self._database.read() as conn:
            old, new = (find_snapshot(conn, str(head.id)) for head in (diff.before, diff.after))
            policy_changed, votes_changed = (
                _estimator(conn, old) != _estimator(conn, new),
                old.votes_hash != new.votes_hash,
            )
        with self._lock:
            answer = self._answers.get(key)
        if answer is None and (policy_changed or votes_changed):
            answer = self._fits.run(lambda: self._prepare(old, new, key[2], policy_changed, votes_changed))
            self._remember(key, answer)
        with self._database.read() as conn:
            boards = [read_published(conn, snapshot.id, diff.method) for snapshot in (old, new)]
        return _explained(diff, answer or _Answer(_NOTHING, np.empty(0, np.int32)), boards, votes_changed=votes_changed)

    def _prepare(
        self, old: Snapshot, new: Snapshot, method: Method, policy_changed: bool, votes_changed: bool
    ) -> "partial[_Answer]":
        with self._database.read() as conn:
            if holds_foreign_rows(conn):
                raise NotReproducibleError("votes were restored from a dump: the vote sets name another cluster's rows")
            annotator_ids = np.array([number for number, _, _ in read_crowd(conn)], dtype=np.int32)
            model_ids = np.array(read_model_ids(conn), dtype=np.int32)
            quota = past_policy(conn, new.policy_version).settings.max_votes_per_day
            votes = read_counted(conn, annotator_ids, model_ids, votes_per_day=quota, vote_set=old.vote_set)
            counted = [_counted(conn, snapshot, annotator_ids) for snapshot in (old, new)]
        settings = replace(past_settings(new), method=method, exclude=False, interval="none")
        sizes = len(annotator_ids), len(model_ids)
        between = Between(votes, sizes, counted[0], counted[1], settings, policy_changed, votes_changed)
        return partial(_answer, between, model_ids)

    def _remember(self, key: _Key, answer: _Answer) -> None:
        with self._lock:
            self._answers[key] = answer
            while len(self._answers) > MOST_REMEMBERED:
                self._answers.popitem(last=False)


def _answer(between: Between, model_ids: Ids) -> _Answer:
    """Fit what is needed; this is what the child does."""
    return _Answer(fit_states(between), model_ids)


def _estimator(conn: Connection, snapshot: Snapshot) -> tuple[dict[str, Any], int | None, str]:
    """Return what makes scores of votes once it is settled who counts."""
    settings = {name: value for name, value in snapshot.settings.items() if name not in _WHO_COUNTS}
    return settings, past_policy(conn, snapshot.policy_version).settings.max_votes_per_day, snapshot.code_version


def _counted(conn: Connection, snapshot: Snapshot, annotator_ids: Ids) -> Counted:
    if crowd_is_pruned(conn, snapshot.id):  # old snapshots lose their annotators to save space
        return past_task(conn, snapshot)[0]
    voters = read_voters(conn, snapshot.id)
    voted, counted = (row.annotator_id for row in voters), (row.annotator_id for row in voters if row.fitted)
    return Crowd(*(np.isin(annotator_ids, list(numbers)) for numbers in (voted, counted)))


def _explained(
    diff: SnapshotDiff, answer: _Answer, boards: list[Sequence[RowMapping]], *, votes_changed: bool
) -> SnapshotDiff:
    first, fourth = (_published(rows) for rows in boards)
    second, between = (_fitted(state, answer.model_ids) for state in (answer.states.policy, answer.states.crowd))
    second = second or first
    third = fourth if not votes_changed else between or second
    chain = (first, second, third, fourth)
    comparable: set[int] = set.intersection(*(set(board.scores) for board in chain))
    for before, after in pairwise(chain):
        company: set[int] = keep_company(before.components, after.components)
        comparable &= company
    names = {row["model_id"]: row["model"] for row in boards[0]}
    shares = {}
    for number in comparable:
        policy, crowd, votes = (after.scores[number] - before.scores[number] for before, after in pairwise(chain))
        shares[names[number]] = Shares(policy=policy, crowd=crowd, votes=votes)
    models = [
        one if one.change is None else one.model_copy(update={"because": shares.get(one.model)}) for one in diff.models
    ]
    return diff.model_copy(update={"models": models, "summary": [*diff.summary, *_tell(models)]})


def _published(rows: Sequence[RowMapping]) -> _Board:
    scores = {row["model_id"]: row["score"] for row in rows if row["score"] is not None}
    return _Board(scores, {row["model_id"]: row["component"] for row in rows})


def _fitted(state: State | None, model_ids: Ids) -> _Board | None:
    if state is None:
        return None
    numbers, scores, components = model_ids.tolist(), state.score.tolist(), state.component.tolist()
    return _Board(
        {number: score for number, score in zip(numbers, scores, strict=True) if isfinite(score)},
        {number: component for number, component in zip(numbers, components, strict=True) if component >= 0},
    )


def _tell(models: list[ModelChange]) -> Iterator[str]:
    """Say how far each cause moved the models, and what moved those that moved furthest."""
    told = [one for one in models if one.because is not None and one.change is not None]
    if not told:
        return
    average = {
        name: float(np.mean([abs(getattr(one.because, name)) for one in told])) for name in ("policy", "crowd", "votes")
    }
    yield (
        f"On average the policy moved a model by {average['policy']:.1f} points, who counts by {average['crowd']:.1f}, "
        f"new and retracted votes by {average['votes']:.1f}."
    )
    for one in sorted(told, key=lambda m: -abs(m.change or 0.0))[:MOST_TOLD]:
        because, change = one.because, one.change
        if because is not None and change is not None and abs(change) >= 0.05:  # noqa: PLR2004  shown as 0.0 below it
            yield (
                f"{one.model} moved {change:+.1f} points: {because.policy:+.1f} by the policy, {because.crowd:+.1f} by "
                f"who counts, {because.votes:+.1f} by votes."
            )
