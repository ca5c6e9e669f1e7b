"""Published boards as bytes, each format made once and remembered."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from sqlalchemy import Connection

from app.leaderboard.catalog import make_catalog
from app.leaderboard.new_votes import NewVotes
from app.leaderboard.row_files import rows_csv, rows_parquet
from app.leaderboard.service import BoardForm, LeaderboardVersion, read_published
from app.snapshots.freshness import Freshness

_MAX_BYTES = 64 * 1024 * 1024


class BoardFiles:
    """The boards that were asked for lately, in this process's memory, and what their freshness is counted with.

    What was published never changes, and what is known of models is part of the key: nothing in here can be out of
    date. The least recently asked for are forgotten first. May be used by several threads.
    """

    def __init__(self, *, max_bytes: int = _MAX_BYTES) -> None:
        self.new_votes = NewVotes()
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._kept: OrderedDict[tuple[object, ...], bytes] = OrderedDict()
        self._bytes = 0

    def read(self, conn: Connection, version: LeaderboardVersion, form: BoardForm) -> bytes:
        """Return the board in this format as of now; of JSON the freshness is made anew each time.

        Raises
        ------
        NoSuchBoardError
        """
        made = self.remember((form, *version.key), lambda: write_published(conn, version, form))
        return join_freshness(version.freshness, made) if form == "json" else made

    def remember(self, key: tuple[object, ...], make: Callable[[], bytes]) -> bytes:
        """Return what is kept under a key that stands for its whole content, making it if it is not there."""
        with self._lock:
            made = self._kept.get(key)
            if made is not None:
                self._kept.move_to_end(key)
        if made is None:
            made = make()
            if len(made) <= self._max_bytes:
                self._keep(key, made)
        return made

    def _keep(self, key: tuple[object, ...], made: bytes) -> None:
        with self._lock:
            self._bytes += len(made) - len(self._kept.pop(key, b""))  # another thread may have made it meanwhile
            self._kept[key] = made
            while self._bytes > self._max_bytes:
                self._bytes -= len(self._kept.popitem(last=False)[1])


def write_published(conn: Connection, version: LeaderboardVersion, form: BoardForm) -> bytes:
    """Return what was published of a board in this format; of JSON without the freshness.

    Raises
    ------
    NoSuchBoardError
    """
    if form == "arena-catalog":
        return make_catalog(conn, version).model_dump_json().encode()
    board = read_published(conn, version)
    if form == "json":
        return board.model_dump_json().encode()
    write = rows_csv if form == "csv" else rows_parquet
    return write(board.rows(), board.columns())


def join_freshness(freshness: Freshness, published: bytes) -> bytes:
    """Return one JSON object of two: the rows, which are long, are not written again for the sake of the age."""
    return freshness.model_dump_json().encode()[:-1] + b"," + published[1:]
