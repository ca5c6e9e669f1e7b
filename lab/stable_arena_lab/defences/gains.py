"""What an attack gains on each leaderboard, and which annotators the rule finds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from app.rating.arrays import Floats, Mask
from app.rating.errors import RatingError
from app.rating.settings import LoopSettings
from app.rating.types.evidence import Weigher
from app.rating.verdict.rating import Rating
from app.rating.verdict.round import run_round
from app.rating.votes.features import SidedCells
from stable_arena_lab.attacks.arena import Arena, Setup, Votes, count_attackers, draw_arena, draw_crowd
from stable_arena_lab.attacks.tuned import Tuning, attack_crowd
from stable_arena_lab.parallel import Progress, map_seeds
from stable_arena_lab.spread import mean_or_none, sd_or_none, se_or_none

FLAGGED = ("flagged", "excluded")
Mark = Callable[[str, Rating], Mask]
"""Which annotators a leaderboard, named first, marks."""
SERVICE = LoopSettings(min_votes=0, interval="none")
BOARDS: dict[str, LoopSettings] = {
    "m-elo": replace(SERVICE, method="m-elo", flag_rule="threshold"),
    "flagged stay": SERVICE,
    "flagged excluded": replace(SERVICE, exclude=True),
}
"""Leaderboards to attack: Bradley-Terry's, the service's by default, and the service's with exclusion."""
PLAIN = "m-elo"  # Bradley-Terry's, with which the others are compared


def boards_with(influence_limit: float | None) -> dict[str, LoopSettings]:
    """Return the leaderboards with another limit of influence."""
    return {name: replace(settings, influence_limit=influence_limit) for name, settings in BOARDS.items()}


@dataclass(frozen=True)
class Outcome:
    """What one attack did to one leaderboard; NaN where the fit failed.

    Attributes
    ----------
    ranks, points : gained by the target, relative to the same leaderboard of the honest votes
    found, wronged : shares of the attackers, and of the honest annotators, that the leaderboard's rule flags
    """

    ranks: float
    points: float
    found: float
    wronged: float


@dataclass(frozen=True)
class Gain:
    """The outcomes of an attack on a leaderboard over the arenas: means and standard deviations.

    Attributes
    ----------
    beyond, beyond_se : ranks gained beyond what the same votes gain under Bradley-Terry, and their standard error
    """

    board: str
    ranks: float | None
    ranks_sd: float | None
    beyond: float | None
    beyond_se: float | None
    points: float | None
    points_sd: float | None
    found: float | None
    wronged: float | None
    failed: int


def mark_flagged(board: str, rating: Rating) -> Mask:  # noqa: ARG001  the signature of every rule
    """Return the annotators that the leaderboard's rule flags or excludes, shape (n_annotators,)."""
    return np.isin(rating.annotators.standing, FLAGGED)


class Contest:
    """One crowd under attack: its leaderboards without the attackers are fitted once."""

    def __init__(
        self, seed: int, setup: Setup, boards: Mapping[str, LoopSettings] = BOARDS, mark: Mark = mark_flagged
    ) -> None:
        self.seed, self.setup, self.boards, self.mark = seed, setup, boards, mark
        self.crowd = draw_crowd(np.random.default_rng(seed), setup, count_attackers(setup))
        self.before = {name: rate(self.crowd.votes, settings) for name, settings in boards.items()}

    def attack(self, attack: str | Tuning) -> dict[str, Outcome]:
        """Let the attackers vote, and compare every leaderboard with the one before.

        Parameters
        ----------
        attack : of `STRATEGIES`, or a tuning
        """
        arena = self.draw(attack)
        return {name: self._compare(arena, name) for name in self.boards}

    def draw(self, attack: str | Tuning) -> Arena:
        """Draw the attackers' votes."""
        if isinstance(attack, Tuning):
            return attack_crowd(self.crowd, self.seed, attack)
        return draw_arena(self.seed, attack, self.setup)

    def _compare(self, arena: Arena, board: str) -> Outcome:
        before, after, target = self.before[board], rate(arena.votes, self.boards[board]), arena.target
        if before is None or after is None:
            return Outcome(*[float("nan")] * 4)
        marked = self.mark(board, after)
        old, new = (place(rating, target) for rating in (before, after))
        found, wronged = float(marked[arena.attacker].mean()), float(marked[~arena.attacker].mean())
        return Outcome(old[0] - new[0], new[1] - old[1], found, wronged)


def rate(votes: Votes, settings: LoopSettings) -> Rating | None:
    """Rate the votes as the service does, with the sides; None where the fit fails."""
    cells = votes.cells()
    weigher = None
    if settings.method == "am-elo" and settings.flag_rule == "evidence":
        weigher = Weigher(SidedCells.of_votes(
            votes.annotator, votes.left, votes.right, votes.outcome,
            n_annotators=votes.n_annotators, n_models=votes.n_models,
        ), settings.evidence_tests)  # fmt: skip
    try:
        return run_round(cells, settings, weigher=weigher)
    except RatingError:
        return None


def measure(
    attack: str | Tuning,
    setup: Setup,
    *,
    seeds: Sequence[int],
    boards: Mapping[str, LoopSettings] = BOARDS,
    processes: int = 1,
    progress: Progress | None = None,
) -> list[Gain]:
    """Attack an arena for each seed; one result for each leaderboard."""
    work = partial(_attack_once, attack=attack, setup=setup, boards=boards)
    outcomes = map_seeds(work, seeds, processes=processes, progress=progress)
    return [summarise(name, outcomes) for name in boards]


def summarise(board: str, trials: Sequence[Mapping[str, Outcome]]) -> Gain:
    """Return means and standard deviations over the arenas; every trial has Bradley-Terry's leaderboard too."""
    outcomes = [each[board] for each in trials]
    ranks, points = [one.ranks for one in outcomes], [one.points for one in outcomes]
    beyond = [each[board].ranks - each[PLAIN].ranks for each in trials]
    failed = int(np.isnan(ranks).sum())
    found, wronged = (mean_or_none(getattr(one, name) for one in outcomes) for name in ("found", "wronged"))
    return Gain(
        board, mean_or_none(ranks), sd_or_none(ranks), mean_or_none(beyond), se_or_none(beyond),
        mean_or_none(points), sd_or_none(points), found, wronged, failed,
    )  # fmt: skip


def _attack_once(
    seed: int, *, attack: str | Tuning, setup: Setup, boards: Mapping[str, LoopSettings]
) -> dict[str, Outcome]:
    return Contest(seed, setup, boards).attack(attack)


def place(rating: Rating, target: int) -> tuple[float, float]:
    """Return the rank and the score of the target."""
    models = rating.models
    score: Floats = models.score
    return float(models.rank[target]), float(score[target])
