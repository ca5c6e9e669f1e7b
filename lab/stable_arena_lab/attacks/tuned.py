"""Attackers who know the rule: honest-looking votes, and as many for the target as pay."""

from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, Indices, Mask
from app.rating.units import NATURAL_PER_ELO
from stable_arena_lab.attacks.arena import Arena, Crowd, Setup, Votes, count_attackers, draw_ballots, draw_crowd

ANY_GAP = 1e6
MOST_TIES = 0.49


@dataclass(frozen=True)
class Tuning:
    """How an attacker votes.

    Attributes
    ----------
    ability : of the votes that do not push: how strictly they follow the public leaderboard
    ties : share of ties in these votes, as a multiple of honest annotators'
    rate : share of the target's battles in which it gets the vote
    chosen : share of all battles that the attacker chooses; these are the target's, the others are uniform
    gap : Elo points; the attacker chooses, and pushes against, models whose public scores are within this of the
        target's, or the nearest one
    honest_first : share of the votes that are cast before the first push
    vendors : 2 splits the attackers in halves; the second half pushes the model that is `other` places from the target
    other : places, counted upwards on the public leaderboard
    """

    ability: float = 1.0
    ties: float = 1.0
    rate: float = 1.0
    chosen: float = 0.0
    gap: float = ANY_GAP
    honest_first: float = 0.0
    vendors: int = 1
    other: int = -1


TUNED: dict[str, Tuning] = {
    "able favourer": Tuning(ability=2.0),
    "tuned mimic": Tuning(ability=3.0, rate=0.85),
    "close pairs": Tuning(chosen=0.5, gap=150.0),
    "reputation first": Tuning(ability=2.0, honest_first=0.5),
    "two vendors": Tuning(ability=2.0, vendors=2),
}
"""Attacks of other designs than those of `STRATEGIES`."""


def draw_tuned(seed: int, tuning: Tuning, setup: Setup) -> Arena:
    """Draw an arena with attackers who are tuned so.

    The honest votes are those of `draw_arena`. Attackers of different tunings have the same random numbers, so that
    differences between two tunings are differences of their results.
    """
    crowd = draw_crowd(np.random.default_rng(seed), setup, count_attackers(setup))
    return attack_crowd(crowd, seed, tuning)


def attack_crowd(crowd: Crowd, seed: int, tuning: Tuning) -> Arena:
    """Add the attackers to a crowd."""
    setup, members = crowd.setup, np.flatnonzero(crowd.attacker)
    generator = np.random.default_rng([seed, 1])
    each = setup.attack_votes or setup.votes_each
    ballots = draw_ballots(members, each, setup.n_models, generator)
    draws = generator.random((5, len(ballots.annotator)))
    member = ballots.annotator - members[0]
    target = _targets(crowd, tuning)[member % tuning.vendors]
    left, right = _battles(ballots, crowd.public, target, tuning, draws)
    opponent = np.where(left == target, right, left)
    own = (left == target) | (right == target)
    age = np.tile((np.arange(each) + 0.5) / each, len(members))
    pushes = own & _near(crowd.public, target, tuning.gap)[np.arange(len(own)), opponent]
    pushes &= (age >= tuning.honest_first) & (draws[3] < tuning.rate)
    outcome = np.where(pushes, np.where(left == target, 1.0, 0.0), _vote(left, right, crowd, tuning, draws[4]))
    time = np.sort(ballots.time.reshape(len(members), each), axis=1).ravel()
    attack = Votes(ballots.annotator, left, right, outcome, time, len(crowd.attacker), setup.n_models)
    return crowd.arena("tuned", attack)


def _targets(crowd: Crowd, tuning: Tuning) -> Indices:
    """Return the model of each vendor."""
    order = np.argsort(crowd.public)
    place = int(np.flatnonzero(order == crowd.target)[0])
    return order[np.clip(place + tuning.other * np.arange(tuning.vendors), 0, len(order) - 1)]


def _near(public: Floats, target: Indices, gap: float) -> Mask:
    """Mark the models within the gap of each vote's target, and the nearest, shape (n_votes, n_models)."""
    distance = np.abs(public[None, :] - public[target][:, None])
    distance[np.arange(len(target)), target] = np.inf
    near: Mask = np.isfinite(distance) & (distance <= np.maximum(gap, distance.min(axis=1))[:, None])
    return near


def _battles(ballots: Votes, public: Floats, target: Indices, tuning: Tuning, draws: Floats) -> tuple[Indices, Indices]:
    """Return the models on the left and on the right of each battle."""
    near = _near(public, target, tuning.gap)
    nth = (draws[1] * near.sum(axis=1)).astype(np.int64)
    opponent = np.argmax(np.cumsum(near, axis=1) > nth[:, None], axis=1)
    chosen, first = draws[0] < tuning.chosen, draws[2] < 0.5  # noqa: PLR2004  a fair coin
    left = np.where(chosen, np.where(first, target, opponent), ballots.left)
    right = np.where(chosen, np.where(first, opponent, target), ballots.right)
    return left, right


def _vote(left: Indices, right: Indices, crowd: Crowd, tuning: Tuning, draw: Floats) -> Floats:
    """Vote by the public leaderboard with the attacker's own ability and readiness to tie."""
    x = tuning.ability * NATURAL_PER_ELO * (crowd.public[left] - crowd.public[right])
    p = 0.5 * (1.0 + np.tanh(0.5 * x))
    tie = 4.0 * p * (1.0 - p) * min(crowd.setup.tie_share * tuning.ties, MOST_TIES)
    return np.where(draw < p - tie / 2.0, 1.0, np.where(draw < p + tie / 2.0, 0.5, 0.0))
