"""A simulated arena under attack: honest annotators and attackers."""

from dataclasses import dataclass, field, replace

import numpy as np

from app.rating.arrays import Floats, Indices, Mask
from app.rating.simulation.worlds import draw_pairs
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate
from stable_arena_lab.attacks.honest import Honest, Variety, draw_honest
from stable_arena_lab.attacks.strategies import STRATEGIES, Scene
from stable_arena_lab.battles.pooled_arena import PUBLIC

LEAD = 10.0  # points between close leaders
TIE_SHARE = 0.32  # between equals; with scores that differ by 140 Elo points (sd) a quarter of all votes are ties


@dataclass(frozen=True)
class Setup:
    """The size of an arena, its attackers and its honest annotators.

    Attributes
    ----------
    n_annotators : including attackers
    votes_each : by every honest annotator, and by every attacker unless `attack_votes` says otherwise
    share : of the annotators who attack
    attack_votes : by every attacker; None means votes_each
    target : place of the target on the public leaderboard, counted from the last, which is 0
    leaders : so many of the best models have true scores 10 points apart, around their mean
    score_sd, ability_sd, tie_share, variety : of the models and the honest annotators
    """

    n_annotators: int = 42
    votes_each: int = 51
    n_models: int = 20
    share: float = 0.1
    attack_votes: int | None = None
    target: int = 1
    leaders: int = 0
    score_sd: float = 140.0
    ability_sd: float = 0.3
    tie_share: float = TIE_SHARE
    variety: Variety = field(default_factory=Variety)


@dataclass(frozen=True)
class Votes:
    """Votes with their sides and times, arrays of shape (n_votes,), each annotator's in the order of voting.

    Attributes
    ----------
    outcome : W for the left model
    time : distinct numbers, the order of all votes
    """

    annotator: Indices
    left: Indices
    right: Indices
    outcome: Floats
    time: Indices
    n_annotators: int
    n_models: int

    def cells(self) -> Cells:
        """Collapse to cells."""
        return aggregate(
            self.annotator, self.left, self.right, self.outcome,
            n_annotators=self.n_annotators, n_models=self.n_models,
        )  # fmt: skip

    def where(self, keep: Mask) -> "Votes":
        """Return the votes for which `keep` is true."""
        return replace(
            self,
            annotator=self.annotator[keep],
            left=self.left[keep],
            right=self.right[keep],
            outcome=self.outcome[keep],
            time=self.time[keep],
        )

    def turn(self) -> Indices:
        """Return the number of votes that the annotator cast before each vote."""
        order = np.lexsort((self.time, self.annotator))
        first = np.searchsorted(self.annotator[order], np.arange(self.n_annotators))
        turn = np.empty(len(order), dtype=np.int64)
        turn[order] = np.arange(len(order)) - first[self.annotator[order]]
        return turn


@dataclass(frozen=True)
class Arena:
    """One simulated arena under attack.

    Attributes
    ----------
    attacker : shape (n_annotators,)
    victim : honest annotators that the strategy targets, shape (n_annotators,)
    score : true scores, Elo points, mean 1000
    public : scores that the attackers saw
    target : the model that they raise
    """

    setup: Setup
    strategy: str
    votes: Votes
    attacker: Mask
    victim: Mask
    score: Floats
    public: Floats
    target: int

    def clean(self) -> Votes:
        """Return the honest votes."""
        return self.votes.where(~self.attacker[self.votes.annotator])


@dataclass(frozen=True)
class Crowd:
    """The honest part of an arena.

    Attributes
    ----------
    people : the honest annotators; those in whose place an attacker stands have no votes
    votes : the honest votes, numbered for all annotators
    """

    setup: Setup
    people: Honest
    votes: Votes
    attacker: Mask
    score: Floats
    public: Floats
    target: int

    def arena(self, strategy: str, attack: Votes | None, victim: Mask | None = None) -> Arena:
        """Return the arena with the votes of its attackers."""
        votes = self.votes if attack is None else join_votes(self.votes, attack)
        victim = np.zeros(len(self.attacker), dtype=bool) if victim is None else victim
        return Arena(self.setup, strategy, votes, self.attacker, victim, self.score, self.public, self.target)


def count_attackers(setup: Setup) -> int:
    """Return the number of attackers."""
    return max(1, round(setup.share * setup.n_annotators))


def draw_crowd(generator: np.random.Generator, setup: Setup, attackers: int) -> Crowd:
    """Draw the models, the honest annotators and their votes; the last annotators are the attackers."""
    score = setup.score_sd * generator.standard_normal(setup.n_models)
    if setup.leaders:
        best = np.argsort(-score)[: setup.leaders]
        score[best] = score[best].mean() + LEAD * ((setup.leaders - 1) / 2.0 - np.arange(setup.leaders))
    score += 1000.0 - score.mean()
    size = setup.n_annotators
    people = draw_honest(
        generator, score, size, ability_sd=setup.ability_sd, tie_share=setup.tie_share, variety=setup.variety
    )
    honest = draw_ballots(np.arange(size), setup.votes_each, setup.n_models, generator)
    honest = replace(honest, outcome=people.vote(honest.annotator, honest.left, honest.right, generator))
    attacker = np.arange(size) >= size - attackers
    kept = honest.where(~attacker[honest.annotator])
    board = run_round(kept.cells(), PUBLIC).models
    public = np.where(board.identified, board.score, board.score[board.identified].min())
    target = int(np.argsort(public)[setup.target])
    return Crowd(setup, people, kept, attacker, score, public, target)


def draw_arena(seed: int, strategy: str, setup: Setup) -> Arena:
    """Draw the models, the honest votes and the attack; "none" is no attack.

    The honest annotators and their votes depend on the seed and the setup, not on the strategy.
    """
    generator = np.random.default_rng(seed)
    if strategy == "none":
        return draw_crowd(generator, setup, 0).arena(strategy, None)
    crowd = draw_crowd(generator, setup, count_attackers(setup))
    victim = np.zeros(setup.n_annotators, dtype=bool)
    attack = _attack(
        strategy, setup, crowd.people, crowd.votes, crowd.attacker, victim, crowd.public, crowd.target, generator
    )
    return crowd.arena(strategy, attack, victim)


def draw_ballots(annotators: Indices, votes_each: int, n_models: int, generator: np.random.Generator) -> Votes:
    """Draw uniform pairs and times for these annotators; every outcome is 0."""
    annotator = np.repeat(annotators, votes_each)
    left, right = draw_pairs(generator, n_models, len(annotator))
    time = generator.permutation(len(annotator))
    return Votes(annotator, left, right, np.zeros(len(annotator)), time, int(annotators.max()) + 1, n_models)


def _attack(
    strategy: str,
    setup: Setup,
    people: Honest,
    kept: Votes,
    attacker: Mask,
    victim: Mask,
    public: Floats,
    target: int,
    generator: np.random.Generator,
) -> Votes:
    """Return the attackers' votes; mark the annotators that they target in `victim`."""
    members = np.flatnonzero(attacker)
    each = setup.attack_votes or setup.votes_each
    draft = draw_ballots(members, each, setup.n_models, generator)
    left, right = draft.left, draft.right
    time = np.sort(draft.time.reshape(len(members), each), axis=1).ravel()
    if strategy == "copycats":  # the same battles as the first member's, later
        left, right = (np.tile(side[:each], len(members)) for side in (left, right))
        time = np.sort(time).reshape(each, len(members)).T.ravel()
    honest = people.vote(draft.annotator, left, right, generator)
    if strategy == "framing-by-copy":
        victims = generator.choice(np.flatnonzero(~attacker), len(members), replace=len(members) > (~attacker).sum())
        victim[victims] = True
        left, right, honest, time = _repeat(kept, victims, each, time)
    scene = Scene(
        member=draft.annotator - members[0], left=left, right=right, honest=honest,
        age=np.tile((np.arange(each) + 0.5) / each, len(members)), public=public, target=target,
        tie_share=setup.tie_share,
    )  # fmt: skip
    outcome = STRATEGIES[strategy](scene, generator)
    return Votes(draft.annotator, left, right, outcome, time, len(attacker), setup.n_models)


def _repeat(kept: Votes, victims: Indices, each: int, time: Indices) -> tuple[Indices, Indices, Floats, Indices]:
    """Return one victim's votes for each attacker, repeated as often as needed, at later times."""
    rows = np.concatenate([np.resize(np.flatnonzero(kept.annotator == victim), each) for victim in victims])
    return kept.left[rows], kept.right[rows], kept.outcome[rows], time + int(kept.time.max()) + 1


def join_votes(one: Votes, other: Votes) -> Votes:
    """Join both; their times cover the same span and stay distinct."""
    latest = max(int(one.time.max()), int(other.time.max())) + 1
    span = [votes.time * (latest / (int(votes.time.max()) + 1)) for votes in (one, other)]
    if int(other.time.min()) > int(one.time.max()):
        span = [one.time.astype(np.float64), other.time.astype(np.float64)]
    time = np.argsort(np.argsort(np.concatenate(span), kind="stable"), kind="stable")
    return Votes(
        annotator=np.concatenate([one.annotator, other.annotator]),
        left=np.concatenate([one.left, other.left]),
        right=np.concatenate([one.right, other.right]),
        outcome=np.concatenate([one.outcome, other.outcome]),
        time=time,
        n_annotators=one.n_annotators,
        n_models=one.n_models,
    )
