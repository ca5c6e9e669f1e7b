"""Where the rule would put each annotator at other thresholds."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from app.database.engine import Database
from app.policy.schemas import Policy
from app.review.abilities import bin_abilities, bin_votes, count_beyond, read_crowd
from app.snapshots.queries import newest_snapshot
from tests.fixtures.arena import Arena

Ask = Callable[..., Any]


@pytest.mark.arena
def test_moving_epsilon_moves_flags_as_the_rule_does(database: Database, arena: Arena) -> None:
    with database.read() as conn:
        newest = newest_snapshot(conn)
        assert newest is not None
        crowd = read_crowd(conn, newest["id"])
    policy = Policy()
    assert np.array_equal(crowd.judge(policy), crowd.standing), "at the ε of the refit"
    flagged = {}
    for epsilon in (-5.0, 0.2, 0.9):
        moved = policy.model_copy(update={"min_ability": epsilon})
        standing = crowd.judge(moved)
        flagged[epsilon] = {*np.flatnonzero(standing == "flagged").tolist()}
        counts, drawn = count_beyond(crowd, standing, moved), bin_abilities(crowd, standing)
        assert sum(one.annotators for one in drawn) == crowd.shown(standing).sum()
        assert sum(one.annotators for one in drawn if one.high <= epsilon + 1e-9) == counts["low"]
        assert sum(one.annotators for one in bin_votes(crowd, standing)) == len(crowd.votes)
    assert flagged[-5.0] <= flagged[0.2] < flagged[0.9]
    assert flagged[-5.0], "by tests, which do not ask for ε"
    likelier = policy.model_copy(update={"min_ability": 0.9, "min_probability": 0.5})
    assert flagged[0.9] < {*np.flatnonzero(crowd.judge(likelier) == "flagged").tolist()}
    excluding = crowd.judge(policy.model_copy(update={"on_low_ability": "exclude"}))
    assert {*np.flatnonzero(np.isin(excluding, ("flagged", "excluded")) & (crowd.standing == "flagged"))} == flagged[
        0.2
    ]
    threshold = crowd.judge(
        policy.model_copy(update={"flag_rule": "threshold", "min_ability": 0.5, "release_margin": 0.0})
    )
    ruled = crowd.shown(threshold) & (crowd.standing == crowd.rule_standing)
    assert np.array_equal((threshold == "flagged")[ruled], (crowd.ability <= 0.5)[ruled])
    by_decision = crowd.standing == "excluded"
    for delta in (20, 200):
        pending = crowd.judge(policy.model_copy(update={"min_votes": delta})) == "pending"
        assert np.array_equal(pending, (crowd.votes <= delta) & ~by_decision)
