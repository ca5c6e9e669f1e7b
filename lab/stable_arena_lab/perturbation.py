"""Perturbs the votes of some annotators, rates again and detects them: the am-ELO paper's Figures 6 and 7."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from app.rating.arrays import Floats, Mask
from app.rating.settings import LoopSettings
from app.rating.units import papers_gauge
from stable_arena_lab.agreement import TIE, f1_score, ranking_agreement
from stable_arena_lab.arenas import PAPER_ANNOTATORS, Arena
from stable_arena_lab.methods import ELO_SHUFFLES, METHODS, Method, Rated, rate
from stable_arena_lab.parallel import Progress, map_seeds
from stable_arena_lab.spread import mean_or_none, sd_or_none

Strategy = Literal["random", "equal", "flip", "mixed"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
PAPER_EPSILON = 0.005
ROUNDING = 1e-9
"""An annotator who always ties has a maximum likelihood ability of exactly 0, which is at ε = 0: allow for rounding."""

Rule = Literal["0", "0.21 of the mean", "0.2, the default"]
RULES: Mapping[Rule, Callable[[Floats], float]] = {
    "0": lambda _: 0.0,
    "0.21 of the mean": lambda ability: PAPER_EPSILON * PAPER_ANNOTATORS * float(ability.mean()),
    "0.2, the default": lambda _: LoopSettings().min_ability,
}
"""Rule → ε in published units: the paper's two (0.005 for Σθ = 1 and 42 annotators) and this project's default."""
WITH_ABILITIES: tuple[Method, ...] = ("am-elo plain", "am-elo robust")


@dataclass(frozen=True)
class Stability:
    """How much a method's ranking changes, over the repeats.

    Attributes
    ----------
    consistency, consistency_sd : share of the pairs of models in the same order as before, by the same method
    left : inconsistency (1 − consistency) ÷ m-ELO's, over the repeats in which both have a result; None where m-ELO's
        is 0
    truth : share of the pairs in the true order; None for a file
    answered : repeats in which the method has a result, before and after
    """

    strategy: Strategy
    share: float
    method: Method
    consistency: float | None
    consistency_sd: float | None
    left: float | None
    truth: float | None
    repeats: int
    answered: int


@dataclass(frozen=True)
class Detection:
    """How well a rule finds the perturbed annotators, over the repeats.

    Attributes
    ----------
    f1, f1_sd : of finding the perturbed annotators; None where there are none
    found : share of the perturbed annotators that are found; None where there are none
    wronged : share of the others that are flagged (false positives)
    """

    strategy: Strategy
    share: float
    method: Method
    rule: Rule
    f1: float | None
    f1_sd: float | None
    found: float | None
    wronged: float | None
    answered: int


@dataclass(frozen=True)
class AbilityPoint:
    """An annotator's ability before and after a perturbation; one point of the paper's Figure 6.

    Attributes
    ----------
    before, after : published units
    paper_before, paper_after : in the paper's gauge, where all annotators' sum to 1
    """

    strategy: Strategy
    share: float
    method: Method
    annotator: int
    perturbed: bool
    before: float
    after: float
    paper_before: float
    paper_after: float


@dataclass(frozen=True)
class _Case:
    """One perturbed arena: the perturbed annotators, and each method's result with its agreement to before."""

    bad: Mask
    before: Mapping[Method, Rated | None]
    after: Mapping[Method, Rated | None]
    consistency: Mapping[Method, float]
    truth: Mapping[Method, float]


def perturb(
    outcome: Floats, annotator: NDArray[np.integer], bad: Mask, strategy: Strategy,
    generator: np.random.Generator,
) -> Floats:  # fmt: skip
    """Change the votes of the `bad` annotators as the am-ELO paper does (Section 5.5).

    random: a vote becomes a tie or a vote for the other model, with equal probability. equal: all become ties. flip:
    the winner is swapped. mixed: one of the three, drawn for each vote. Ties stay ties under each.
    """
    coin = generator.random(len(outcome)) < 0.5  # noqa: PLR2004  a coin
    changed = {
        "random": np.where(coin, TIE, 1.0 - outcome),
        "equal": np.full(len(outcome), TIE),
        "flip": 1.0 - outcome,
    }
    if strategy == "mixed":
        new = np.choose(generator.integers(0, len(changed), len(outcome)), list(changed.values()))
    else:
        new = changed[strategy]
    return np.where(bad[annotator], new, outcome)


def perturb_and_rate(
    source: Callable[[int], Arena],
    seeds: Sequence[int],
    *,
    strategies: Sequence[Strategy] = STRATEGIES,
    shares: Sequence[float] = SHARES,
    shuffles: int = ELO_SHUFFLES,
    processes: int = 1,
    progress: Progress | None = None,
) -> tuple[list[Stability], list[Detection], list[AbilityPoint]]:
    """Perturb a random share of the annotators for every seed, rate again, and summarise over the seeds.

    The abilities returned are those of the first seed.

    Parameters
    ----------
    source : returns the arena of a seed; for a file always the same
    shares : of the annotators, 0 to 0.5
    shuffles : of Elo
    """
    work = partial(_perturb_once, source, tuple(strategies), tuple(shares), shuffles)
    repeats = map_seeds(work, seeds, processes=processes, progress=progress)
    stabilities, detections, points = [], [], []
    for strategy in strategies:
        for share in shares:
            cases = [repeat[strategy, share] for repeat in repeats]
            stabilities += [_stability(strategy, share, method, cases) for method in METHODS]
            detections += [
                _detection(strategy, share, method, rule, cases) for method in WITH_ABILITIES for rule in RULES
            ]
            points += [point for method in WITH_ABILITIES for point in _points(strategy, share, method, cases[0])]
    return stabilities, detections, points


def _perturb_once(
    source: Callable[[int], Arena], strategies: Sequence[Strategy], shares: Sequence[float], shuffles: int, seed: int
) -> dict[tuple[Strategy, float], _Case]:
    arena = source(seed)
    before = {method: rate(arena, method, seed=seed, shuffles=shuffles) for method in METHODS}
    generator = np.random.default_rng([seed, 1])
    order = generator.permutation(arena.n_annotators)  # a larger share contains the smaller one
    cases = {}
    for strategy in strategies:
        for share in shares:
            bad = np.zeros(arena.n_annotators, dtype=bool)
            bad[order[: round(share * arena.n_annotators)]] = True
            outcome = perturb(arena.outcome, arena.annotator, bad, strategy, generator)
            perturbed = arena.with_outcome(outcome)
            # another seed, because Elo's shuffles are part of its inconsistency
            after = {method: rate(perturbed, method, seed=seed + 1, shuffles=shuffles) for method in METHODS}
            cases[strategy, share] = _Case(
                bad,
                before,
                after,
                {method: _agreement(before[method], after[method]) for method in METHODS},
                {method: _with_truth(after[method], arena.truth) for method in METHODS},
            )
    return cases


def _points(strategy: Strategy, share: float, method: Method, case: _Case) -> list[AbilityPoint]:
    before, after = case.before[method], case.after[method]
    if before is None or after is None:
        return []
    published = (before.ability, after.ability)
    points = zip(*published, *map(papers_gauge, published), strict=True)
    return [
        AbilityPoint(strategy, share, method, k, bool(case.bad[k]), *map(float, point))
        for k, point in enumerate(points)
    ]


def _agreement(before: Rated | None, after: Rated | None) -> float:
    return float("nan") if before is None or after is None else ranking_agreement(before.score, after.score)


def _with_truth(after: Rated | None, truth: Floats | None) -> float:
    return float("nan") if after is None or truth is None else ranking_agreement(after.score, truth)


def _stability(strategy: Strategy, share: float, method: Method, cases: Sequence[_Case]) -> Stability:
    values = [case.consistency[method] for case in cases]
    both = [(value, case.consistency["m-elo"]) for value, case in zip(values, cases, strict=True)]
    known = [(1.0 - value, 1.0 - m_elo) for value, m_elo in both if not np.isnan(value + m_elo)]
    lost, of_m_elo = sum(value for value, _ in known), sum(m_elo for _, m_elo in known)
    return Stability(
        strategy=strategy,
        share=share,
        method=method,
        consistency=mean_or_none(values),
        consistency_sd=sd_or_none(values),
        left=lost / of_m_elo if of_m_elo > 0 else None,
        truth=mean_or_none(case.truth[method] for case in cases),
        repeats=len(cases),
        answered=sum(not np.isnan(value) for value in values),
    )


def _detection(strategy: Strategy, share: float, method: Method, rule: Rule, cases: Sequence[_Case]) -> Detection:
    f1, found, wronged = [], [], []
    for case in cases:
        rated = case.after[method]
        if rated is None:
            continue
        low = rated.ability <= RULES[rule](rated.ability) + ROUNDING
        f1.append(f1_score(low, case.bad) if case.bad.any() else float("nan"))
        found.append(float(low[case.bad].mean()) if case.bad.any() else float("nan"))
        wronged.append(float(low[~case.bad].mean()))
    return Detection(
        strategy=strategy,
        share=share,
        method=method,
        rule=rule,
        f1=mean_or_none(f1),
        f1_sd=sd_or_none(f1),
        found=mean_or_none(found),
        wronged=mean_or_none(wronged),
        answered=len(wronged),
    )
