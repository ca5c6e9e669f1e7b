import threading
from collections.abc import Callable, Sequence
from functools import partial
from uuid import UUID

import numpy as np
from cachetools import LRUCache
from sqlalchemy import RowMapping

from app.annotators.schemas import FoundAnnotator
from app.annotators.service import find_annotator
from app.database.engine import Database
from app.errors import UnavailableError
from app.refits.fit.process import FitResources, OnDemandFits
from app.refits.load import load_past_fit_input
from app.review.impact.impact_table import compare_models, describe_impact
from app.review.impact.leave_one_out import ScoreChange, leave_out
from app.review.schemas import Impact
from app.settings import Settings
from app.snapshots.queries import list_counted_annotators, list_placed_models
from app.snapshots.schemas import Snapshot
from app.snapshots.service import find_snapshot
from app.state import ProcessState

MOST_CACHED = 500  # impacts; each is as long as the leaderboard


class ImpactBusyError(UnavailableError):
    """Another impact is being computed."""

    code = "impact-busy"
    title = "Another impact is being computed"


class Impacts:
    """Computes how the newest leaderboard depends on an annotator, one at a time, and caches the answers."""

    def __init__(self, database: Database, resources: FitResources | None = None) -> None:
        self._database = database
        self._fits = OnDemandFits(resources, busy=ImpactBusyError)
        self._answers: LRUCache[tuple[UUID, int, bool], ScoreChange] = LRUCache(MOST_CACHED)
        self._lock = threading.Lock()  # of the cache

    def impact(self, reference: str, *, exact: bool = False) -> Impact:
        """Return the newest leaderboard without an annotator or, if the annotator is outside the fit, with them.

        Every other annotator stays in or out as before. No transaction is open while the child process computes.

        Raises
        ------
        NotFoundError, NoSnapshotError
        NotReproducibleError
            The snapshot's votes or settings are no longer known.
        ImpactBusyError
            Another impact is being computed.
        CannotFitError
            The votes left have no ranking.
        """
        with self._database.read() as conn:
            snapshot, annotator = find_snapshot(conn), find_annotator(conn, reference)
        key = snapshot.id, annotator.annotator_id, exact
        with self._lock:
            answer = self._answers.get(key)
        if answer is None:
            with self._fits.process() as process:
                answer = process.run(self._prepare(snapshot, annotator, exact=exact))
            with self._lock:
                self._answers[key] = answer
        with self._database.read() as conn:
            return _report(annotator, snapshot, answer, list_placed_models(conn, snapshot.id, with_archived=True))

    def stop(self) -> None:
        """End a fit under way."""
        self._fits.stop()

    def _prepare(self, snapshot: Snapshot, annotator: FoundAnnotator, *, exact: bool) -> Callable[[], ScoreChange]:
        with self._database.read() as conn:
            fit_input = load_past_fit_input(conn, snapshot)
            in_fit, unflagged = (
                np.isin(fit_input.annotator_ids, numbers) for numbers in list_counted_annotators(conn, snapshot.id)
            )
        position = int(np.searchsorted(fit_input.annotator_ids, annotator.annotator_id))
        return partial(leave_out, fit_input, in_fit, unflagged, position, exact=exact)


def _report(
    annotator: FoundAnnotator, snapshot: Snapshot, answer: ScoreChange, published: Sequence[RowMapping]
) -> Impact:
    models = compare_models(answer, published)
    return Impact(
        id=annotator.id,
        annotator=annotator.annotator,
        snapshot=snapshot.number,
        what="left out" if answer.inside else "let in",
        how=answer.how,
        votes=answer.votes,
        summary=list(describe_impact(models, inside=answer.inside, votes=answer.votes)),
        models=models,
    )


def provide_impacts(state: ProcessState) -> None:
    """Hold the impacts; a fit under way ends with the process."""
    state[Impacts] = impacts = Impacts(state[Database], FitResources.chosen(state[Settings]))
    state.closing.callback(impacts.stop)
