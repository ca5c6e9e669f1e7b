"""How soon calibration battles show who an annotator is: what δ can be for the same error rates."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.settings import PairPolicy, SamplingSettings
from stable_arena_lab.attacks.arena import TIE_SHARE, Votes
from stable_arena_lab.attacks.honest import Variety, draw_honest
from stable_arena_lab.attacks.strategies import Scene, coin
from stable_arena_lab.battles.rounds import draw_battles, tabulate, vote_in_rounds
from stable_arena_lab.defences.review_trial import ReviewTrial
from stable_arena_lab.defences.trial import EVERYONE
from stable_arena_lab.parallel import Progress, map_seeds

MODELS, SCORE_SD, ABILITY_SD = 20, 140.0, 0.3
REGULARS, REGULAR_VOTES, ROUNDS = 100, 100, 3
NEW: Mapping[str, int] = {"honest": 40, "coin": 10, "contrary": 10}
FLAT, LONGEST = 1e-6, 20.0  # of log-odds by the logarithm of the votes; logarithm of the most votes
REFERENCE = 51  # votes of an annotator just past the default δ


@dataclass(frozen=True)
class Detection:
    """What the service's rule finds among new annotators with so many votes each, over the arenas.

    Attributes
    ----------
    calibration : share of their battles that are calibration battles
    coins, contrary : shares of those that are found
    wronged : share of the honest ones that are flagged
    """

    arenas: int
    calibration: float
    votes: int
    coins: float
    contrary: float
    wronged: float


@dataclass(frozen=True)
class LeastVotes:
    """Votes from which on a share of calibration battles errs no more than none does at 51 votes.

    Attributes
    ----------
    coins, contrary : to find as many of them
    wronged : to flag no more honest annotators
    all : for all three; each None where more votes do not help in the arenas that were drawn
    """

    calibration: float
    coins: float | None
    contrary: float | None
    wronged: float | None
    all: float | None


def measure_calibration(
    *,
    seeds: Sequence[int],
    votes: Sequence[int],
    shares: Sequence[float],
    policy: PairPolicy = "mixed",
    processes: int = 1,
    progress: Progress | None = None,
) -> list[Detection]:
    """Let new annotators join an arena of 20 models and 100 honest annotators, and flag them by the service's rule.

    Parameters
    ----------
    votes : of each new annotator
    shares : of calibration battles, 0 among them; the others are drawn by the policy
    """
    work = partial(_try, votes=tuple(votes), shares=tuple(shares), policy=policy)
    trials = map_seeds(work, seeds, processes=processes, progress=progress)
    rows = []
    for share in shares:
        for number in votes:
            coins, contrary, wronged = np.mean([trial[share, number] for trial in trials], axis=0).tolist()
            rows.append(Detection(len(trials), share, number, coins, contrary, wronged))
    return rows


def find_least_votes(rows: Sequence[Detection], reference: int = REFERENCE) -> list[LeastVotes]:
    """Find for each share from how many votes on it errs no more than no calibration does at `reference` votes.

    The log-odds of being found, and of being wronged, are taken as linear in the logarithm of the votes.
    """
    shares = list(dict.fromkeys(row.calibration for row in rows))
    curves = {share: _curves([row for row in rows if row.calibration == share]) for share in shares}
    wanted = [intercept + slope * math.log(reference) for slope, intercept in curves[0.0]]
    found = []
    for share in shares:
        coins, contrary, wronged = needed = [
            _least(sign, *curve, goal) for sign, curve, goal in zip((1, 1, -1), curves[share], wanted, strict=True)
        ]
        known = [votes for votes in needed if votes is not None]
        found.append(LeastVotes(share, coins, contrary, wronged, max(known) if len(known) == len(needed) else None))
    return found


def _least(sign: int, slope: float, intercept: float, goal: float) -> float | None:
    """Return from how many votes a curve reaches the goal; None where it does not rise (fall, if the sign is −1)."""
    if sign * slope <= FLAT:
        return None
    return math.exp(min((goal - intercept) / slope, LONGEST))


def _curves(rows: Sequence[Detection]) -> list[tuple[float, float]]:
    """Return slope and intercept of the log-odds of `coins`, `contrary` and `wronged`, by weighted least squares."""
    log_votes = np.log([row.votes for row in rows])
    curves = []
    for name, role in (("coins", "coin"), ("contrary", "contrary"), ("wronged", "honest")):
        least = 0.5 / (rows[0].arenas * NEW[role])
        share = np.clip([getattr(row, name) for row in rows], least, 1.0 - least)
        slope, intercept = np.polyfit(log_votes, np.log(share / (1.0 - share)), 1, w=np.sqrt(share * (1.0 - share)))
        curves.append((float(slope), float(intercept)))
    return curves


def _try(
    seed: int, *, votes: Sequence[int], shares: Sequence[float], policy: PairPolicy
) -> dict[tuple[float, int], tuple[float, float, float]]:
    generator = np.random.default_rng(seed)
    score = 1000.0 + SCORE_SD * generator.standard_normal(MODELS)
    newcomers = sum(NEW.values())
    people = draw_honest(
        generator, score, REGULARS + newcomers, ability_sd=ABILITY_SD, tie_share=TIE_SHARE, variety=Variety()
    )
    vote, sampling = partial(people.vote, generator=generator), SamplingSettings(policy)
    regular = vote_in_rounds(
        vote, sampling, generator, n_annotators=REGULARS, n_models=MODELS, votes_each=REGULAR_VOTES, rounds=ROUNDS
    )
    table, role = tabulate(regular.cells(), sampling), np.repeat(list(NEW), list(NEW.values()))
    found = {}
    for share in shares:
        for number in votes:
            member = np.repeat(np.arange(newcomers), number)
            left, right = draw_battles(table, len(member), generator, calibration=share)
            outcome = _vote(role[member], vote(REGULARS + member, left, right), left, right, score, generator)
            together = Votes(
                np.concatenate([regular.annotator, REGULARS + member]),
                np.concatenate([regular.left, left]), np.concatenate([regular.right, right]),
                np.concatenate([regular.outcome, outcome]), np.arange(len(regular.annotator) + len(member)),
                REGULARS + newcomers, MODELS,
            )  # fmt: skip
            flagged = ReviewTrial(together, EVERYONE).service()[REGULARS:]
            coins, contrary, honest = (float(flagged[role == each].mean()) for each in ("coin", "contrary", "honest"))
            found[share, number] = coins, contrary, honest
    return found


def _vote(
    role: np.ndarray, honest: Floats, left: Indices, right: Indices, score: Floats, generator: np.random.Generator
) -> Floats:
    """Return the outcomes of the new annotators, each by their role."""
    scene = Scene(left, left, right, honest, np.zeros(len(left)), score, 0, TIE_SHARE)
    return np.select([role == "coin", role == "contrary"], [coin(scene, generator), 1.0 - honest], honest)
