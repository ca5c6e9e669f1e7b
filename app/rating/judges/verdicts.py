"""What judges say of each battle beyond their own scores and leans: the controls of the people's leaderboard."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats, Indices, Mask, sum_by
from app.rating.errors import RatingError
from app.rating.judges.ballots import Ballots
from app.rating.judges.board import fit_leans
from app.rating.settings import LoopSettings
from app.rating.votes.cells import find_places


@dataclass(frozen=True)
class Verdicts:
    """The judges' verdicts by battle.

    Attributes
    ----------
    judges : indices of those whose votes give models a score, shape (n_judges,)
    first, second : models of each battle, first < second, shape (n_battles,)
    surprise : W − P(first wins) by the judge's own scores and lean, the mean of its votes on the battle; 0 where it has
        none, shape (n_battles, n_judges)
    seen : whether it has one, between models that it gives a score, shape (n_battles, n_judges)
    even : 4 p (1 − p), p as the judge's scores alone expect; 0 where it has no vote, shape (n_battles, n_judges)
    """

    judges: Indices
    first: Indices
    second: Indices
    surprise: Floats
    seen: Mask
    even: Floats

    @property
    def judged(self) -> Mask:
        """Battles that a judge has such a vote on, shape (n_battles,)."""
        judged: Mask = np.asarray(self.seen.any(axis=1))
        return judged


def read_verdicts(ballots: Ballots, judges: Mask) -> Verdicts:
    """Fit every judge who shares a battle with people by itself, and take off what its scores and its lean expect.

    Σ surprise (e_first − e_second) over a judge's battles is 0, and so its mean over a random part of them.

    Parameters
    ----------
    judges : shape (n_annotators,)
    """
    v, battles = ballots.votes, int(ballots.battle.max(initial=-1)) + 1
    first, second = np.zeros((2, battles), dtype=np.int64)
    with_people = np.zeros(battles, dtype=bool)
    with_people[ballots.battle[~judges[v.annotator]]] = True
    sharing = np.bincount(v.annotator[with_people[ballots.battle]], minlength=len(judges)) > 0
    first[ballots.battle], second[ballots.battle] = ballots.pair // len(v.models), ballots.pair % len(v.models)
    kept, columns = list[int](), list[Floats]()
    for k in np.flatnonzero(judges & sharing).tolist():
        one = replace(ballots.where(v.annotator == k), style=None)
        try:
            fitted = fit_leans(one, LoopSettings(method="m-elo", min_votes=0))
        except RatingError:
            continue  # its votes give no model a score
        models = fitted.found.small.models
        one, place = one.between(models), find_places(models, len(v.models))
        left, right, R = place[one.votes.model_a], place[one.votes.model_b], fitted.found.fit.R
        gap = R[left] - R[right]
        p, q = expit(gap + (one.differences() * fitted.identified) @ fitted.leans[0]), expit(gap)
        beyond = one.weight * (one.votes.outcome - p) * np.where(left < right, 1.0, -1.0)
        parts = beyond, one.weight, 4.0 * one.weight * q * (1.0 - q)
        kept.append(k)
        columns.append(np.stack([sum_by(one.battle, part, battles) for part in parts]))
    by_battle = np.stack(columns, axis=2) if columns else np.zeros((3, battles, 0))
    return Verdicts(np.array(kept, dtype=np.int64), first, second, by_battle[0], by_battle[1] > 0.0, by_battle[2])
