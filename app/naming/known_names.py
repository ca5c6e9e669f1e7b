import time
from dataclasses import dataclass, field

from app.database.engine import Database
from app.naming.aliases import read_names
from app.naming.service import find_annotators
from app.state import ProcessState

FORGET_SECONDS = 5.0
"""How long a process may use a name that was renamed, or that got an alias, in the meantime."""

_MOST_NAMES = 200_000


@dataclass(frozen=True)
class Known:
    """Names and the numbers that votes store for them.

    Attributes
    ----------
    models : name → number; None for a name with aliases, whose number depends on the time of the vote
    annotators : raw key → number
    """

    models: dict[str, int | None] = field(default_factory=dict)
    annotators: dict[str, int] = field(default_factory=dict)


class KnownNames:
    """Names that were read in the last few seconds, so that a stream of votes does not ask for each of them.

    Every name is forgotten at the same time, `seconds` after the first was read. The next group of votes then reads the
    names it needs in one statement. If each name had its own time, nearly every group would have to read one.

    Models and annotators are never deleted or renumbered. So a process uses a rename, a new alias or an erasure at most
    `seconds` late. Only committed names are remembered. Threads may share one object.
    """

    def __init__(self, database: Database, *, seconds: float = FORGET_SECONDS) -> None:
        self._database = database
        self._seconds = seconds
        self._known, self._until = Known(), 0.0

    def forget(self) -> None:
        """Forget every name. Call it after a change of names is committed."""
        self._until = 0.0

    def look_up(self, models: set[str], annotators: set[str]) -> Known:
        """Return the numbers of these names, and possibly of others. A name that is not on record is left out."""
        known = self._current()
        new_models = [name for name in models if name not in known.models]
        new_annotators = [key for key in annotators if key not in known.annotators]
        if new_models or new_annotators:
            with self._database.read() as conn:
                found = read_names(conn, new_models)
                known.annotators.update(find_annotators(conn, new_annotators))
            known.models.update(found.own)
            known.models.update(dict.fromkeys(found.aliases))
        return known

    def _current(self) -> Known:
        now = time.monotonic()
        if now >= self._until or len(self._known.models) + len(self._known.annotators) > _MOST_NAMES:
            # A new object: a thread that reads names at this moment adds them to the old one, which is forgotten.
            self._known, self._until = Known(), now + self._seconds
        return self._known


def provide_known_names(state: ProcessState) -> None:
    """Hold the names that were read lately."""
    state[KnownNames] = KnownNames(state[Database])
