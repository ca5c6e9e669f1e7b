"""How well the methods predict held-out votes: the am-ELO paper's Table 2, and its Figure 3 for each model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from app.rating.arrays import sum_by
from stable_arena_lab.agreement import (
    area_under_curve,
    mean_squared_error,
    published_area_under_curve,
    vote_losses,
)
from stable_arena_lab.arenas import Arena
from stable_arena_lab.methods import ELO_SHUFFLES, EVERY_METHOD, Method, rate
from stable_arena_lab.parallel import Progress, map_seeds
from stable_arena_lab.spread import mean_or_none, sd_or_none

HELD_OUT = 0.2
PAPER: Mapping[Method, tuple[float, float, float, float]] = {
    "elo bootstrap": (0.1238, 0.0031, 0.7492, 0.0068),
    "m-elo": (0.1234, 0.0029, 0.7503, 0.0066),
    "am-elo plain": (0.1208, 0.0034, 0.7581, 0.0067),
}
"""Method → MSE, its standard deviation, AUC, its standard deviation over five seeds: the am-ELO paper's Table 2
(Chatbot Arena, April to June 2023, annotators with over 50 votes)."""


@dataclass(frozen=True)
class Prediction:
    """A method's predictions over the splits: means and standard deviations; None where undefined.

    Attributes
    ----------
    published_auc : AUC as the authors' code computes it, ties included (`published_area_under_curve`)
    mse_lead, auc_lead : this method's value minus that of penalised am-ELO, mean over the splits on which both have a
        result: a positive mse_lead and a negative auc_lead mean that penalised am-ELO is better
    splits, answered : number of splits, and of splits on which the method has a result
    unpredicted : share of held-out votes predicted as ½ because a score is missing
    """

    method: Method
    mse: float | None
    mse_sd: float | None
    auc: float | None
    auc_sd: float | None
    published_auc: float | None
    published_auc_sd: float | None
    mse_lead: float | None
    auc_lead: float | None
    splits: int
    answered: int
    unpredicted: float | None
    paper_mse: float | None
    paper_mse_sd: float | None
    paper_auc: float | None
    paper_auc_sd: float | None


@dataclass(frozen=True)
class ModelLoss:
    """−ℓ per held-out vote on a model, over all splits on which the method has a result.

    Attributes
    ----------
    model : its name; of a simulated arena its place in the true ranking
    votes : held-out votes on the model
    """

    model: str
    method: Method
    votes: int
    loss: float


@dataclass(frozen=True)
class _Split:
    """A method's errors on one split; `by_model` has the number of held-out votes on a model and the sum of −ℓ."""

    by_model: Mapping[str, tuple[float, float]]
    mse: float
    auc: float
    published_auc: float
    unpredicted: float


def predict(
    source: Callable[[int], Arena],
    seeds: Sequence[int],
    *,
    shuffles: int = ELO_SHUFFLES,
    processes: int = 1,
    progress: Progress | None = None,
) -> tuple[list[Prediction], list[ModelLoss]]:
    """Fit 80 % of the votes and predict the other 20 %, in a random split for every seed; one result for each method.

    Parameters
    ----------
    source : returns the arena of a seed; for a file always the same
    shuffles : of Elo
    """
    work = partial(predict_once, source, shuffles=shuffles)
    splits = map_seeds(work, seeds, processes=processes, progress=progress)
    robust = [split["am-elo robust"] for split in splits]
    by_method = {method: [split[method] for split in splits] for method in EVERY_METHOD}
    rows = [_summary(method, found, robust) for method, found in by_method.items()]
    return rows, [row for method, found in by_method.items() for row in _losses(method, found)]


def predict_once(
    source: Callable[[int], Arena], seed: int, *, shuffles: int = ELO_SHUFFLES
) -> dict[Method, _Split | None]:
    """Make one split and return each method's errors on it, None for a method without a result."""
    arena = source(seed)
    order = np.random.default_rng(seed).permutation(arena.n_votes)
    held_out = round(HELD_OUT * arena.n_votes)
    # in the recorded order, on which Elo depends
    test, train = arena.take(np.sort(order[:held_out])), arena.take(np.sort(order[held_out:]))
    return {method: _errors(train, test, method, seed, shuffles) for method in EVERY_METHOD}


def _errors(train: Arena, test: Arena, method: Method, seed: int, shuffles: int) -> _Split | None:
    rated = rate(train, method, seed=seed, shuffles=shuffles)
    if rated is None:
        return None
    probability = rated.predict(test)
    missing = ~np.isfinite(rated.score)
    loss = vote_losses(probability, test.outcome)
    names = [test.name_of(model) for model in range(test.n_models)]
    if test.truth is not None:
        names = [f"place {place + 1:2d}" for place in np.argsort(np.argsort(-test.truth))]
    sides = np.concatenate([test.model_a, test.model_b])
    sums = [sum_by(sides, weight, test.n_models).tolist() for weight in (np.ones(len(sides)), np.tile(loss, 2))]
    return _Split(
        dict(zip(names, zip(*sums, strict=True), strict=True)),
        mean_squared_error(probability, test.outcome),
        area_under_curve(probability, test.outcome),
        published_area_under_curve(probability, test.outcome),
        float(np.mean(missing[test.model_a] | missing[test.model_b])),
    )


def _losses(method: Method, splits: Sequence[_Split | None]) -> list[ModelLoss]:
    """Add up each model's losses over the splits."""
    found: dict[str, list[tuple[float, float]]] = {}
    for split in splits:
        for name, sums in ({} if split is None else split.by_model).items():
            found.setdefault(name, []).append(sums)
    totals = {name: [sum(part) for part in zip(*sums, strict=True)] for name, sums in sorted(found.items())}
    return [ModelLoss(name, method, int(votes), loss / votes) for name, (votes, loss) in totals.items() if votes]


def _summary(method: Method, splits: Sequence[_Split | None], robust: Sequence[_Split | None]) -> Prediction:
    answered = [split for split in splits if split is not None]
    both = [(x, y) for x, y in zip(splits, robust, strict=True) if x is not None and y is not None]
    mse, auc = [split.mse for split in answered], [split.auc for split in answered]
    published = [split.published_auc for split in answered]
    paper_mse, paper_mse_sd, paper_auc, paper_auc_sd = PAPER.get(method, (None,) * 4)
    return Prediction(
        method=method,
        mse=mean_or_none(mse),
        mse_sd=sd_or_none(mse),
        auc=mean_or_none(auc),
        auc_sd=sd_or_none(auc),
        published_auc=mean_or_none(published),
        published_auc_sd=sd_or_none(published),
        mse_lead=mean_or_none(x.mse - y.mse for x, y in both),
        auc_lead=mean_or_none(x.auc - y.auc for x, y in both),
        splits=len(splits),
        answered=len(answered),
        unpredicted=mean_or_none(split.unpredicted for split in answered),
        paper_mse=paper_mse,
        paper_mse_sd=paper_mse_sd,
        paper_auc=paper_auc,
        paper_auc_sd=paper_auc_sd,
    )
