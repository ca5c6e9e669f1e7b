"""What the database knows of the service's health, read for those who watch it."""

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import structlog
from sqlalchemy import Connection, RowMapping
from sqlalchemy.exc import DBAPIError

from app.database.engine import Database
from app.errors import UnavailableError
from app.leaderboard.new_votes import NewVotes
from app.monitoring.metrics import queries as store
from app.policy.service import current_policy
from app.snapshots.freshness import CountNewVotes, first_board_is_late
from app.snapshots.vote_sets import MOST_COUNTED, count_votes, new_votes_since

log = structlog.get_logger()

Sums = Mapping[str, tuple[int, float]]
"""How many, and their seconds together, by a word."""


@dataclass(frozen=True)
class BoardFigures:
    """The newest snapshot.

    Attributes
    ----------
    published_at, age_seconds : by the database's clock
    votes : what became of the votes read: used, pending, excluded, retracted, over_quota
    rules : rule → annotators that it flags or excludes, and their share of the votes read
    alarms : rules whose share had jumped when it was published
    """

    number: int
    published_at: float
    age_seconds: float
    votes: Mapping[str, int]
    rules: Mapping[str, tuple[int, float]]
    alarms: frozenset[str]


@dataclass(frozen=True)
class ServiceFigures:
    """One moment of the whole service; the same from every process.

    Attributes
    ----------
    refits, stages : how a refit ended, or its stage → how many, and the seconds of them together
    last_refit : how the refit that ended last did, and how many seconds ago
    votes_not_in_board : before the first board counted as far as `store.MOST_COUNTED`
    first_board_is_late : whether there is none although one could have been made for long
    imported : what became of the records of all imports
    """

    refits: Sums
    stages: Sums
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
    votes_not_in_board: int
    first_board_is_late: bool
    board: BoardFigures | None

    @property
    def board_is_stale(self) -> bool:
        """Whether the board is older than the policy wants, and votes wait that are not in it; or is still missing."""
        board = self.board
        if board is None:
            return self.first_board_is_late
        return board.age_seconds > self.stale_after_seconds and self.votes_not_in_board > 0


class EndedRefits:
    """Sums over all refits that ever ended, summed again only when another one has."""

    def __init__(self) -> None:
        self._last: UUID | None = None
        self._sums: tuple[Sums, Sums] = {}, {}

    def read(self, conn: Connection, last: UUID | None) -> tuple[Sums, Sums]:
        """Return the sums by how refits ended and by stage; `last` is the refit that ended last."""
        if last != self._last:
            self._sums = store.count_ended_refits(conn), store.sum_stages(conn)
            self._last = last
        return self._sums


def read_figures(
    conn: Connection, ended: EndedRefits | None = None, count_new_votes: CountNewVotes = new_votes_since
) -> ServiceFigures:
    """Return the service's figures at this transaction's moment."""
    policy, last, waiting = current_policy(conn).settings, store.last_ended_refit(conn), store.open_refits(conn)
    newest = store.newest_board(conn)
    refits, stages = (ended or EndedRefits()).read(conn, None if last is None else last["id"])
    return ServiceFigures(
        refits=refits,
        stages=stages,
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
        votes_not_in_board=(
            count_votes(conn, at_most=MOST_COUNTED) if newest is None else count_new_votes(conn, newest["vote_set"])
        ),
        first_board_is_late=newest is None and first_board_is_late(conn, policy),
        board=None if newest is None else _board(newest),
    )


def _board(row: RowMapping) -> BoardFigures:
    read = max(1, row["votes_read"])
    votes = {name: count for name, count in (row["votes"] or {}).items() if name != "read"}
    rules = {rule: (told["annotators"], told["votes"] / read) for rule, told in (row["rules"] or {}).items()}
    alarms = frozenset(alarm["rule"] for alarm in row["alarms"] or ())
    return BoardFigures(row["number"], float(row["published_at"]), float(row["age_seconds"]), votes, rules, alarms)


class FiguresReader:
    """Reads the figures for everyone who asks, once in a few seconds. Belongs to one event loop.

    A database that is slow to answer, or to refuse, keeps nobody waiting for longer than `patience_seconds`: whoever
    asks meanwhile gets None, and the question goes on for whoever asks next.
    """

    def __init__(self, database: Database, *, keep_seconds: float = 5.0, patience_seconds: float = 3.0) -> None:
        self._database = database
        self._keep_seconds = keep_seconds
        self._patience_seconds = patience_seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metrics")
        self._asking: asyncio.Future[ServiceFigures | None] | None = None
        self._kept: tuple[float, ServiceFigures | None] = (float("-inf"), None)
        self._failing = False
        self._new_votes = NewVotes()
        self._ended = EndedRefits()

    async def read(self) -> ServiceFigures | None:
        """Return figures of the last few seconds; None while the database does not give them."""
        if time.monotonic() < self._kept[0]:
            return self._kept[1]
        if self._asking is None:
            self._asking = asyncio.get_running_loop().run_in_executor(self._thread, self._ask)
            self._asking.add_done_callback(self._keep)
        answered, _ = await asyncio.wait({self._asking}, timeout=self._patience_seconds)
        return answered.pop().result() if answered else None

    def close(self) -> None:
        """Ask no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _keep(self, answer: asyncio.Future[ServiceFigures | None]) -> None:
        self._asking = None
        if not answer.cancelled() and answer.exception() is None:
            self._kept = time.monotonic() + self._keep_seconds, answer.result()

    def _ask(self) -> ServiceFigures | None:
        try:
            with self._database.read() as conn:
                store.limit_statements(conn, timedelta(seconds=2 * self._patience_seconds))
                figures = read_figures(conn, self._ended, self._new_votes.since)
        except Exception as error:  # whatever it is, what this process knows of itself must be told all the same
            if not self._failing:
                expected = isinstance(error, UnavailableError | DBAPIError)
                log.warning("figures_unavailable", detail=" ".join(str(error).split())[:300], exc_info=not expected)
            self._failing = True
            return None
        self._failing = False
        return figures
