"""Votes that rankings make: one ranking is many votes that hang together."""

from dataclasses import replace

import numpy as np
import pytest

from app.rating.errors import VotesError
from app.rating.settings import Interval, LoopSettings
from app.rating.simulation.worlds import simulate_votes
from app.rating.verdict.round import rate_indexed
from app.rating.votes.indexed import IndexedVotes

SETTINGS = LoopSettings(method="m-elo", min_votes=0)


def votes_of(share: float | None) -> IndexedVotes:
    drawn, names = simulate_votes(1, n_models=5, roles={"honest": 12}, votes_each=30), [f"{i:02}" for i in range(12)]
    each = None if share is None else np.full(len(drawn.outcome), share)
    columns = (x.astype(np.int32) for x in (drawn.annotator, drawn.model_a, drawn.model_b))
    return IndexedVotes(names, names[:5], *columns, drawn.outcome, share=each)


@pytest.mark.parametrize("interval", ["sandwich", "information"])
def test_intervals_by_vote_are_refused_where_rankings_made_the_votes(interval: Interval) -> None:
    by_vote, ranked = replace(SETTINGS, interval=interval), votes_of(0.1)
    with pytest.raises(VotesError, match=f"the interval {interval} takes votes as independent.* use the interval clus"):
        rate_indexed(ranked, ranked.aggregate(), by_vote)
    for share in (None, 1.0):
        single = votes_of(share)
        assert np.isfinite(rate_indexed(single, single.aggregate(), by_vote).models.se).all()


@pytest.mark.parametrize("interval", ["clustered", "none"])
def test_annotators_as_clusters_take_rankings(interval: Interval) -> None:
    ranked = votes_of(0.1)
    assert rate_indexed(ranked, ranked.aggregate(), replace(SETTINGS, interval=interval)).identified.all()
