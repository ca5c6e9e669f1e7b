"""One import after the other: each is compared with what is on record while no other import adds to it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.database.engine import Database
from app.database.leased_job import LeasedJob
from app.refits.schedule import IMPORT_LEASE

_PAUSE = 0.1  # seconds until a process that waits asks again


@contextmanager
def import_turn(database: Database, seconds: float) -> Iterator[bool]:
    """Have the turn during the block; the block gets False if another import has it.

    Two files of the same votes that are imported at the same moment would otherwise both be recorded: each is compared
    before the other's votes are there. If the process dies, the turn is free after `seconds`.
    """
    turn = LeasedJob(database, IMPORT_LEASE, seconds, one_off=True)
    if turn.claim(lambda _: True) is None:
        yield False
        return
    with turn:
        yield True


@contextmanager
def awaited_turn(database: Database, seconds: float, waiting: Callable[[], None]) -> Iterator[None]:
    """Wait for the turn, and have it during the block; `waiting` is called once if another import has it."""
    pause, waits = threading.Event(), False
    while True:
        with import_turn(database, seconds) as mine:
            if mine:
                yield
                return
        if not waits:
            waiting()
        waits = True
        pause.wait(_PAUSE)
