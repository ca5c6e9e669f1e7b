"""What battles are drawn from, as this process remembers it for a few seconds."""

import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from app.battles.queries import ModelIds, add_candidate_sets
from app.database.engine import Database
from app.models.contestants import read_unoffered_ids
from app.models.queries import read_archived, read_model_names
from app.naming.known_names import FORGET_SECONDS
from app.policy.schemas import PolicyVersion
from app.policy.service import current_policy, find_policy
from app.rating.sampling.pair_weights import PairWeights
from app.snapshots.pair_weights import find_pair_weights
from app.snapshots.queries import newest_snapshot

_MOST_SETS = 10_000
_FEWEST = 2


@dataclass(frozen=True)
class Roster:
    """The models on record, the policy in force and the newest snapshot, all of one time.

    Attributes
    ----------
    names : number → name of every model
    archived : the numbers of the archived models
    active : the numbers of the models that battles may show, in order
    snapshot_id : None before the first snapshot
    tables : the snapshot's tables of pairs by tag, "" for battles without one; none before the first snapshot
    drawn_by : name of the policy that made the tables
    """

    names: dict[int, str]
    archived: frozenset[int]
    active: ModelIds
    policy: PolicyVersion
    snapshot_id: UUID | None
    tables: Mapping[str, PairWeights]
    drawn_by: str


class Rosters:
    """The roster, read again after `seconds`, and the numbers of sets of candidates, which never change.

    So a process uses a new, renamed or archived model, a policy or a snapshot at most `seconds` late. Threads may share
    one object.
    """

    def __init__(self, database: Database, *, seconds: float = FORGET_SECONDS) -> None:
        self._database = database
        self._seconds = seconds
        self._lock = threading.Lock()
        self._roster: Roster | None = None
        self._until = 0.0
        self._sets: dict[ModelIds, int] = {}

    def current(self, needed: Collection[int] = ()) -> Roster:
        """Return the roster. It is read at once if a model in `needed` is not in it, or too few models for a battle."""
        with self._lock:
            known = self._roster
            now = time.monotonic()
            fresh = known is not None and now < self._until and len(known.active) >= _FEWEST
            if known is None or not fresh or not known.names.keys() >= set(needed):
                known = self._roster = self._read(known)
                self._until = now + self._seconds
            return known

    def set_numbers(self, sets: Collection[ModelIds]) -> dict[ModelIds, int]:
        """Return the number of each set of candidates; new ones are added and committed."""
        new = {ids for ids in sets if ids not in self._sets}
        if new:
            with self._database.begin() as conn:
                numbers = add_candidate_sets(conn, new)
            if len(self._sets) + len(numbers) > _MOST_SETS:
                self._sets = {ids: number for ids, number in self._sets.items() if ids in sets}
            self._sets.update(numbers)
        return {ids: self._sets[ids] for ids in sets}

    def _read(self, before: Roster | None) -> Roster:
        with self._database.read() as conn:
            names, archived = read_model_names(conn), frozenset(read_archived(conn))
            policy, snapshot = current_policy(conn), newest_snapshot(conn)
            tables: Mapping[str, PairWeights]
            if snapshot is None:
                snapshot_id, tables, drawn_by = None, {}, "uniform"
            elif before is not None and before.snapshot_id == snapshot["id"]:  # its tables are megabytes
                snapshot_id, tables, drawn_by = before.snapshot_id, before.tables, before.drawn_by
            else:
                snapshot_id = snapshot["id"]
                tables = find_pair_weights(conn, snapshot_id)
                drawn_by = find_policy(conn, snapshot["policy_version"]).settings.battle_policy
            return Roster(
                names=names,
                archived=archived,
                active=tuple(sorted(names.keys() - read_unoffered_ids(conn))),
                policy=policy,
                snapshot_id=snapshot_id,
                tables=tables,
                drawn_by=drawn_by if tables else "uniform",
            )
