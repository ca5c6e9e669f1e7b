import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from app.store.aliases import ModelNames, Named, read_names
from app.store.database import Database
from app.store.names import find_annotators

FORGET_SECONDS = 5.0
"""How long a process may go by a name that has been given to another model, or to nobody, meanwhile."""

_SIZE = 200_000


@dataclass(frozen=True)
class Known:
    """Names that are on record for good.

    Attributes
    ----------
    models : what models' names stand for
    annotators : raw key → number
    """

    models: ModelNames = field(default_factory=lambda: ModelNames({}, {}, None))
    annotators: Mapping[str, int] = field(default_factory=dict)


class KnownNames:
    """What names stood for in the last few seconds, so that a stream of votes does not ask for each.

    Rows of models and annotators are never deleted nor renumbered, so the worst that a replica can do is to
    go by a rename, a new alias or an erasure `seconds` late. Only what other transactions see is remembered: a name
    whose transaction is rolled back must not be. Names with aliases, whose meaning depends on the vote's moment, are
    asked for every time. May be used by several threads.
    """

    def __init__(self, database: Database, *, seconds: float = FORGET_SECONDS) -> None:
        self._database = database
        self._seconds = seconds
        self._models: dict[str, tuple[float, int]] = {}
        self._annotators: dict[str, tuple[float, int]] = {}

    def forget(self) -> None:
        """Remember nothing: for who has just changed what names stand for, and committed it."""
        self._models, self._annotators = {}, {}

    def read(self, named: Iterable[Named], raw_keys: Iterable[str]) -> Known:
        """Return what is known of these models and annotators, from memory or from the database."""
        now = time.monotonic()
        models, new_models = _recall(self._models, {name for name, _ in named}, now)
        annotators, new_annotators = _recall(self._annotators, raw_keys, now)
        if not (new_models or new_annotators):
            return Known(ModelNames(models, {}, None), annotators)
        with self._database.read() as conn:
            read = read_names(conn, new_models)
            found = find_annotators(conn, new_annotators)
        forget_at = now + self._seconds  # counted from the asking: what changed since must not gain time
        plain = {name: number for name, number in read.own.items() if name not in read.aliases}
        _remember(self._models, plain, forget_at)
        _remember(self._annotators, found, forget_at)
        return Known(ModelNames({**models, **read.own}, read.aliases, read.read_at), {**annotators, **found})


def _recall(
    memory: Mapping[str, tuple[float, int]], names: Iterable[str], now: float
) -> tuple[dict[str, int], list[str]]:
    known: dict[str, int] = {}
    unknown = set()
    for name in names:
        remembered = memory.get(name)
        if remembered is not None and remembered[0] > now:
            known[name] = remembered[1]
        else:
            unknown.add(name)
    return known, list(unknown)


def _remember(memory: dict[str, tuple[float, int]], found: Mapping[str, int], forget_at: float) -> None:
    if len(memory) + len(found) > _SIZE:
        memory.clear()
    memory.update((name, (forget_at, number)) for name, number in found.items())
