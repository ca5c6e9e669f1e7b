import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from app.database.engine import Database
from app.naming.aliases import ModelNames, Named, read_names
from app.naming.queries import find_annotators

FORGET_SECONDS = 5.0
"""How long a process may go by a name that has been given to another model, or to nobody, meanwhile."""

_SIZE = 200_000
_RENEWED = 2_000  # names at once, lest the one that is needed wait for them


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
        self._models, self._annotators = _Memory(), _Memory()

    def forget(self) -> None:
        """Remember nothing: for who has just changed what names stand for, and committed it."""
        self._models, self._annotators = _Memory(), _Memory()

    def read(self, named: Iterable[Named], raw_keys: Iterable[str]) -> Known:
        """Return what is known of these models and annotators, from memory or from the database."""
        now = time.monotonic()
        remembered_models, remembered_annotators = self._models, self._annotators
        models, new_models = remembered_models.recall({name for name, _ in named}, now)
        annotators, new_annotators = remembered_annotators.recall(set(raw_keys), now)
        if not (new_models or new_annotators):
            return Known(ModelNames(models, {}, None), annotators)
        soon = now + self._seconds / 2
        with self._database.read() as conn:
            read = read_names(conn, new_models | remembered_models.renewable(soon))
            found = find_annotators(conn, new_annotators | remembered_annotators.renewable(soon))
        forget_at = now + self._seconds  # counted from the asking: what changed since must not gain time
        plain = {name: number for name, number in read.own.items() if name not in read.aliases}
        remembered_models.remember(plain, forget_at)
        remembered_annotators.remember(found, forget_at)
        return Known(ModelNames({**models, **read.own}, read.aliases, read.read_at), {**annotators, **found})


class _Memory:
    """Names' numbers, each until its time."""

    def __init__(self) -> None:
        self._numbers: dict[str, tuple[float, int]] = {}
        self._met: set[str] = set()

    def recall(self, names: set[str], now: float) -> tuple[dict[str, int], set[str]]:
        """Return the numbers that are remembered, and the names of which none is."""
        known: dict[str, int] = {}
        for name in names:
            remembered = self._numbers.get(name)
            if remembered is not None and remembered[0] > now:
                known[name] = remembered[1]
        self._met |= known.keys()
        return known, names - known.keys()

    def renewable(self, soon: float) -> set[str]:
        """Return names met since the last call that are forgotten soon.

        Who asks for one name asks for them too: a few hundred annotators who vote all the time, each asked for by
        himself when his time has come, would need a statement of their own with every other group of votes.
        """
        met, self._met = self._met, set()
        # Copied first: another thread may be adding to it still.
        ending = (name for name in list(met) if (remembered := self._numbers.get(name)) and remembered[0] <= soon)
        return set(islice(ending, _RENEWED))

    def remember(self, found: Mapping[str, int], forget_at: float) -> None:
        """Remember numbers until then."""
        if len(self._numbers) + len(found) > _SIZE:
            self._numbers.clear()
        self._numbers.update((name, (forget_at, number)) for name, number in found.items())
