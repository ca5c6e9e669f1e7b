"""Framing in a niche: attackers outvote the few honest judges of a handful of models, so that these seem to be bad."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.settings import TASTE_TESTS, LoopSettings
from app.rating.simulation.worlds import draw_pairs
from stable_arena_lab.attacks.arena import Votes
from stable_arena_lab.attacks.honest import Variety, draw_honest
from stable_arena_lab.defences.gains import FLAGGED, rate
from stable_arena_lab.parallel import Progress, map_seeds
from stable_arena_lab.spread import mean_or_none, se_or_none


@dataclass(frozen=True)
class Niche:
    """The size of an arena with a niche.

    Attributes
    ----------
    models, own : of the arena, and of the niche among them
    crowd, judges, framers : annotators who vote on the other models, honest judges of the niche, and attackers
    votes_each, framer_votes : of the honest annotators, and of every attacker
    stray : share of the crowd's votes in which one model is of the niche, so that all models are connected
    """

    models: int = 20
    own: int = 5
    crowd: int = 32
    judges: int = 10
    framers: int = 4
    votes_each: int = 51
    framer_votes: int = 200
    stray: float = 0.05
    score_sd: float = 140.0
    tie_share: float = 0.32


@dataclass(frozen=True)
class Framed:
    """Shares of annotators that a leaderboard's rule flags, means over the crowds.

    Attributes
    ----------
    judges, attackers : of the niche, flagged
    acted : judges of the niche, flagged by what may exclude: by more than a test about a model
    judges_se, acted_se : standard errors over the crowds
    crowd : the other honest annotators, flagged by what may exclude
    """

    board: str
    framers: int
    judges: float | None
    judges_se: float | None
    acted: float | None
    acted_se: float | None
    crowd: float | None
    attackers: float | None


def draw_niche(seed: int, niche: Niche) -> Votes:
    """Draw the votes: the crowd's first, then the judges', then those of attackers, who turn the niche's ranking over.

    The models of the niche are the last.
    """
    generator = np.random.default_rng(seed)
    score = 1000.0 + niche.score_sd * generator.standard_normal(niche.models)
    honest = niche.crowd + niche.judges
    people = draw_honest(
        generator, score, honest, ability_sd=0.3, tie_share=niche.tie_share, variety=Variety()
    )  # fmt: skip
    first = niche.models - niche.own
    annotator = np.repeat(np.arange(honest), niche.votes_each)
    left, right = draw_pairs(generator, first, len(annotator))
    inside = draw_pairs(generator, niche.own, len(annotator))
    judges = annotator >= niche.crowd
    left, right = np.where(judges, first + inside[0], left), np.where(judges, first + inside[1], right)
    stray = ~judges & (generator.random(len(annotator)) < niche.stray)
    left = np.where(stray, first + inside[0], left)
    outcome = people.vote(annotator, left, right, generator)
    member = np.repeat(np.arange(niche.framers), niche.framer_votes)
    own_left, own_right = (first + side for side in draw_pairs(generator, niche.own, len(member)))
    against = _follow(-score, own_left, own_right)
    return Votes(
        np.concatenate([annotator, honest + member]),
        np.concatenate([left, own_left]),
        np.concatenate([right, own_right]),
        np.concatenate([outcome, against]),
        np.arange(len(annotator) + len(member)),
        honest + niche.framers,
        niche.models,
    )


def measure_framing(
    niche: Niche,
    boards: Mapping[str, LoopSettings],
    *,
    seeds: Sequence[int],
    processes: int = 1,
    progress: Progress | None = None,
) -> list[Framed]:
    """Count the honest judges of the niche that each leaderboard's rule flags."""
    work = partial(_frame_once, niche=niche, boards=boards)
    trials = map_seeds(work, seeds, processes=processes, progress=progress)
    results = []
    for board in boards:
        judges, acted, crowd, attackers = zip(*[trial[board] for trial in trials], strict=True)
        results.append(
            Framed(
                board, niche.framers, mean_or_none(judges), se_or_none(judges), mean_or_none(acted), se_or_none(acted),
                mean_or_none(crowd), mean_or_none(attackers),
            )
        )  # fmt: skip
    return results


def _frame_once(seed: int, *, niche: Niche, boards: Mapping[str, LoopSettings]) -> dict[str, tuple[float, ...]]:
    votes, found = draw_niche(seed, niche), dict[str, tuple[float, ...]]()
    judges = slice(niche.crowd, niche.crowd + niche.judges)
    for name, settings in boards.items():
        rating = rate(votes, settings)
        if rating is None:
            found[name] = (float("nan"),) * 4
            continue
        marked = np.isin(rating.annotators.standing, FLAGGED)
        acted, attackers = marked & ~np.isin(rating.annotators.rule, TASTE_TESTS), marked[judges.stop :]
        parts = marked[judges], acted[judges], acted[: niche.crowd], attackers
        found[name] = tuple(float(part.mean()) if len(part) else float("nan") for part in parts)
    return found


def _follow(score: Floats, left: Indices, right: Indices) -> Floats:
    return np.where(score[left] >= score[right], 1.0, 0.0)
