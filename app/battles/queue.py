from collections.abc import Sequence
from functools import partial
from random import SystemRandom

from app.api.group_commit import COMMIT_SIZE, GroupCommit
from app.battles.drawing import BattleDraws
from app.battles.histories import Histories
from app.battles.roster import Rosters
from app.battles.service import (
    BattleReceipt,
    Preparation,
    Submission,
    find_candidates,
    names_of,
    offer_battles,
)
from app.database.engine import Database
from app.errors import StableArenaError
from app.guard.process_metrics import Gauges, most_of
from app.naming.aliases import read_names
from app.naming.known_names import KnownNames
from app.settings import Settings
from app.state import ProcessState

_QUEUED = most_of("stable_arena_battle_queue_battles", "Battles that wait for their commit")


class BattleQueue(GroupCommit[Submission, BattleReceipt]):
    """Battles that are asked for, which share commits."""

    def __init__(
        self,
        database: Database,
        *,
        token_seconds: int,
        queue_size: int,
        names: KnownNames,
        commit_size: int = COMMIT_SIZE,
    ) -> None:
        self._database = database
        self._names = names
        self._rosters = Rosters(database)
        self._seconds = token_seconds
        self._draws, self._histories = BattleDraws(SystemRandom()), Histories()
        super().__init__(
            database,
            self._look_up,
            what="battles",
            queue_size=queue_size,
            commit_size=commit_size,
        )

    def _look_up(self, group: Sequence[Submission]) -> "partial[list[BattleReceipt | StableArenaError]]":
        listed = {names_of(battle) for battle, _ in group}
        named = {name for names in listed if names is not None for name in names}
        known = self._names.look_up(named, {battle.annotator for battle, _ in group})
        numbers = {name: number for name in named if (number := known.models.get(name)) is not None}
        if unknown := named - numbers.keys():  # those with aliases, whose number depends on the time
            with self._database.read() as conn:
                found = read_names(conn, unknown)
            numbers |= {name: number for name in unknown if (number := found.number(name, None)) is not None}
        roster = self._rosters.current(numbers.values())
        candidates = {names: find_candidates(names, numbers, roster) for names in listed}
        sets = self._rosters.set_numbers({pool for pool in candidates.values() if isinstance(pool, tuple)})
        prepared = Preparation(roster, candidates, sets, known.annotators)
        return partial(
            offer_battles, prepared=prepared, draws=self._draws, histories=self._histories, seconds=self._seconds
        )


def provide_battle_queue(state: ProcessState) -> None:
    """Hold the queue, which records the battles that wait before the process ends."""
    settings = state[Settings]
    state[BattleQueue] = queue = BattleQueue(
        state[Database],
        token_seconds=settings.battles.token_seconds,
        queue_size=settings.ingest.queue_size,
        names=state[KnownNames],
    )
    state[Gauges].watch(_QUEUED, lambda: queue.waiting)
    state.closing.push_async_callback(queue.close)
