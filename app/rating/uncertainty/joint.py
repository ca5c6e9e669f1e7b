"""The errors of a sum of scores by several fits, whose votes the same annotators cast on the same prompts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.errors import VotesError
from app.rating.model.expansion import CHUNK, CURVATURE, Expansion
from app.rating.model.score_kernels import LARGEST_SHARE
from app.rating.plain.information import find_information
from app.rating.plain.likelihood import Likelihood
from app.rating.threads import one_blas_thread
from app.rating.uncertainty.covariance import (
    TINY,
    Covariance,
    centred_bread,
    known_information,
    votes_by_prompt,
)
from app.rating.uncertainty.freedom import NORMAL
from app.rating.uncertainty.plain_covariance import plain_votes_by_prompt
from app.rating.uncertainty.prompts import PromptMeat, PromptVotes, sum_by_prompt
from app.rating.uncertainty.results import Estimate
from app.rating.votes.cells import Cells, find_places
from app.rating.votes.graph import link


@dataclass(frozen=True)
class _Part:
    """One of the fits, and what its votes move in the sum.

    Attributes
    ----------
    spread : covariance of its scores
    bread : share of the fit times what a unit of its equations moves the sum's scores by, shape (n, n_models)
    place : of each annotator of all in this fit, −1 for others, shape (n_annotators,)
    rows : returns what some annotators, as places, add to the equations, shape (m, n_models)
    shares : returns their shares of the information on each score, shape (m, n_models)
    known : information on each score, shape (n_models,)
    votes : by prompt; None without prompts
    at : place of each of the sum's models among the fit's, shape (n,)
    own : variance that the fit gives each score of the sum by itself, shape (n,)
    """

    spread: Covariance
    bread: Floats
    place: Indices
    rows: Callable[[Indices], Floats]
    shares: Callable[[Indices], Floats]
    known: Floats
    votes: PromptVotes | None
    at: Indices
    own: Floats

    def moved(self, some: Indices, *, together: bool) -> tuple[Floats, Floats]:
        """Return what annotators move each score of the sum by, and their shares of the information, (m, n) each."""
        here = self.place[some] >= 0
        u, share = np.zeros((2, len(some), self.bread.shape[1]))
        u[here], share[here] = self.rows(self.place[some[here]]), self.shares(self.place[some[here]])
        if together:
            u, share = u.sum(axis=0, keepdims=True), share.sum(axis=0, keepdims=True)
        return (u / np.sqrt(1.0 - np.minimum(share, LARGEST_SHARE))) @ self.bread.T, share[:, self.at]


@one_blas_thread()
def join_covariances(fits: Sequence[Estimate], weights: Floats, models: Indices) -> Covariance:
    """Return the covariance of Σ_c w_c R_c over fits with the same annotators, models and prompts.

    Parameters
    ----------
    fits : with intervals "clustered", of am-ELO with a prior or of m-ELO; indices of annotators, models and prompts
        mean the same in all
    weights : w, shape (n_fits,); none is 0
    models : indices of models with a score in every fit, shape (n,)

    Returns
    -------
    Of the scores of these models. One fit with weight 1 has its own covariance. What votes outside clusters and prompts
    have in common is not known, so none of the abilities has an error.

    Raises
    ------
    VotesError
        Votes are taken as independent, so that nothing says what one annotator's votes in two fits have in common.

    Notes
    -----
    With z_ck what annotator k (or a group of near-copies in any fit) moves the scores of fit c by, the covariance is
    Σ_c w_c² V_c + Σ_k (z_k z_k′ − Σ_c z_ck z_ck′), z_k = Σ_c z_ck, V_c without prompts; and the positive part of what
    votes on the same prompts have in common, all fits stacked into one. O(n_annotators · n_models²) for each fit.
    """
    covariances = [fit.covariance for fit in fits]
    spreads = [one for one in covariances if one is not None]
    if len(spreads) < len(fits) or any(fit.has_abilities and fit.marginal is None for fit in fits):
        raise VotesError("scores have joint errors with intervals, and where abilities have a prior")
    alone = [one.kind != "clustered" and fit.prompts is None for one, fit in zip(spreads, fits, strict=True)]
    if len(fits) > 1 and any(alone):
        raise VotesError(
            "the votes of one annotator, or by intervals that are not clustered, are taken as independent; by several "
            "criteria they are not: more annotators are needed, or prompts"
        )
    cluster = _join_copies(fits, spreads)
    parts = [_expand(*each, models, cluster) for each in zip(fits, spreads, weights.tolist(), strict=True)]
    joint, scores, squares = np.zeros((len(models), len(models))), np.zeros((len(models), len(models))), 0.0
    variance = np.maximum(np.sum([part.own for part in parts], axis=0), TINY)
    for some, together in _blocks(cluster):
        moved = [part.moved(some, together=together) for part in parts]
        whole = np.sum([z for z, _ in moved], axis=0)
        joint += whole.T @ whole
        scores -= np.sum([z.T @ z for z, _ in moved], axis=0)
        share = np.sum([part.own * h for part, (_, h) in zip(parts, moved, strict=True)], axis=0) / variance
        squares = squares + (share**2).sum(axis=0)
    scores += joint
    for part, weight in zip(parts, weights.tolist(), strict=True):
        scores += weight**2 * _without_prompts(part.spread)[np.ix_(part.at, part.at)]
    known = np.maximum(np.diag(scores) / np.maximum(np.diag(joint), TINY), 1.0)
    freedom = np.minimum(np.maximum(1.0 / np.maximum(squares, TINY) - 1.0, 1.0) * known**2, NORMAL)
    judges = np.min([part.spread.judges[part.at] for part in parts], axis=0)
    unknown, kind = np.full(len(cluster), np.nan), spreads[0].kind
    own = Covariance(scores, scores, unknown, kind, len(np.unique(cluster)), freedom, judges)
    return _add_prompts(own, [part for part in parts if part.votes is not None])


def _add_prompts(own: Covariance, parts: Sequence[_Part]) -> Covariance:
    """Return the covariance with what votes on the same prompts have in common, all fits stacked into one."""
    found = sum_by_prompt(_stack(parts), np.concatenate([part.known for part in parts])) if parts else None
    if found is None:
        return own
    ends = np.cumsum([len(part.known) for part in parts])
    few = [
        each[part.at]
        for part, each in zip(parts, np.split(1.0 / np.maximum(found.effective, TINY), ends), strict=False)
    ]
    shares = np.sum([part.own * each for part, each in zip(parts, few, strict=True)], axis=0)
    shares /= np.maximum(np.sum([part.own for part in parts], axis=0), TINY)
    return own.with_meat(
        PromptMeat(found.meat, 1.0 / np.maximum(shares, TINY)), np.hstack([part.bread for part in parts])
    )


def _without_prompts(spread: Covariance) -> Floats:
    return spread.scores if spread.by_prompt is None else spread.scores - spread.by_prompt.scores


def _join_copies(fits: Sequence[Estimate], spreads: Sequence[Covariance]) -> Indices:
    """Return the cluster of each annotator: near-copies in any of the fits are one, shape (n_annotators,)."""
    cluster = np.arange(fits[0].cells.n_annotators)
    for fit, spread in zip(fits, spreads, strict=True):
        if spread.copies is not None and spread.copies.groups:
            order = np.argsort(spread.copies.cluster, kind="stable")
            same = np.diff(spread.copies.cluster[order]) == 0
            who = fit.small.annotators[order].astype(np.int32)
            link(who[:-1][same], who[1:][same], cluster)
    return cluster


def _blocks(cluster: Indices) -> Iterator[tuple[Indices, bool]]:
    """Yield annotators: some of those that are alone, and then each group."""
    size = np.bincount(cluster, minlength=len(cluster))
    single = np.flatnonzero(size[cluster] == 1)
    for first in range(0, len(single), CHUNK):
        yield single[first : first + CHUNK], False
    for group in np.flatnonzero(size > 1):
        yield np.flatnonzero(cluster == group), True


def _expand(fit: Estimate, spread: Covariance, weight: float, models: Indices, cluster: Indices) -> _Part:
    """Return what the votes of a fit move in the sum."""
    small, place = fit.small, find_places(fit.small.annotators, fit.cells.n_annotators).astype(np.int64)
    votes: PromptVotes | None = None
    if fit.marginal is not None:
        expansion = Expansion(small.cells, fit.marginal, fit.settings.influence_limit)
        bread, known = centred_bread(fit.marginal), known_information(fit.marginal)
        share = Likelihood(expansion.cells).rows(expansion.parts[:, CURVATURE], signed=False)
        if fit.prompts is not None:
            votes = votes_by_prompt(expansion, fit.prompts, cluster[small.annotators])[0]

        def rows(some: Indices) -> Floats:
            return expansion.own(some).u

    else:
        component = fit.components.label[small.models]
        found = find_information(small.cells, fit.fit, component, has_abilities=False)
        bread, known, point = found.inverse, np.maximum(np.diag(found.point.A), TINY), found.point
        gradient = found.likelihood.rows(found.likelihood.contributions(point.R, point.theta))
        share = found.likelihood.rows(point.variance, signed=False)
        if fit.prompts is not None:
            votes = plain_votes_by_prompt(found, fit.fit, fit.prompts)[0]

        def rows(some: Indices) -> Floats:
            dense: Floats = gradient[some].toarray()
            return dense

    def shares(some: Indices) -> Floats:
        part: Floats = share[some].toarray() / known
        return part

    at = np.searchsorted(small.models, models)
    own = weight**2 * np.diag(spread.scores)[at]
    return _Part(spread, weight * bread[at], place, rows, shares, known, votes, at, own)


def _stack(parts: Sequence[_Part]) -> PromptVotes:
    """Return the votes of several fits as those of one, whose models and annotators follow each other."""
    votes = [part.votes for part in parts if part.votes is not None]
    models = np.cumsum([0, *(len(part.known) for part in parts)])
    people = np.cumsum([0, *(one.cells.n_annotators for one in votes)])

    def join_columns(name: str, shifts: Indices | None = None) -> Any:
        source = [one if hasattr(one, name) else one.cells for one in votes]
        columns = [getattr(each, name) for each in source]
        return np.concatenate(columns if shifts is None else [c + s for c, s in zip(columns, shifts, strict=False)])

    def moved(some: Indices) -> Floats:
        found, whose = np.zeros((len(some), models[-1])), np.searchsorted(people, some, side="right") - 1
        for fit, one in enumerate(votes):
            here = whose == fit
            found[here, models[fit] : models[fit + 1]] = one.moved(some[here] - people[fit])
        return found

    cells = Cells(
        join_columns("annotator", people), join_columns("model_a", models), join_columns("model_b", models),
        join_columns("n"), join_columns("s"), join_columns("ties"), int(people[-1]), int(models[-1]),
    )  # fmt: skip
    shared = ("prompt", "unit", "residual", "squares", "pull", "difference", "information", "alone")
    return PromptVotes(cells, moved=moved, **{name: join_columns(name) for name in shared})
