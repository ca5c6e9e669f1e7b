"""Votes by what the models were asked: votes on one prompt err together."""

from dataclasses import dataclass, replace

import numpy as np

from app.rating.arrays import AnyInts, Floats, Indices
from app.rating.votes.cells import Cells, Compact, aggregate, find_places, renumber


@dataclass(frozen=True)
class PromptCells:
    """Votes with a prompt: a row for each (annotator, prompt, pair of models).

    Attributes
    ----------
    cells : sorted by annotator, then prompt, then pair
    prompt : number of each cell's prompt, shape (n_cells,)
    """

    cells: Cells
    prompt: Indices

    @property
    def number(self) -> int:
        """How many prompts the votes are on."""
        return len(np.unique(self.prompt))

    @classmethod
    def of_votes(
        cls,
        prompt: AnyInts,
        annotator: AnyInts,
        model_a: AnyInts,
        model_b: AnyInts,
        outcome: Floats,
        *,
        n_annotators: int,
        n_models: int,
        weight: Floats | None = None,
    ) -> "PromptCells | None":
        """Collapse votes to cells, apart by prompt; None where no vote has one.

        Parameters
        ----------
        prompt : number of each vote's prompt, below 0 for none, shape (n_votes,)
        annotator, model_a, model_b, outcome, weight : as for `app.rating.votes.cells.aggregate`
        """
        known = np.flatnonzero(prompt >= 0)
        if not len(known):
            return None
        numbers, place = np.unique(prompt[known].astype(np.int64), return_inverse=True)
        both = annotator[known].astype(np.int64) * len(numbers) + place
        keys, own = np.unique(both, return_inverse=True)  # each annotator as many, one for each prompt
        apart = aggregate(
            own, model_a[known], model_b[known], outcome[known],
            n_annotators=len(keys), n_models=n_models, weight=None if weight is None else weight[known],
        )  # fmt: skip
        key = keys[apart.annotator]
        whose = (key // len(numbers)).astype(np.int32)
        return cls(replace(apart, annotator=whose, n_annotators=n_annotators), numbers[key % len(numbers)])

    def among(self, small: Compact) -> "PromptCells":
        """Return the votes of the fit's annotators between its models, with its indices; prompts keep their numbers."""
        cells = self.cells
        model, annotator = find_places(small.models, cells.n_models), find_places(small.annotators, cells.n_annotators)
        keep = (annotator[cells.annotator] >= 0) & (model[cells.model_a] >= 0) & (model[cells.model_b] >= 0)
        return PromptCells(renumber(cells, small.models, small.annotators), self.prompt[keep])

    def place_in(self, cells: Cells) -> Indices:
        """Return the cell of the fit in which the votes of each row are, shape (n_rows,).

        Parameters
        ----------
        cells : all votes of the fit, with the same indices
        """
        size, own = cells.n_models, self.cells
        key, theirs = (
            (each.annotator.astype(np.int64) * size + each.model_a) * size + each.model_b for each in (own, cells)
        )
        return np.searchsorted(theirs, key)
