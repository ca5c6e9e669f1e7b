"""The errors of scores and abilities as they are published, and those of a fit with abilities integrated out."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats, Indices, sum_by
from app.rating.exchange import concatenated, join, total
from app.rating.model.copies import Answers, Copies, find_copies
from app.rating.model.covariance import find_covariance, shift_to_centre
from app.rating.model.crowd import Clusters, laplacian
from app.rating.model.expansion import CURVATURE, Expansion
from app.rating.model.score_kernels import ENOUGH_SHARE, LARGEST_SHARE
from app.rating.model.scores import MarginalFit
from app.rating.model.start import PRECISION
from app.rating.settings import Interval
from app.rating.uncertainty.freedom import contrast_freedom
from app.rating.uncertainty.prompts import (
    PromptErrors,
    PromptMeat,
    PromptVotes,
    find_alone,
    join_freedom,
    positive_part,
    sum_by_prompt,
)
from app.rating.votes.cells import Cells
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
        moved = partial(rows_of, table)
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


def rows_of(table: Floats, some: Indices) -> Floats:
    """Return some rows."""
    return table[some]
