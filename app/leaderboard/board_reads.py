import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from app.database.engine import Database
from app.errors import NotFoundError
from app.leaderboard.board_files import BoardFiles
from app.leaderboard.service import BoardForm, LeaderboardVersion, choose_leaderboard
from app.snapshots.methods import BoardMethod


@dataclass(frozen=True)
class BoardChoice:
    """Which board a request asks for, and in which format."""

    method: BoardMethod
    tag: str | None
    compare: tuple[BoardMethod, ...]
    snapshot: str | None
    as_of: datetime | None
    form: BoardForm


@dataclass(frozen=True)
class BoardAnswer:
    """A board in the format asked for, and what it is a version of."""

    version: LeaderboardVersion
    content: bytes


class BoardReads:
    """Answers all requests for the newest boards that come during one look at the database with the next look.

    A thousand readers a second cost the database as much as a few, and all the same everyone sees what had been
    committed when the request came: nobody gets an answer that was begun earlier. Belongs to one event loop.
    """

    def __init__(self, database: Database, files: BoardFiles) -> None:
        self._database = database
        self._files = files
        self._waiting: dict[BoardChoice, asyncio.Future[BoardAnswer]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def read_newest(self, choice: BoardChoice) -> BoardAnswer:
        """Return a board of the newest snapshot as it stands after this call began.

        Raises
        ------
        NoSnapshotError, NoSuchBoardError, UnavailableError
        """
        answer = self._waiting.get(choice)
        if answer is None:
            answer = self._waiting[choice] = asyncio.get_running_loop().create_future()
            answer.add_done_callback(_take_notice)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        return await asyncio.shield(answer)

    async def read_past(self, choice: BoardChoice) -> BoardAnswer:
        """Return a board of an earlier snapshot; such requests are few, and each looks for itself.

        Raises
        ------
        NotFoundError, NoSnapshotError, NoSuchBoardError, UnavailableError
        """
        (answer,) = await asyncio.to_thread(self._read_all, [choice])
        if isinstance(answer, NotFoundError):
            raise answer
        return answer

    async def _look(self) -> None:
        try:
            while self._waiting:
                asked, self._waiting = self._waiting, {}
                try:
                    answers: Sequence[BoardAnswer | Exception] = await asyncio.to_thread(self._read_all, list(asked))
                except Exception as error:  # noqa: BLE001  it is raised in everyone who waits
                    answers = [error] * len(asked)
                for future, answer in zip(asked.values(), answers, strict=True):
                    if isinstance(answer, Exception):
                        future.set_exception(answer)
                    else:
                        future.set_result(answer)
        finally:
            self._looking = None

    def _read_all(self, choices: Sequence[BoardChoice]) -> list[BoardAnswer | NotFoundError]:
        with self._database.read() as conn:
            return [self._read(conn, choice) for choice in choices]

    def _read(self, conn: Connection, choice: BoardChoice) -> BoardAnswer | NotFoundError:
        try:
            version = choose_leaderboard(
                conn,
                method=choice.method,
                tag=choice.tag,
                compare=choice.compare,
                snapshot=choice.snapshot,
                as_of=choice.as_of,
                count_new_votes=self._files.new_votes.since,
            )
            return BoardAnswer(version, self._files.read(conn, version, choice.form))
        except NotFoundError as error:
            return error


def _take_notice(answer: asyncio.Future[BoardAnswer]) -> None:
    """Look at a failure even if everyone who waited has left, so that nobody complains that it was never seen."""
    if not answer.cancelled():
        answer.exception()
