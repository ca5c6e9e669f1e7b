"""Figures of the whole service, read from the database."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, RowMapping

from app.monitoring import queries as store
from app.policy.service import current_policy
from app.refits.fit.parts import LEFT_OUT
from app.refits.schedule import REFIT_LEASE
from app.snapshots.freshness import CountNewVotes, first_leaderboard_is_late, is_from_future
from app.snapshots.vote_sets import MOST_COUNTED, count_votes, new_votes_since

Sums = Mapping[str, tuple[int, float]]
"""By a word: how many, and their seconds together."""

KEY_NOTICE = timedelta(days=14)
"""How long before its end a key is pointed out."""

REFITS_READ = 20
"""How many of the last refits are looked at for kernels that were compiled at run time."""

SumEndedRefits = Callable[[Connection, UUID | None], tuple[Sums, Sums]]


@dataclass(frozen=True)
class SnapshotFigures:
    """The newest snapshot.

    Attributes
    ----------
    published_at, age_seconds : by the database's clock; below 0 where that was ahead at publication
    votes : votes read, by what became of them: used, pending, excluded, retracted, unsealed, over_quota,
        same_model
    rules : rule → annotators that it flags or excludes, and their share of the votes read
    alarms : rules whose share had jumped at publication
    left_out : its parts that are left out because of an error, and why
    """

    number: int
    published_at: float
    age_seconds: float
    votes: Mapping[str, int]
    rules: Mapping[str, tuple[int, float]]
    alarms: frozenset[str]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServiceFigures:
    """The whole service at one moment, the same from every process.

    Attributes
    ----------
    refits : how refits ended → how many, and their seconds together
    stages : stage → how many published refits went through it, and their seconds in it together
    compilations : how many of the last `REFITS_READ` refits compiled kernels, and their seconds together
    last_refit : how the refit that ended last ended, and how many seconds ago
    webhook_delays : the longest first, without those that are paused
    refit_waiting_seconds : below 0 for one that was requested while the database's clock was ahead
    votes_not_in_board : counted only up to `MOST_COUNTED` before the first snapshot
    first_leaderboard_is_late : whether no snapshot exists although the votes have been enough for long
    imported : what became of the records of all imports
    standings : annotators by the standing that holds
    keys_ending : API keys that end within `KEY_NOTICE` and that none replaces
    lease : None before the first refit
    """

    refits: Sums
    stages: Sums
    compilations: tuple[int, float]
    last_refit: tuple[str, float] | None
    refits_waiting: int
    refit_waiting_seconds: float
    refits_running: int
    refit_running_seconds: float
    refit_interval_seconds: float
    stale_after_seconds: float
    imports: Mapping[str, int]
    imported: Mapping[str, int]
    deliveries: Mapping[str, int]
    webhook_delays: Sequence[Row[Any, Any, Any]]
    votes_not_in_board: int
    first_leaderboard_is_late: bool
    standings: Mapping[str, int]
    keys_ending: Sequence[Row[Any, Any, Any]]
    lease: Row[Any, Any] | None
    newest: SnapshotFigures | None

    @property
    def board_is_stale(self) -> bool:
        """Whether new votes wait and the newest snapshot is older than the policy allows, or is still missing.

        One from the future is stale too: its age is not known.
        """
        if self.newest is None:
            return self.first_leaderboard_is_late
        too_old = self.newest.age_seconds > self.stale_after_seconds and self.votes_not_in_board > 0
        return too_old or is_from_future(self.newest.age_seconds)


def sum_ended_refits(conn: Connection, _last: UUID | None) -> tuple[Sums, Sums]:
    """Return the sums over all ended refits, by how they ended and by stage. They change only when another ends.

    `_last`: the refit that ended last, which a cache may use as its key.
    """
    return store.count_ended_refits(conn), store.sum_stages(conn)


def read_figures(
    conn: Connection,
    sum_refits: SumEndedRefits = sum_ended_refits,
    count_new_votes: CountNewVotes = new_votes_since,
) -> ServiceFigures:
    """Return the service's figures at this transaction's moment."""
    policy, last, waiting = current_policy(conn).settings, store.last_ended_refit(conn), store.open_refits(conn)
    newest = store.newest_snapshot(conn)
    refits, stages = sum_refits(conn, None if last is None else last["id"])
    return ServiceFigures(
        refits=refits,
        stages=stages,
        compilations=store.sum_compilations(conn, refits_read=REFITS_READ),
        last_refit=None if last is None else (last["state"], float(last["seconds_ago"])),
        refits_waiting=waiting["waiting"],
        refit_waiting_seconds=float(waiting["waiting_seconds"]),
        refits_running=waiting["running"],
        refit_running_seconds=float(waiting["running_seconds"]),
        refit_interval_seconds=policy.refit_interval_seconds,
        stale_after_seconds=policy.stale_after_seconds,
        imports=store.count_imports(conn),
        imported=store.sum_imported(conn),
        deliveries=store.count_deliveries(conn),
        webhook_delays=store.webhook_delays(conn),
        votes_not_in_board=(
            count_votes(conn, at_most=MOST_COUNTED) if newest is None else count_new_votes(conn, newest["vote_set"])
        ),
        first_leaderboard_is_late=newest is None and first_leaderboard_is_late(conn, policy),
        standings=store.count_annotators(conn),
        keys_ending=store.ending_keys(conn, KEY_NOTICE),
        lease=store.find_lease(conn, REFIT_LEASE),
        newest=None if newest is None else _snapshot_figures(newest),
    )


def _snapshot_figures(row: RowMapping) -> SnapshotFigures:
    read = max(1, row["votes_read"])
    votes = {name: count for name, count in (row["votes"] or {}).items() if name != "read"}
    rules = {rule: (found["annotators"], found["votes"] / read) for rule, found in (row["rules"] or {}).items()}
    alarms = frozenset(alarm["rule"] for alarm in row["alarms"] or ())
    left_out = tuple(notice["detail"] for notice in row["warnings"] or () if notice["code"] == LEFT_OUT)
    return SnapshotFigures(
        row["number"], float(row["published_at"]), float(row["age_seconds"]), votes, rules, alarms, left_out
    )
