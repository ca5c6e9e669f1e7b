"""The errors of scores and abilities as they are published: of abilities integrated out, known, or maximised."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats, Indices, sum_by
from app.rating.exchange import concatenated, join, total
from app.rating.fitted import FitResult
from app.rating.model.copies import Answers, Copies, find_copies
from app.rating.model.covariance import find_covariance, shift_to_centre
from app.rating.model.crowd import Clusters, laplacian
from app.rating.model.expansion import CURVATURE, Expansion
from app.rating.model.score_kernels import ENOUGH_SHARE, LARGEST_SHARE
from app.rating.model.scores import MarginalFit
from app.rating.model.start import PRECISION
from app.rating.plain.information import ENOUGH, Information, find_information, scaled_contributions
from app.rating.settings import Interval
from app.rating.uncertainty.freedom import NORMAL, contrast_freedom
from app.rating.uncertainty.prompts import (
    PromptErrors,
    PromptMeat,
    PromptVotes,
    find_alone,
    join_freedom,
    positive_part,
    sum_by_prompt,
)
from app.rating.votes.cells import Cells, pool_annotators
from app.rating.votes.prompts import PromptCells

TINY = 1e-150  # its square is not 0
MOST_HELD = 1 << 25  # numbers: 256 MiB


@dataclass(frozen=True)
class Covariance:
    """Sampling covariance of published scores and abilities.

    Attributes
    ----------
    scores : natural units of the mean annotator, each component centred, shape (n_models, n_models)
    order : the same without the annotators' pulls on the unit, which stretch all scores alike and change no order
    ability_se : standard error of the published ability, shape (n_annotators,); NaN where abilities are known
    kind : of the interval; "clustered" becomes "sandwich" with a single annotator
    clusters : annotators with a counted vote
    freedom : degrees of freedom of each model's variance, shape (n_models,); ∞ where votes alone are a sample
    judges : annotators who inform about each model, shape (n_models,); counted where clustered, else `clusters`
    copies : near-copies, each group one cluster; None where they were not looked for
    by_prompt : the part of `scores` and `order` that votes on the same prompts have in common; None without any
    """

    scores: Floats
    order: Floats
    ability_se: Floats
    kind: Interval
    clusters: int
    freedom: Floats
    judges: Indices
    copies: Copies | None = None
    by_prompt: PromptErrors | None = None

    @property
    def prompt_share(self) -> float:
        """Share of the variance of the scores that more votes on the same prompts do not lower."""
        if self.by_prompt is None:
            return 0.0
        return float(np.trace(self.by_prompt.scores)) / max(float(np.trace(self.scores)), TINY)

    def with_meat(self, found: PromptMeat | None, bread: Floats) -> "Covariance":
        """Return the covariance with the positive part of what votes on the same prompts have in common.

        What all annotators share is in the scores already, and so is missing in what annotators differ by: n of them
        show (n − 1)/n of it.

        Parameters
        ----------
        bread : the scores' change with a unit of each equation, shape (n_models, n_models)
        """
        if found is None:
            return self
        shown = np.sqrt(1.0 + 1.0 / self.freedom)
        part = positive_part(shown[:, None] * (bread @ found.meat @ bread.T) * shown)
        return self.with_prompts(PromptErrors(part, found.effective))

    def with_prompts(self, part: PromptErrors | None) -> "Covariance":
        """Return the covariance with a part by prompt."""
        if part is None:
            return self
        freedom = join_freedom(np.diag(self.scores), self.freedom, np.diag(part.scores), part.effective)
        scores, order = self.scores + part.scores, self.order + part.scores
        return replace(self, scores=scores, order=order, freedom=freedom, by_prompt=part)

    def contrast_freedom(self, i: Indices, j: Indices, *, order: bool = False) -> Floats:
        """Return the degrees of freedom of R_i − R_j."""
        return contrast_freedom(np.diag(self.order if order else self.scores), self.freedom, i, j)


def contrast_errors(covariance: Floats, i: Indices, j: Indices) -> Floats:
    """Return the standard errors of R_i − R_j, in the broadcast shape of i and j."""
    variance = np.diag(covariance)
    errors: Floats = np.sqrt(np.maximum(variance[i] + variance[j] - 2.0 * covariance[i, j], 0.0))
    return errors


def squared_residuals(cells: Cells, x: Floats) -> Floats:
    """Return Σ (W − p)² over the votes of each cell, p = σ(x), x of shape (n_cells,)."""
    p = expit(x)
    squared: Floats = cells.wins_a * (1.0 - p) ** 2 + cells.ties * (0.5 - p) ** 2 + cells.wins_b * p**2
    return squared


def sum_by_vote(
    cells: Cells, R: Floats, squares: Floats, pull: Floats, each_moved: Iterable[tuple[int, int, Floats]]
) -> Floats:
    """Return Σ r² v v′ over the votes, v = pull (e_a − e_b) + d c_k what a unit of a vote's residual r adds.

    Parameters
    ----------
    squares : Σ r² of each cell, shape (n_cells,)
    pull : shape (n_cells,)
    each_moved : first, last + 1, and rows c_k of some annotators: what a unit of dℓ_k/dθ adds, as the ability moves
    """
    d, size = R[cells.model_a] - R[cells.model_b], len(R)
    meat = np.zeros((size, size))
    for first, last, moved in each_moved:
        here = slice(*cells.starts[[first, last]])
        own = cells.annotator[here] - first
        along, square = np.zeros((last - first, size)), np.bincount(own, squares[here] * d[here] ** 2, last - first)
        amount = squares[here] * pull[here] * d[here]
        np.add.at(along, (own, cells.model_a[here]), amount)
        np.add.at(along, (own, cells.model_b[here]), -amount)
        crossed = along.T @ moved
        meat += crossed + crossed.T + (moved * square[:, None]).T @ moved
    pair = cells.model_a.astype(np.int64) * size + cells.model_b
    meat += laplacian(sum_by(pair, squares * pull**2, size * size).reshape(size, size))
    return meat


def marginal_covariance(
    cells: Cells, fit: MarginalFit, kind: Interval, influence_limit: float | None, prompts: PromptCells | None = None
) -> Covariance:
    """Return the covariance of the scores, and of each ability the standard deviation of its posterior.

    Clustered, near-copies of one annotator are one cluster.

    Parameters
    ----------
    kind : "clustered" (annotators are a sample), "sandwich" (the same annotators vote again: votes are independent) or
        "information" (the same, with the variance that the model gives a vote)
    prompts : the votes with a prompt; clustered, prompts are a sample too, as they are for a single annotator
    """
    annotators, judges = total(cells.n_annotators), fit.clusters.judges.astype(np.int64)
    prompts = prompts if takes_prompts(kind, annotators) else None
    if kind == "clustered" and annotators == 1:
        kind = "sandwich"  # nothing says how annotators differ
    expansion = cache(partial(Expansion, cells, fit, influence_limit))
    if kind == "clustered":
        copies = find_copies(Answers.of(cells, fit.R))
        if copies.groups:
            annotators -= copies.annotators - copies.groups
            among = np.isin(copies.cluster, copies.shared)
            fit = replace(fit, clusters=_join_copies(Expansion(cells, fit, influence_limit, among), copies))
        found, voter = find_covariance(fit), copies.cluster
        own = Covariance(found.scores, found.scores, fit.ability_sd, kind, annotators, found.freedom, judges, copies)
    else:
        size, voter, bread = len(fit.R), np.arange(annotators), centred_bread(fit)
        scores = bread @ _sum_by_vote(expansion(), kind) @ bread.T
        known, all_of_them = np.full(size, np.inf), np.full(size, annotators)
        own = Covariance(scores, scores, fit.ability_sd, kind, annotators, known, all_of_them)
    if prompts is None:
        return own
    return own.with_meat(sum_by_prompt(*votes_by_prompt(expansion(), prompts, voter)), centred_bread(fit))


def centred_bread(fit: MarginalFit) -> Floats:
    """Return what a unit of each score's equation moves the scores by, each component shifted to its centre."""
    bread: Floats = shift_to_centre(fit)[0] @ np.linalg.inv(fit.equations.jacobian)
    return bread


def known_information(fit: MarginalFit) -> Floats:
    """Return what the votes say of each score, abilities known, shape (n_models,)."""
    return np.maximum(np.diag(fit.equations.information) - PRECISION, TINY)


def takes_prompts(kind: Interval, annotators: int) -> bool:
    """Whether prompts are a sample for this kind of interval."""
    return kind == "clustered" or (kind == "sandwich" and annotators == 1)


def votes_by_prompt(expansion: Expansion, prompts: PromptCells, voter: Indices) -> tuple[PromptVotes, Floats]:
    """Return the votes with a prompt at a fit, and the information on each score; `voter`: cluster of annotators."""
    fit, cells, place = expansion.fit, prompts.cells, prompts.place_in(expansion.cells)
    k, trust = cells.annotator, expansion.trust[place]
    d = fit.R[cells.model_a] - fit.R[cells.model_b]
    x = fit.ability[k] * d
    known = known_information(fit)
    information, moved = expansion.parts[:, CURVATURE], expansion.moved
    if expansion.cells.n_annotators * expansion.cells.n_models <= MOST_HELD:  # annotators come back with each prompt
        table = np.concatenate([rows for _, _, rows in expansion.each_moved()])
        moved = partial(_rows_of, table)
    alone = find_alone(expansion.cells, information, known, ENOUGH_SHARE, LARGEST_SHARE)
    votes = PromptVotes(
        cells, prompts.prompt, voter[k], trust * (cells.s - cells.n * expit(x)), trust**2 * squared_residuals(cells, x),
        expansion.weight[place] * expansion.pull[k], d,
        information[place] * (trust * cells.n / expansion.cells.n[place]), alone[place], moved,
    )  # fmt: skip
    return votes, known


def _join_copies(expansion: Expansion, copies: Copies) -> Clusters:
    """Return the clusters of a fit with near-copies as one: what they say adds up before it is squared."""
    fit = expansion.fit
    known = known_information(fit)
    meat, shares = fit.clusters.meat.copy(), fit.clusters.shares.copy()

    def add(u: Floats, share: Floats, sign: float) -> None:
        scaled = u / np.sqrt(1.0 - np.minimum(share, LARGEST_SHARE))
        meat[:] += sign * np.outer(scaled, scaled)
        shares[:] += sign * share**2

    mine = np.flatnonzero(np.isin(copies.cluster, copies.shared))
    own = np.zeros((2, len(fit.R), len(mine)))
    for place, k in enumerate(mine.tolist()):
        own[..., place] = expansion.own(np.array([k])).u[0], expansion.information(k) / known
    of, rows = join(concatenated, copies.cluster[mine]), join(concatenated, own)
    for group in copies.shared:
        members = np.ascontiguousarray(np.moveaxis(rows[..., of == group], -1, 0))
        for u, share in members:
            add(u, share, -1.0)
        u, share = members.sum(axis=0)
        add(u, share, 1.0)
    return replace(fit.clusters, meat=meat, shares=shares)


def _sum_by_vote(expansion: Expansion, kind: Interval) -> Floats:
    """Return the sum over the votes: a unit of a vote's residual adds w h (e_a − e_b) + d c_k to u_k."""
    cells, fit = expansion.cells, expansion.fit
    k = cells.annotator
    x = fit.ability[k] * (fit.R[cells.model_a] - fit.R[cells.model_b])
    squares = squared_residuals(cells, x)
    if kind == "information":
        squares = fit.dispersion * cells.n * expit(x) * expit(-x)
    return sum_by_vote(cells, fit.R, squares, expansion.weight * expansion.pull[k], expansion.each_moved())


def _rows_of(table: Floats, some: Indices) -> Floats:
    return table[some]


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
        ability**2 * c.n * p * (1.0 - p), alone, partial(_rows_of, rows),
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
    rows, share = scaled_contributions(found.likelihood, point, np.diag(point.A))
    meat, with_pull, squares = (rows.T @ rows).toarray(), rows.T @ pull, (share**2).sum(axis=0)
    judges = np.bincount(share.indices[share.data > 0.0], minlength=len(point.R))
    most = np.maximum(share[cells.annotator, cells.model_a], share[cells.annotator, cells.model_b])
    alone = point.variance * np.clip(
        (most - ENOUGH) / (LARGEST_SHARE - ENOUGH), 0.0, 1.0
    )  # of votes taken as independent
    together, inverse = groups.models[:, None] == groups.models, found.inverse
    square, of_unit, mixed = groups.sum(pull**2), inverse @ found.z, inverse @ with_pull
    with_pull = mixed + of_unit * square[groups.models]
    order = np.where(together, inverse @ meat @ inverse, 0.0)
    pulls = np.where(together, np.outer(mixed, of_unit) + np.outer(of_unit, with_pull), 0.0)
    between = np.diag(order + pulls).copy()
    if alone.any():
        order += inverse @ _sum(found, alone) @ inverse
    scores = order + pulls
    freedom = degrees_of_freedom(
        np.diag(scores), between, of_unit**2 * square[groups.models], 1.0 / np.maximum(squares, TINY),
        members[groups.models],
    )  # fmt: skip
    return scores, order, freedom, judges, with_pull, square


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
