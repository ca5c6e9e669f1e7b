import threading
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from cachetools import LRUCache, cachedmethod

from app.annotators.queries import read_decided_since
from app.annotators.schemas import FoundAnnotator
from app.annotators.service import find_annotator
from app.database.engine import Database
from app.errors import UnavailableError
from app.refits.fit.process import FitResources, OnDemandFits
from app.review.impact.impact_table import compare_models, describe_impact, move_published
from app.review.impact.leave_one_out import ScoreChange, leave_out
from app.review.schemas import Impact, JointImpact
from app.settings import Settings
from app.snapshots.queries import list_placed_models
from app.snapshots.schemas import Snapshot
from app.snapshots.service import find_snapshot
from app.state import ProcessState

MOST_CACHED = 500  # impacts; each is as long as the leaderboard


class ImpactBusyError(UnavailableError):
    """Another impact is being computed."""

    code = "impact-busy"
    title = "Another impact is being computed"


class Impacts(OnDemandFits):
    """Computes how the newest leaderboard depends on annotators, one question at a time, and caches the answers."""

    def __init__(self, database: Database, resources: FitResources | None = None) -> None:
        super().__init__(resources, busy=ImpactBusyError)
        self._database = database
        self._answers: LRUCache[_Question, ScoreChange] = LRUCache(MOST_CACHED)
        self._lock = threading.Lock()  # of the cache

    def impact(self, reference: str) -> Impact:
        """Return the leaderboard without an annotator or, if the annotator does not count, with them.

        It is that of the newest snapshot, with the decisions that wait for a refit: they are no effect of this one.
        Every other annotator stays in or out. No transaction is open while the child process computes.

        Raises NotFoundError or NoSnapshotError.
        Raises NotReproducibleError: the snapshot's votes or settings are no longer known.
        Raises ImpactBusyError: another impact is being computed.
        Raises CannotFitError: the votes left have no ranking.
        """
        (annotator,), found = self._ask([reference])
        return Impact(id=annotator.id, annotator=annotator.annotator, **found)

    def joint_impact(self, references: Sequence[str]) -> JointImpact:
        """Return the leaderboard without several annotators or, if none of them counts, with them; see `impact`."""
        return JointImpact(**self._ask(references)[1])

    def _ask(self, references: Sequence[str]) -> tuple[list[FoundAnnotator], dict[str, Any]]:
        with self._database.read() as conn:
            snapshot, annotators = find_snapshot(conn), [find_annotator(conn, one) for one in references]
            decided = tuple(read_decided_since(conn, snapshot.vote_set))
        numbers = tuple(sorted({one.annotator_id for one in annotators}))
        question = _Question(snapshot.id, numbers, decided)
        answer = self._answer(question, snapshot)
        with self._database.read() as conn:
            published = [dict(row) for row in list_placed_models(conn, snapshot.id, with_hidden=True)]
        models = compare_models(answer, move_published(answer, published) if decided else published)
        return annotators, {
            "snapshot": snapshot.number,
            "waiting": len(decided),
            "what": "left out" if answer.inside else "let in",
            "how": "refit",
            "votes": answer.votes,
            "summary": list(describe_impact(models, inside=answer.inside, votes=answer.votes)),
            "models": models,
        }

    @cachedmethod(attrgetter("_answers"), key=lambda _self, question, _snapshot: question, lock=attrgetter("_lock"))
    def _answer(self, question: "_Question", snapshot: Snapshot) -> ScoreChange:
        with self.process() as process:
            return process.run(self._prepare(snapshot, question))

    def _prepare(self, snapshot: Snapshot, question: "_Question") -> Callable[[], ScoreChange]:
        from app.refits.load import load_past_fit_input  # noqa: PLC0415  the mathematics: servers start without it

        with self._database.read() as conn:
            fit_input = load_past_fit_input(conn, snapshot)
        decided = [(int(np.searchsorted(fit_input.annotator_ids, one)), standing) for one, standing in question.decided]
        positions = np.searchsorted(fit_input.annotator_ids, question.annotators)
        return partial(leave_out, fit_input, positions, decided)


class _Question(NamedTuple):
    """What an answer depends on; `decided` as `read_decided_since` returns it."""

    snapshot_id: UUID
    annotators: tuple[int, ...]
    decided: tuple[tuple[int, str], ...]


def provide_impacts(state: ProcessState) -> None:
    """Hold the impacts; a fit under way ends with the process."""
    state[Impacts] = impacts = Impacts(state[Database], FitResources.chosen(state[Settings]))
    state.closing.callback(impacts.stop)
