"""What votes on one prompt have in common: the second way in which the errors of scores are clustered."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from app.rating.arrays import Floats, Indices, Ints, sum_by_key
from app.rating.compiled import compiled
from app.rating.model.score_kernels import LARGEST_SHARE
from app.rating.uncertainty.freedom import NORMAL
from app.rating.votes.cells import Cells

TINY = 1e-150
FEW = 3.0  # degrees of freedom
LARGEST = 1 << 22  # numbers in the rows of some prompts at a time


@dataclass(frozen=True)
class PromptVotes:
    """Votes with a prompt at a fit, a row for each (annotator, prompt, pair): arrays of shape (n_rows,).

    A unit of a vote's residual adds pull (e_a − e_b) + d c_k to the scores' equations.

    Attributes
    ----------
    cells : of the fit's models and annotators
    prompt : numbers
    unit : who is one voter: annotators, near-copies together
    residual, squares : Σ (W − p) and Σ (W − p)²
    pull, difference : as above, d = R_a − R_b
    information : on each of the two scores
    alone : how far each vote is a voter of its own, from 0 to 1: where hardly any other annotator judged the models, so
        that the annotators do not show what one's votes on a prompt have in common
    moved : returns the rows c_k of some annotators, shape (n, n_models)
    """

    cells: Cells
    prompt: Indices
    unit: Indices
    residual: Floats
    squares: Floats
    pull: Floats
    difference: Floats
    information: Floats
    alone: Floats
    moved: Callable[[Indices], Floats]


@dataclass(frozen=True)
class PromptMeat:
    """What the votes of a prompt have in common, summed over the prompts.

    Attributes
    ----------
    meat : Σ_q (u_q u_q′ − Σ_k u_qk u_qk′), u_q what prompt q adds to the scores' equations, u_qk annotator k's part;
        each scaled up by its share of the information; shape (n_models, n_models)
    effective : effective number of the prompts that say something about each score, shape (n_models,)
    """

    meat: Floats
    effective: Floats


class PromptErrors(NamedTuple):
    """The part of a covariance that votes on the same prompts have in common.

    Attributes
    ----------
    scores : natural units, shape (n_models, n_models)
    effective : of `PromptMeat`
    """

    scores: Floats
    effective: Floats


def sum_by_prompt(votes: PromptVotes, known: Floats) -> PromptMeat | None:
    """Sum over the prompts that two voters or more judged; None without any.

    Parameters
    ----------
    known : information on each score, of all votes, shape (n_models,)

    Notes
    -----
    O(n_rows · n_models²). A prompt with one voter adds nothing, so it is left out.
    """
    order = _judged_by_several(votes)
    if not len(order):
        return None
    size, c = len(known), votes.cells
    meat, total, squared = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    for some in _split(order, votes.prompt[order], max(LARGEST // size, 1)):
        prompt, unit, alone = votes.prompt[some], votes.unit[some], votes.alone[some]
        residual, information = votes.residual[some], votes.information[some]
        whose, place = np.unique(c.annotator[some], return_inverse=True)
        moved = votes.moved(whose.astype(np.int64))

        def sum_by(group: Indices, factor: Floats, amount: Floats) -> tuple[Floats, Floats]:
            sums, shares = np.zeros((2, int(group[-1]) + 1, size))
            add_rows(
                group, factor, amount, c.model_a[some], c.model_b[some], votes.pull[some],  # noqa: B023  used at once
                votes.difference[some], place, moved, known, sums, shares,  # noqa: B023
            )  # fmt: skip
            return sums, shares

        of_prompt, share = sum_by(_number(prompt), residual, information)
        of_unit, _ = sum_by(_number(prompt, unit), np.sqrt(1.0 - alone) * residual, information)
        meat += of_prompt.T @ of_prompt - of_unit.T @ of_unit
        if alone.any():
            of_vote, _ = sum_by(np.arange(len(some)), np.sqrt(alone * votes.squares[some]), information / c.n[some])
            meat -= of_vote.T @ of_vote
        total += share.sum(axis=0)
        squared += (share**2).sum(axis=0)
    return PromptMeat(meat, total**2 / np.maximum(squared, TINY))


@compiled
def add_rows(
    group: Indices, factor: Floats, information: Floats, a: Ints, b: Ints, pull: Floats, difference: Floats,
    place: Indices, moved: Floats, known: Floats, sums: Floats, shares: Floats,
) -> None:  # fmt: skip
    """Add each row to the sums of its group, and its information, relative to what is known, to the shares.

    Then scale each sum up by its share.
    """
    size = len(known)
    for i in range(len(group)):
        at, along = group[i], factor[i] * difference[i]
        for m in range(size):
            sums[at, m] += along * moved[place[i], m]
        sums[at, a[i]] += factor[i] * pull[i]
        sums[at, b[i]] -= factor[i] * pull[i]
        shares[at, a[i]] += information[i] / known[a[i]]
        shares[at, b[i]] += information[i] / known[b[i]]
    for at in range(len(sums)):
        for m in range(size):
            if shares[at, m] > 0.0:
                sums[at, m] /= math.sqrt(1.0 - min(shares[at, m], LARGEST_SHARE))


def _judged_by_several(votes: PromptVotes) -> Indices:
    """Return the rows of prompts with two voters or more, by prompt, then voter."""
    order = np.lexsort((votes.unit, votes.prompt))
    prompt, unit = votes.prompt[order], votes.unit[order]
    first = _firsts(prompt)
    if not len(first):
        return first
    new = np.zeros(len(order))
    new[_firsts(prompt, unit)] = 1.0
    voters = np.add.reduceat(np.where(votes.alone[order] > 0.0, votes.cells.n[order], new), first)
    return order[np.repeat(voters > 1.0, np.diff(first, append=len(order)))]


def _firsts(*columns: Indices) -> Indices:
    """Return where a new combination of sorted values begins."""
    new = np.any([np.diff(column, prepend=-1) != 0 for column in columns], axis=0)
    return np.flatnonzero(new)


def _number(*columns: Indices) -> Indices:
    """Return the place of each combination of sorted values."""
    place = np.zeros(len(columns[0]), dtype=np.int64)
    place[_firsts(*columns)[1:]] = 1
    return np.cumsum(place)


def _split(order: Indices, prompt: Indices, size: int) -> Iterator[Indices]:
    """Yield the rows of some prompts at a time: about as many rows as given, and those of one prompt at least."""
    first = _firsts(prompt)
    cuts = np.unique(first[np.searchsorted(first, np.arange(0, len(order), size), side="right") - 1])
    yield from np.split(order, cuts[1:])


def find_alone(cells: Cells, information: Floats, known: Floats, enough: float, largest: float) -> Floats:
    """Return how far the votes of each cell count as independent, shape (n_cells,).

    0 up to a share of their annotator in the information on each of the two models, 1 from another on.

    Parameters
    ----------
    information, known : as for `find_shares`
    """
    least = find_shares(cells, information, known).min(axis=0)
    alone: Floats = np.clip((least - enough) / (largest - enough), 0.0, 1.0)
    return alone


def find_shares(cells: Cells, information: Floats, known: Floats) -> Floats:
    """Return the share of each cell's annotator in the information on model_a and model_b, shape (2, n_cells).

    Parameters
    ----------
    information : of each cell on each of its models, shape (n_cells,)
    known : of all votes on each model, shape (n_models,)
    """
    size, k = cells.n_models, cells.annotator.astype(np.int64)
    sides = [k * size + model for model in (cells.model_a, cells.model_b)]
    keys, (own,) = sum_by_key(np.concatenate(sides), cells.n_annotators * size, np.tile(information, 2))
    share = own / known[keys % size]
    return np.stack([share[np.searchsorted(keys, side)] for side in sides])


def positive_part(matrix: Floats) -> Floats:
    """Return the nearest matrix without negative eigenvalues."""
    values, vectors = eigh(matrix)
    part: Floats = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return part


def join_freedom(own: Floats, freedom: Floats, other: Floats, effective: Floats) -> Floats:
    """Return the degrees of freedom of the sum of two variances: the mean of 1/freedom, weighted by the variances.

    The second part weighs at most as in all scores together: of one score it depends on the centre.

    Parameters
    ----------
    own, freedom : variances, and their degrees of freedom
    other, effective : variances from so many prompts, which are known to that number less 1
    """
    share = np.minimum(other / np.maximum(own + other, TINY), other.sum() / max(float((own + other).sum()), TINY))
    inverse = (1.0 - share) / freedom + share / np.maximum(effective - 1.0, 1.0)
    joined = 1.0 / np.maximum(inverse, 1.0 / NORMAL)
    few: Floats = np.where(freedom < FEW, np.minimum(joined, freedom), joined)  # there t falls faster than errors grow
    return few
