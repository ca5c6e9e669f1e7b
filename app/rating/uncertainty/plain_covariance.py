"""The errors of scores and abilities of a fit whose abilities are known, or maximised."""

from functools import partial

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats, Indices
from app.rating.fitted import FitResult
from app.rating.model.score_kernels import LARGEST_SHARE
from app.rating.plain.clusters import sum_clusters
from app.rating.plain.information import ENOUGH, Information, find_information
from app.rating.settings import Interval
from app.rating.uncertainty.covariance import (
    TINY,
    Covariance,
    rows_of,
    squared_residuals,
    sum_by_vote,
    takes_prompts,
)
from app.rating.uncertainty.freedom import NORMAL
from app.rating.uncertainty.prompts import PromptVotes, find_alone, find_shares, sum_by_prompt
from app.rating.votes.cells import Cells, pool_annotators
from app.rating.votes.prompts import PromptCells


def plain_covariance(
    cells: Cells,
    fit: FitResult,
    component: Indices,
    kind: Interval,
    *,
    has_abilities: bool,
    prompts: PromptCells | None = None,
) -> Covariance:
    """Return the covariance of the scores with abilities profiled out, and the abilities' standard errors.

    Parameters
    ----------
    component, has_abilities : as for `find_information`
    kind : "clustered" (annotators are a sample: clusters, and the unit is theirs), "sandwich" (the same annotators vote
        again: votes are independent) or "information" (the same, if the model is right)
    prompts : as for `marginal_covariance`

    Raises
    ------
    SaddlePointError

    Notes
    -----
    Bread: the inverse of the reduced information on the constraint of the unit. Meat: the gradient by the scores of
    each cluster or vote, less the share of its ability, scaled up where a cluster supplies much of the information on a
    model; of a cluster also its part of the unit's equation. Derivations: docs/math/uncertainty.md.

    References
    ----------
    White (1982); Bell and McCaffrey (2002), on leverage; Carter, Schnepel and Steigerwald (2017), on the effective
    number of clusters.
    """
    clusters, annotators = int(np.count_nonzero(np.diff(cells.starts))), cells.n_annotators
    prompts = prompts if takes_prompts(kind, clusters) else None
    if kind == "clustered" and clusters == 1:
        kind = "sandwich"  # nothing says how annotators differ
    if not has_abilities and kind != "clustered":
        cells, fit = pool_annotators(cells), FitResult(fit.R, np.ones(1), fit.log_likelihood, fit.iterations)
    found, unknown = find_information(cells, fit, component, has_abilities=has_abilities), np.full(annotators, np.nan)
    if kind == "clustered":
        scores, order, freedom, judges, *pulls = _by_annotator(found)
    else:
        size = len(fit.R)
        scores = order = _by_vote(found, kind)
        freedom, judges = np.full(size, np.inf), np.full(size, clusters)
        pulls = [np.zeros(size), np.zeros(found.groups.number)]
    se = _ability_se(found, scores, *pulls) if has_abilities else unknown
    own = Covariance(scores, order, se, kind, clusters, freedom, judges)
    if prompts is None:
        return own
    return own.with_meat(sum_by_prompt(*plain_votes_by_prompt(found, fit, prompts)), found.inverse)


def plain_votes_by_prompt(found: Information, fit: FitResult, prompts: PromptCells) -> tuple[PromptVotes, Floats]:
    """Return the votes with a prompt at a fit, and the information on each score."""
    c, cells, rows = prompts.cells, found.likelihood.cells, -found.moved_rows()
    d, ability = fit.R[c.model_a] - fit.R[c.model_b], fit.theta[c.annotator]
    p = expit(ability * d)
    known, information = (
        np.maximum(np.diag(found.point.A), TINY),
        found.point.variance * fit.theta[cells.annotator] ** 2,
    )
    alone = find_alone(cells, information, known, ENOUGH, LARGEST_SHARE)[prompts.place_in(cells)]
    votes = PromptVotes(
        c, prompts.prompt, c.annotator.astype(np.int64), c.s - c.n * p, squared_residuals(c, ability * d), ability, d,
        ability**2 * c.n * p * (1.0 - p), alone, partial(rows_of, rows),
    )  # fmt: skip
    return votes, known


def _by_annotator(found: Information) -> tuple[Floats, Floats, Floats, Indices, Floats, Floats]:
    """Take every annotator as a cluster: its gradient by the scores, and its pull on the unit.

    Returns
    -------
    scores, order, freedom, judges : of `Covariance`
    with_pull : Σ_k c_k pull_k over each model's group, c_k annotator k's part in the scores, shape (n_models,)
    pull : Σ_k pull_k² of each group
    """
    point, groups, cells = found.point, found.groups, found.likelihood.cells
    members = groups.sum(np.ones(len(point.theta)))
    pull = (point.theta - 1.0) * (found.inverse_D > 0.0)  # of the unit's equation Σ (θ − 1) = 0
    pull *= np.sqrt(members / np.maximum(members - 1.0, 1.0))[groups.annotators]
    contribution = found.likelihood.contributions(point.R, point.theta)
    information = point.variance * point.theta[cells.annotator] ** 2
    known = np.diag(point.A)
    clusters = sum_clusters(cells, contribution, information, known, pull)
    together, inverse = groups.models[:, None] == groups.models, found.inverse
    square, of_unit, mixed = groups.sum(pull**2), inverse @ found.z, inverse @ clusters.with_pull
    with_pull = mixed + of_unit * square[groups.models]
    order = np.where(together, inverse @ clusters.meat @ inverse, 0.0)
    pulls = np.where(together, np.outer(mixed, of_unit) + np.outer(of_unit, with_pull), 0.0)
    between = np.diag(order + pulls).copy()
    if clusters.shares.max(initial=0.0) > ENOUGH**2:  # or no annotator has such a share
        most = find_shares(cells, information, np.maximum(known, TINY)).max(axis=0)
        alone = np.clip((most - ENOUGH) / (LARGEST_SHARE - ENOUGH), 0.0, 1.0)
        order += inverse @ _sum(found, point.variance * alone) @ inverse
    scores = order + pulls
    freedom = degrees_of_freedom(
        np.diag(scores), between, of_unit**2 * square[groups.models], 1.0 / np.maximum(clusters.shares, TINY),
        members[groups.models],
    )  # fmt: skip
    return scores, order, freedom, clusters.judges.astype(np.int64), with_pull, square


def _by_vote(found: Information, kind: Interval) -> Floats:
    """Return the covariance of the scores for given annotators: every vote is a cluster, or the model is right."""
    point, cells, inner = found.point, found.likelihood.cells, found.inverse
    if kind == "sandwich":
        ability = point.theta[cells.annotator]
        squares = squared_residuals(cells, ability * (point.R[cells.model_a] - point.R[cells.model_b]))
        information = np.diag(point.A)
        least = np.maximum(np.minimum(information[cells.model_a], information[cells.model_b]), TINY)
        share = point.variance / cells.n * ability**2 / least  # of one vote
        squares += point.variance * np.clip((share - ENOUGH) / (LARGEST_SHARE - ENOUGH), 0.0, 1.0)
        inner = inner @ _sum(found, squares) @ inner
    return inner


def _sum(found: Information, squares: Floats) -> Floats:
    """Return the sum over votes: a unit of a residual adds θ (e_a − e_b) − d (BᵀQ)_k to the scores' equations."""
    cells = found.likelihood.cells
    moved = [(0, cells.n_annotators, -found.moved_rows())] if found.inverse_D.any() else []
    return sum_by_vote(cells, found.point.R, squares, found.point.theta[cells.annotator], moved)


def _ability_se(found: Information, scores: Floats, with_pull: Floats, pull: Floats) -> Floats:
    """Return the standard error of θ_k relative to the mean ability.

    θ_k changes by r_k·c + τ_k·pull where the scores change by c, r_k = −(QB)_k, τ_k = −1/(D_k 1ᵀD⁻¹1).
    """
    group, rows = found.groups.annotators, -found.moved_rows()
    tau = -found.inverse_D / found.size[group]
    variance = np.einsum("ij,ij->i", rows @ scores, rows) + 2.0 * tau * (rows @ with_pull)
    variance += tau**2 * pull[group] + found.inverse_D * (1.0 + tau)
    se: Floats = np.sqrt(np.maximum(variance, 0.0))
    return se


def degrees_of_freedom(
    total: Floats, by_annotator: Floats, of_unit: Floats, effective: Floats, members: Floats
) -> Floats:
    """Return the degrees of freedom of each model's variance, shape (n_models,).

    Of the variance between annotators a part is the unit's, from all of a group, the rest from a model's effective
    number of annotators; both are known to that number less 1. Votes taken as independent add a variance that is known.
    """
    total = np.maximum(total, TINY)
    between = np.maximum(by_annotator, total / NORMAL)  # rounding can take a small share below 0
    unit = np.clip(of_unit / between, 0.0, 1.0)
    share = (1.0 - unit) ** 2 / effective + unit * (2.0 - unit) / members
    freedom: Floats = np.maximum(1.0 / share - 1.0, 1.0) * (total / between) ** 2
    return freedom
