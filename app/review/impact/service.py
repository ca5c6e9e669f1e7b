import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import RowMapping

from app.annotators.schemas import FoundAnnotator
from app.annotators.service import find_annotator
from app.database.engine import Database
from app.errors import UnavailableError
from app.refits.fit.interface import FitInput
from app.refits.fit.on_demand import OnDemandFits
from app.refits.fit.process import FitLimits
from app.refits.load import load_past_fit_input
from app.review.impact.leaving import Change, How, Mask, leave_out
from app.review.impact.moves import ModelImpact, compare_models, tell_impact
from app.review.queries import read_fitted, read_published
from app.snapshots.service import Snapshot, find_snapshot

MOST_REMEMBERED = 500
"""Impacts that are kept in memory: one is as long as the board."""


class ImpactBusyError(UnavailableError):
    """Another question that needs a refit is being answered."""

    code = "impact-busy"
    title = "Another impact is being computed"


class Impact(BaseModel):
    """What the board would be without an annotator who counts, or with one who does not; nothing has happened."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    annotator: str = Field(description="The key the votes carry.")
    snapshot: int = Field(description="Number of the snapshot that it is about.")
    what: Literal["left out", "let in"] = Field(description="let in: the annotator was outside the snapshot's fit.")
    how: How = Field(description="influence: one Newton step from the fit; refit: fitted again.")
    votes: int = Field(description="Votes of the annotator that the snapshot read.")
    summary: list[str] = Field(description="The same in words, the most important first.")
    models: list[ModelImpact] = Field(description="As ranked now.")


@dataclass(frozen=True)
class _Answer:
    """What is kept of an impact.

    Attributes
    ----------
    change : of the models in `model_ids`
    inside : whether the annotator was in the fit
    votes : of the annotator, that the snapshot read
    """

    change: Change
    model_ids: NDArray[np.int32]
    inside: bool
    votes: int


class Impacts:
    """Says what an annotator does to the newest board; what was computed is kept while the process lives."""

    def __init__(self, database: Database, limits: FitLimits | None = None) -> None:
        self._database = database
        self._fits = OnDemandFits(limits, busy=ImpactBusyError)
        self._answers: OrderedDict[tuple[UUID, int, bool], _Answer] = OrderedDict()
        self._lock = threading.Lock()

    def impact(self, reference: str, *, exact: bool = False) -> Impact:
        """Say how the newest snapshot's board would move without the annotator, or with one who does not count.

        Everybody else stays in or out as they were. No transaction is open while the child computes.

        Raises
        ------
        NotFoundError, NoSnapshotError
        NotReproducibleError
            The snapshot's votes or settings can no longer be told.
        ImpactBusyError
            Another impact is being computed.
        CannotFitError
            The votes left have no ranking.
        """
        with self._database.read() as conn:
            snapshot, annotator = find_snapshot(conn), find_annotator(conn, reference)
        key = snapshot.id, annotator.annotator_id, exact
        answer = self._remembered(key)
        if answer is None:
            with self._fits.process() as process:
                answer = process.run(self._prepare(snapshot, annotator, exact=exact))
            self._remember(key, answer)
        with self._database.read() as conn:
            return _report(annotator, snapshot, answer, read_published(conn, snapshot.id))

    def stop(self) -> None:
        """End a fit under way."""
        self._fits.stop()

    def _prepare(self, snapshot: Snapshot, annotator: FoundAnnotator, *, exact: bool) -> "partial[_Answer]":
        with self._database.read() as conn:
            fit_input = load_past_fit_input(conn, snapshot)
            in_fit = np.isin(fit_input.annotator_ids, read_fitted(conn, snapshot.id))
        position = int(np.searchsorted(fit_input.annotator_ids, annotator.annotator_id))
        return partial(_answer, fit_input, in_fit, position, exact=exact)

    def _remembered(self, key: tuple[UUID, int, bool]) -> _Answer | None:
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
            return self._answers.get(key)

    def _remember(self, key: tuple[UUID, int, bool], answer: _Answer) -> None:
        with self._lock:
            self._answers[key] = answer
            while len(self._answers) > MOST_REMEMBERED:
                self._answers.popitem(last=False)


def _answer(fit_input: FitInput, in_fit: Mask, position: int, *, exact: bool) -> _Answer:
    """Compute an impact; this is what the child does."""
    change = leave_out(fit_input, in_fit, position, exact=exact)
    return _Answer(change, fit_input.model_ids, bool(in_fit[position]), int((fit_input.annotator == position).sum()))


def _report(annotator: FoundAnnotator, snapshot: Snapshot, answer: _Answer, board: Sequence[RowMapping]) -> Impact:
    models = compare_models(answer.change, answer.model_ids, board)
    what: Literal["left out", "let in"] = "left out" if answer.inside else "let in"
    return Impact(
        id=annotator.id,
        annotator=annotator.annotator,
        snapshot=snapshot.number,
        what=what,
        how=answer.change.how,
        votes=answer.votes,
        summary=list(tell_impact(models, what, answer.votes)),
        models=sorted(
            models, key=lambda row: (row.rank_before is None, row.rank_before or row.rank_after or 0, row.model)
        ),
    )
