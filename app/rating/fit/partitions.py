"""The annotators of a fit in partitions, and the one place that runs work on all of them."""

from collections.abc import Callable
from functools import cached_property, partial, reduce
from operator import add
from typing import Concatenate, ParamSpec, Self, TypeVar

import numpy as np

from app.rating.arrays import Floats, Indices, sum_by
from app.rating.executors import Message, Parts, place_parts
from app.rating.fit.arrow import shift_projector
from app.rating.fit.partition import Partition
from app.rating.fit.rows import CellRows
from app.rating.fit.scale import Scale
from app.rating.sums import Sums
from app.rating.votes.cells import Cells, pair_cells

MAX_ROUNDS = 50
CONVERGED = 1e-15  # error of the constraint, for each annotator
NEARLY = 1e-9  # with a larger error after the last round there is no positive typical value
LEAST_SLOPE = 1e-6
MOST_STEP = 0.5

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound=Sums)


class Partitions:
    """Partitions of the annotators. Abilities, and all else of the size of the votes, stay inside them.

    `each` is the only way in: it sends the arguments of a method of `Partition` to every partition, and returns what
    comes back: sums of the size of the models. Only `begin` and `abilities` move arrays of the size of the annotators.

    Parameters
    ----------
    parts : in the order of their annotators
    component : of each model; shifting a component's scores changes nothing, so each component's mean is kept at 0.
        Of features, which follow the models, −1
    scale : groups of models and annotators that votes link; the typical θ of each is 1
    terms : number of cells
    free_sign : there is no prior
    """

    def __init__(self, parts: Parts, component: Indices, scale: Scale, *, terms: int, free_sign: bool) -> None:
        self._parts, self.component, self.scale, self.terms = parts, component, scale, terms
        self.n_models, self.free_sign = int(np.count_nonzero(component >= 0)), free_sign
        self.unknowns = len(component) + len(scale.annotators)
        self._members = scale.sum(np.ones(len(scale.annotators)))

    @cached_property
    def shifts(self) -> Floats:
        """`shift_projector` of the components."""
        return shift_projector(self.component)

    @classmethod
    def of(
        cls,
        cells: Cells,
        component: Indices,
        scale: Scale,
        *,
        prior_sd: float | None,
        cap: float | None,
        lean_precision: Floats | None = None,
    ) -> "Partitions":
        """Cut cells, which are sorted by annotator, into partitions: here, or on the executors in force.

        Parameters
        ----------
        prior_sd : None for no prior
        cap : upper bound on θ; None for none
        lean_precision : of `FeatureLikelihood`, for votes with features
        """
        bound = np.inf if cap is None else cap
        parts = place_parts(len(cells.n), lambda number: [
            partial(
                Partition, cells.of_annotators(*part), scale.annotators[slice(*part)], scale.number, prior_sd, bound,
                None if lean_precision is None else lean_precision[slice(*part)],
            )
            for part in CellRows(cells, number).parts
        ])  # fmt: skip
        return cls(parts, component, scale, terms=len(cells.n), free_sign=prior_sd is None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    def each(self, work: Callable[Concatenate[Partition, P], T], *args: P.args, **named: P.kwargs) -> list[T]:
        """Do the work in every partition; results in order."""
        return self._parts.run([Message(work, args, named)] * self._parts.number)

    def total(self, work: Callable[Concatenate[Partition, P], S], *args: P.args, **named: P.kwargs) -> S:
        """Do the work in every partition, and add up the sums."""
        return reduce(add, self.each(work, *args, **named))

    def begin(self, theta: Floats) -> None:
        """Set the abilities, shape (n_annotators,)."""
        ends = np.cumsum(self.each(Partition.count))
        self._parts.run([Message(Partition.begin, (own,), {}) for own in np.split(theta, ends[:-1])])

    def abilities(self) -> Floats:
        """Return θ, shape (n_annotators,)."""
        return np.concatenate(self.each(Partition.abilities))

    def balanced_pairs(self) -> Cells:
        """Return the pair table in which a vote counts 1 / its annotator's number of votes on either of its models."""
        n, s = np.sum(self.each(Partition.balanced_pairs), axis=0)
        pair = np.flatnonzero(n)
        return pair_cells(pair, n[pair], s[pair], np.zeros(len(pair)), self.n_models)

    def normalise(self, R: Floats, *, furthest: float = np.inf) -> Floats:
        """Move along (cR, θ/c) to where the typical ability is 1, and centre the scores.

        A group keeps its scale where no c does, or only one with |log c| above `furthest`. Without a prior (−R, −θ) is
        as likely, so that a group with mostly negative abilities is reversed first.
        """
        scale = self.scale
        if self.free_sign:
            sign = np.where(sum(self.each(Partition.signs)) < 0.0, -1.0, 1.0)
            self.each(Partition.reverse, sign)
            R = R * sign[scale.models]
        log_factor = self._find_factor()
        log_factor = np.where(np.abs(log_factor) <= furthest, log_factor, 0.0)
        self.each(Partition.rescale, log_factor)
        return centre(R * np.exp(log_factor)[scale.models], self.component)

    def _find_factor(self) -> Floats:
        """Find log c of each group by Newton's method; 0 where no c meets the constraint."""
        log_factor = np.zeros(self.scale.number)
        for _ in range(MAX_ROUNDS):
            value, slope = reduce(add, self.each(Partition.typical, log_factor))
            if (np.abs(value) <= CONVERGED * self._members).all():
                break
            usable = slope > LEAST_SLOPE * self._members
            step = np.where(usable, value / np.where(usable, slope, 1.0), np.sign(value))
            log_factor = log_factor + np.minimum(np.maximum(step, -MOST_STEP), MOST_STEP)
        return np.where(np.abs(value) <= NEARLY * self._members, log_factor, 0.0)


def centre(R: Floats, component: Indices) -> Floats:
    """Subtract the mean of every component from the scores; features, with component −1, stay."""
    models = component >= 0
    label = np.where(models, component, 0)
    members = np.bincount(label, models)
    mean = sum_by(label, np.where(models, R, 0.0), len(members)) / np.maximum(members, 1.0)
    centred: Floats = R - np.where(models, mean[label], 0.0)
    return centred
