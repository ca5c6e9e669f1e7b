from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from app.annotators.standings.queries import read_standings
from app.errors import StableArenaError
from app.imports.formats.indexing import OUTCOME_VALUES
from app.models.queries import read_model_ids
from app.policy.schemas import Policy, PolicyVersion
from app.policy.service import current_policy
from app.rating.settings import LoopSettings
from app.refits.fit.task import FitTask
from app.refits.quotas import over_quota
from app.snapshots.vote_sets import count_retracted, read_vote_set
from app.votes.arrays import read_votes
from app.votes.tags import most_voted_tags

Ids = NDArray[np.int32]


class DanglingVotesError(StableArenaError):
    """Votes name an annotator or a model that is not on record: the database was damaged, or changed by hand."""

    code = "dangling-votes"
    title = "Votes name what is not on record"


@dataclass(frozen=True)
class Material:
    """What a refit works on, all as one transaction saw it.

    Attributes
    ----------
    task : the votes that count and how to fit them; its annotators and models are those on record, by id
    policy : in force at that moment
    overrides : of each annotator, None where the rule holds
    excluded_before : whether the rule had excluded the annotator in the last published refit, shape (n_annotators,)
    vote_set : names the votes, for comparing and for fitting them again
    retracted, over_quota : how many votes on record are not in the task, and why
    """

    task: FitTask
    policy: PolicyVersion
    overrides: list[str | None]
    excluded_before: NDArray[np.bool_]
    vote_set: str
    retracted: int
    over_quota: int

    @property
    def votes_read(self) -> int:
        """How many votes were on record, those included that do not count."""
        return len(self.task.outcome) + self.retracted + self.over_quota


@dataclass(frozen=True)
class CountedVotes:
    """The votes that count, and how many do not.

    Attributes
    ----------
    annotator, model_a, model_b : positions among the ids on record, int32 arrays, shape (n_votes,)
    outcome : W of each vote, float64 array, shape (n_votes,)
    tag_bits : int32 array, shape (n_votes,): bit i is set where the vote has the i-th of the tags; None without any
    retracted, over_quota : how many votes were left out
    """

    annotator: Ids
    model_a: Ids
    model_b: Ids
    outcome: NDArray[np.float64]
    tag_bits: NDArray[np.int32] | None
    retracted: int
    over_quota: int


def read_material(conn: Connection, settings: Policy | None = None) -> Material:
    """Read every vote, the decisions in force and the policy; `settings` stand in for the policy's own.

    `conn` must be in a REPEATABLE READ transaction: the votes read and the set that names them are then the same.

    Raises
    ------
    DanglingVotesError
    """
    vote_set = read_vote_set(conn)
    policy = current_policy(conn)
    if settings is not None:
        policy = policy.model_copy(update={"settings": settings})
    crowd = read_standings(conn)
    annotator_ids = np.array([annotator_id for annotator_id, _, _ in crowd], dtype=np.int32)
    model_ids = np.array(read_model_ids(conn), dtype=np.int32)
    tags = most_voted_tags(conn, policy.settings.max_tag_boards)
    per_day = policy.settings.max_votes_per_day
    votes = read_counted(conn, annotator_ids, model_ids, votes_per_day=per_day, tags=tags)
    overrides = [override for _, override, _ in crowd]
    excluded_before = np.array([standing == "excluded" for _, _, standing in crowd], dtype=np.bool_)
    was_low = np.array([standing in ("flagged", "excluded") for _, _, standing in crowd], dtype=np.bool_)
    task = make_task(
        votes, annotator_ids, model_ids, overrides,
        was_low=was_low, tags=tags, settings=policy.settings.loop_settings("am-elo"),
    )  # fmt: skip
    return Material(task, policy, overrides, excluded_before, vote_set, votes.retracted, votes.over_quota)


def read_counted(
    conn: Connection,
    annotator_ids: Ids,
    model_ids: Ids,
    *,
    votes_per_day: int | None,
    tags: Sequence[str] = (),
    vote_set: str | None = None,
) -> CountedVotes:
    """Read the votes that count: neither retracted nor over the quota; those of `vote_set` where one is named.

    Parameters
    ----------
    tags : say of each vote which of these it has

    Raises
    ------
    DanglingVotesError
    """
    votes = read_votes(conn, dated=votes_per_day is not None, tags=tags, vote_set=vote_set)
    annotator = _positions(votes.annotator_id, annotator_ids, "annotator")
    model_a = _positions(votes.model_a_id, model_ids, "model")
    model_b = _positions(votes.model_b_id, model_ids, "model")
    outcome, bits, over = OUTCOME_VALUES[votes.outcome], votes.tags, 0
    if votes_per_day is not None and votes.dates is not None:
        counts = ~over_quota(votes.annotator_id, votes.dates, votes_per_day)
        over = len(counts) - int(counts.sum())
        annotator, model_a, model_b, outcome = annotator[counts], model_a[counts], model_b[counts], outcome[counts]
        bits = None if bits is None else bits[counts]
    return CountedVotes(annotator, model_a, model_b, outcome, bits, count_retracted(conn, vote_set), over)


def make_task(
    votes: CountedVotes,
    annotator_ids: Ids,
    model_ids: Ids,
    overrides: Iterable[str | None],
    *,
    was_low: NDArray[np.bool_],
    tags: Sequence[str],
    settings: LoopSettings,
) -> FitTask:
    """Put together what a fit needs; `settings` are those of the am-elo board."""
    overrides = list(overrides)
    return FitTask(
        annotator=votes.annotator,
        model_a=votes.model_a,
        model_b=votes.model_b,
        outcome=votes.outcome,
        annotator_ids=annotator_ids,
        model_ids=model_ids,
        keep_always=np.array([override in ("active", "trusted") for override in overrides], dtype=np.bool_),
        keep_never=np.array([override == "excluded" for override in overrides], dtype=np.bool_),
        was_low=was_low,
        settings=settings,
        tags=tuple(tags),
        tag_bits=votes.tag_bits,
    )


def _positions(ids: Ids, known: Ids, what: str) -> Ids:
    """Return where each id stands among the known ones, which are in order."""
    if not len(ids):
        return np.empty(0, dtype=np.int32)
    place = np.searchsorted(known, ids)
    strange = np.ones(len(ids), dtype=np.bool_)
    if len(known):
        strange = known[np.minimum(place, len(known) - 1)] != ids
    if strange.any():
        # The votes' columns have no foreign keys, so that nothing but this notices.
        raise DanglingVotesError(
            f"{int(strange.sum())} vote(s) name {what}s that are not on record, such as number {ids[strange][0]}"
        )
    return place.astype(np.int32)
