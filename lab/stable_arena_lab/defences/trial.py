"""The arenas of one seed: every strategy against every leaderboard and every rule."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.rating.arrays import Mask
from app.rating.settings import LoopSettings
from stable_arena_lab.attacks.arena import Arena, Setup, Votes, draw_arena
from stable_arena_lab.defences.gains import BOARDS, place, rate
from stable_arena_lab.defences.review_trial import RULES, ReviewTrial

NO_ATTACK = "none"
EVERYONE = LoopSettings(min_votes=0, flag_rule="threshold", interval="none", influence_limit=None)
ESTIMATORS: dict[str, LoopSettings] = {
    "am-elo plain": replace(EVERYONE, prior_sd=None),
    "unweighed": EVERYONE,
    **BOARDS,
}
"""Leaderboards of all annotators; "unweighed" is penalised am-ELO without weights of votes."""

WITHOUT: dict[str, tuple[str, str]] = {
    "flagged removed": ("flagged stay", "the service's"),
    "unweighed, less Chatbot Arena's": ("unweighed", "Chatbot Arena, α .1"),
}
"""Leaderboards of an estimator without the annotators that a rule flags."""


@dataclass(frozen=True)
class Effect:
    """The effect of an attack on its target on one leaderboard; NaN where the fit failed.

    Attributes
    ----------
    ranks, points : gained by the target, relative to the same leaderboard of the honest votes
    """

    strategy: str
    board: str
    seed: int
    ranks: float
    points: float


@dataclass(frozen=True)
class Finding:
    """The annotators that one rule flagged.

    Attributes
    ----------
    found : share of the attackers; NaN without an attack
    wronged : share of the honest annotators (false positives)
    """

    strategy: str
    rule: str
    seed: int
    found: float
    wronged: float


@dataclass(frozen=True)
class Trial:
    """All effects and findings of one seed."""

    effects: list[Effect]
    findings: list[Finding]


def try_seed(
    seed: int, *, setup: Setup, strategies: Sequence[str], boards: bool = True, rules: Sequence[str] | None = None
) -> Trial:
    """Draw one arena for each strategy, and compute every leaderboard and every rule on it.

    Parameters
    ----------
    strategies : of `STRATEGIES`, or "none" for no attack
    boards : whether to compute leaderboards too, not only the rules
    rules : of `RULES`; default all
    """
    effects: list[Effect] = []
    findings: list[Finding] = []
    reference: dict[str, tuple[float, float]] = {}
    for strategy in strategies:
        arena = draw_arena(seed, strategy, setup)
        review = ReviewTrial(arena.votes, LoopSettings(min_votes=0, flag_rule="threshold"), seed)
        marks = {name: RULES[name](review) for name in rules or RULES}
        for name, marked in marks.items():
            findings.append(_find(arena, name, seed, marked))
        if boards and strategy != NO_ATTACK:
            if not reference:
                reference = _boards(arena.clean(), arena.target, {})
            for board, (rank, score) in _boards(arena.votes, arena.target, marks).items():
                clean_rank, clean_score = reference[board if board in reference else WITHOUT[board][0]]
                effects.append(Effect(strategy, board, seed, clean_rank - rank, score - clean_score))
    return Trial(effects, findings)


def _find(arena: Arena, rule: str, seed: int, marked: Mask) -> Finding:
    found = float(marked[arena.attacker].mean()) if arena.attacker.any() else float("nan")
    return Finding(arena.strategy, rule, seed, found, float(marked[~arena.attacker].mean()))


def _boards(votes: Votes, target: int, marks: dict[str, Mask]) -> dict[str, tuple[float, float]]:
    """Return the rank and score of the target on every leaderboard."""
    places = {name: find_place(votes, settings, target) for name, settings in ESTIMATORS.items()}
    for board, (estimator, rule) in WITHOUT.items():
        if rule in marks:
            places[board] = find_place(votes.where(~marks[rule][votes.annotator]), ESTIMATORS[estimator], target)
    return places


def find_place(votes: Votes, settings: LoopSettings, target: int) -> tuple[float, float]:
    """Return the rank and the score of the target, NaN where the fit fails."""
    rating = rate(votes, settings)
    return (float("nan"), float("nan")) if rating is None else place(rating, target)
