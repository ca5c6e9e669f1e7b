from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from app.arena.files.indexing import OUTCOME_VALUES
from app.arena.fitting import FitTask
from app.arena.policy import Policy, PolicyVersion, current_policy
from app.store.annotators import read_crowd, read_model_ids
from app.store.vote_arrays import read_votes
from app.store.vote_sets import read_vote_set


@dataclass(frozen=True)
class Material:
    """What a refit works on, all as one transaction saw it.

    Attributes
    ----------
    task : the votes and how to fit them; its annotators and models are those on record, by id
    policy : in force at that moment
    overrides : of each annotator, None where the rule holds
    excluded_before : whether the rule had excluded the annotator in the last published refit, shape (n_annotators,)
    vote_set : names the votes, for comparing and for fitting them again
    """

    task: FitTask
    policy: PolicyVersion
    overrides: list[str | None]
    excluded_before: NDArray[np.bool_]
    vote_set: str


def read_material(conn: Connection, settings: Policy | None = None) -> Material:
    """Read every vote, the decisions in force and the policy; `settings` stand in for the policy's own.

    `conn` must be in a REPEATABLE READ transaction: the votes read and the set that names them are then the same.
    """
    vote_set = read_vote_set(conn)
    policy = current_policy(conn)
    if settings is not None:
        policy = policy.model_copy(update={"settings": settings})
    crowd = read_crowd(conn)
    annotator_ids = np.array([annotator_id for annotator_id, _, _ in crowd], dtype=np.int32)
    model_ids = np.array(read_model_ids(conn), dtype=np.int32)
    votes = read_votes(conn)
    overrides = [override for _, override, _ in crowd]
    excluded_before = np.array([standing == "excluded" for _, _, standing in crowd], dtype=np.bool_)
    task = FitTask(
        annotator=np.searchsorted(annotator_ids, votes.annotator_id).astype(np.int32),
        model_a=np.searchsorted(model_ids, votes.model_a_id).astype(np.int32),
        model_b=np.searchsorted(model_ids, votes.model_b_id).astype(np.int32),
        outcome=OUTCOME_VALUES[votes.outcome],
        annotator_ids=annotator_ids,
        model_ids=model_ids,
        keep_always=np.array([override in ("active", "trusted") for override in overrides], dtype=np.bool_),
        keep_never=np.array([override == "excluded" for override in overrides], dtype=np.bool_),
        settings=policy.settings.loop_settings("am-elo"),
        plain_settings=policy.settings.loop_settings("m-elo"),
    )
    return Material(task, policy, overrides, excluded_before, vote_set)
