"""When an arena that looks at its leaderboard after every batch of votes stops, and whether it is right."""

from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.sampling.policies import weigh_pairs
from app.rating.sampling.scored_models import scored_models
from app.rating.settings import LoopSettings, PairPolicy, SamplingSettings, VerdictRule
from app.rating.simulation.worlds import World, draw_pairs, make_world
from app.rating.verdict.confidence import join_scores, measure_confidence
from app.rating.verdict.order import Verdict, decide
from app.rating.verdict.rating import Rating, estimate
from app.rating.votes.cells import aggregate


@dataclass(frozen=True)
class Run:
    """One arena, looked at after every batch until its last.

    Attributes
    ----------
    verdict : on the best k when the first look gave one; "not-yet" when none did
    votes : counted then; None when no look gave a verdict
    wrong : whether a look ever said "decided" of models that are not the best k
    naive_wrong : the same for an arena that stops once the 95 % interval of each difference by itself excludes 0
    forecast : of how many votes there would be at the verdict: its 10 %, 50 % and 90 % points, from the first look at
        `forecast_at` votes or more; None when the verdict came before
    """

    verdict: Verdict
    votes: int | None
    wrong: bool
    naive_wrong: bool
    forecast: tuple[float, float, float] | None


def make_close_world(generator: np.random.Generator, *, n_models: int, annotators: int, k: int, lead: float) -> World:
    """Return a world whose models k and k + 1 are `lead` Elo points apart."""
    world = make_world(generator, n_models=n_models, roles={"honest": annotators})
    order = np.argsort(-world.score)
    world.score[order[k:]] += world.score[order[k - 1]] - lead - world.score[order[k]]
    return world


def run_arena(
    world: World, generator: np.random.Generator, *,
    batches: int, votes_each: int = 60, k: int = 1, policy: PairPolicy = "uniform", tied: bool = False,
    rule: VerdictRule | None = None, forecast_at: float | None = None,
) -> Run:  # fmt: skip
    """Let a world's annotators come in batches, refit and look after each.

    Parameters
    ----------
    batches : the annotators come in so many batches of equal size, with `votes_each` votes each
    policy : how pairs are chosen, from the leaderboard of the batch before
    tied : models k and k + 1 of the world are equal, so that every "decided" is wrong
    forecast_at : votes from which a forecast is made; None for no forecast
    """
    rule, settings = rule or VerdictRule(), LoopSettings(flag_rule="threshold")
    sampling = SamplingSettings(policy=policy, k=k)
    truth = set(np.argsort(-world.score)[:k].tolist())
    n_models, n_annotators = len(world.score), len(world.ability)
    annotator, model_a, model_b = (np.empty(0, dtype=np.int64) for _ in range(3))
    outcome, fitted = np.empty(0), None
    verdict: Verdict = "not-yet"
    stopped, wrong, naive, forecast = None, False, False, None
    for newcomers in np.array_split(np.arange(n_annotators), batches):
        voters = np.repeat(newcomers, votes_each)
        a, b = _choose(generator, fitted, sampling, n_models, len(voters))
        annotator, model_a, model_b = np.append(annotator, voters), np.append(model_a, a), np.append(model_b, b)
        outcome = np.append(outcome, world.vote(voters, a, b, generator))
        cells = aggregate(annotator, model_a, model_b, outcome, n_annotators=n_annotators, n_models=n_models)
        fitted = estimate(cells, settings, None if fitted is None else fitted.optimum)
        joint = join_scores(fitted)
        if joint is None or not fitted.identified.all():
            continue
        found = decide(joint, k, rule)
        mistaken = tied or set(joint.models[:k].tolist()) != truth
        wrong |= found.verdict == "decided" and mistaken
        naive |= bool((found.gap > 1.96 * joint.errors[:k, k:]).all()) and mistaken
        if stopped is None and found.verdict != "not-yet":
            verdict, stopped = found.verdict, len(outcome)
        if forecast_at is not None and forecast is None and stopped is None and len(outcome) >= forecast_at:
            forecast = _forecast(fitted, rule, sampling, k)
    return Run(verdict, stopped, wrong, naive, forecast)


def _choose(
    generator: np.random.Generator, fitted: Rating | None, sampling: SamplingSettings, n_models: int, votes: int
) -> tuple[Indices, Indices]:
    """Draw ordered pairs."""
    if fitted is None or sampling.policy == "uniform":
        return draw_pairs(generator, n_models, votes)
    first, second = np.triu_indices(n_models, 1)
    weights = weigh_pairs(scored_models(fitted, np.arange(n_models)), np.arange(n_models), sampling).weight
    share = weights.astype(np.float64)
    drawn = generator.choice(len(first), votes, p=share / share.sum())
    swap = generator.random(votes) < 0.5  # noqa: PLR2004  either side
    return np.where(swap, second[drawn], first[drawn]), np.where(swap, first[drawn], second[drawn])


def _forecast(fitted: Rating, rule: VerdictRule, sampling: SamplingSettings, k: int) -> tuple[float, float, float]:
    n_models = fitted.cells.n_models
    design: Floats | None = None
    if sampling.policy != "uniform":
        table = weigh_pairs(scored_models(fitted, np.arange(n_models)), np.arange(n_models), sampling)
        design = np.zeros((n_models, n_models))
        design[np.triu_indices(n_models, 1)] = table.weight
        design += design.T
    known = measure_confidence(fitted, rule, design)
    if known is None:
        raise ValueError("the leaderboard has no intervals")
    low, median, high = (known.votes + known.forecasts[k - 1]).tolist()
    return low, median, high
