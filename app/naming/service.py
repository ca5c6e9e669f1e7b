"""How a process stores the names that it receives.

The choice is made once, where the database is opened, and every connection carries it. If functions passed it on to
each other, one that forgot it would store raw keys.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain
from threading import Event
from typing import Literal, Self

from sqlalchemy import Connection

from app.errors import UnavailableError
from app.naming import queries as store
from app.naming.aliases import ModelNames, Named, read_names
from app.naming.pseudonyms import Pseudonyms

_OPTION = "stable_arena_naming"

UnknownModels = Literal["create", "refuse"]


class RawKeysStoredError(UnavailableError):
    """Pseudonyms are on, but annotators are on record under raw keys: they would be taken for new ones."""

    code = "raw-keys-stored"
    title = "Annotators are on record under raw keys"


class PseudonymKeyMissingError(UnavailableError):
    """Annotators are on record under pseudonyms, but the secret that makes them is not set."""

    code = "pseudonym-key-missing"
    title = "Annotators are on record under pseudonyms"


@dataclass(frozen=True)
class Naming:
    """How unknown models and annotators' raw keys are stored.

    Attributes
    ----------
    unknown_models : whether a new model is added or the vote refused
    pseudonyms : what is stored in place of raw keys; None where raw keys are stored
    raw_beside : store raw keys even if the keys on record are pseudonyms
    keys_fit : set once the keys on record were found to be of the kind that this process stores
    """

    unknown_models: UnknownModels = "create"
    pseudonyms: Pseudonyms | None = None
    raw_beside: bool = False
    keys_fit: Event = field(default_factory=Event, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        """Pickle it for another process, which looks at the keys on record itself."""
        return type(self), (self.unknown_models, self.pseudonyms, self.raw_beside)

    @classmethod
    def chosen(
        cls,
        unknown_models: UnknownModels,
        pseudonym_secrets: Mapping[int, bytes],
        version: int,
        *,
        raw_beside: bool = False,
    ) -> Self:
        """Return what the settings ask for: with any secret, pseudonyms, and new ones by the secret of `version`."""
        pseudonyms = Pseudonyms(version, dict(pseudonym_secrets)) if pseudonym_secrets else None
        return cls(unknown_models, pseudonyms, raw_beside)

    @property
    def connection_options(self) -> dict[str, object]:
        """What a `Database` is opened with, so that `naming_of` finds this on its connections."""
        return {_OPTION: self}

    def stored_keys(self, raw: str) -> tuple[str, ...]:
        """Return the keys under which an annotator may be on record; a new annotator gets the first."""
        return (raw,) if self.pseudonyms is None else self.pseudonyms.of(raw)

    def matching_keys(self, reference: str) -> tuple[str, ...]:
        """Return the stored keys that a caller may mean, who gives a raw key or a key as it is stored and shown."""
        return (*self.stored_keys(reference), reference)


def naming_of(conn: Connection) -> Naming:
    """Return how the process that opened this connection stores names."""
    naming = conn.get_execution_options().get(_OPTION)
    return naming if isinstance(naming, Naming) else Naming()


def resolve_models(conn: Connection, named: set[Named], *, only_known: AbstractSet[Named] = frozenset()) -> ModelNames:
    """Return what the models' names stand for, after adding the models in `named` that are new.

    If unknown models are refused, none is added: a name that stands for no model at its time has no number.
    """
    names = {name for name, _ in named | only_known}
    found = read_names(conn, names)
    if naming_of(conn).unknown_models == "refuse":
        return found
    if missing := {name for name, at in named if found.number(name, at) is None}:
        store.add_models(conn, missing)
        found = read_names(conn, names)
    return found


def resolve_annotators(conn: Connection, raw_keys: Iterable[str]) -> dict[str, int]:
    """Return the number of each annotator by the raw key, after adding those that are new.

    Raises RawKeysStoredError or PseudonymKeyMissingError.
    """
    naming, wanted = naming_of(conn), set(raw_keys)
    numbers = find_annotators(conn, wanted)
    if missing := {naming.stored_keys(raw)[0]: raw for raw in wanted - numbers.keys()}:
        require_fitting_keys(conn)
        store.add_annotators(conn, missing.keys())
        numbers |= {missing[key]: number for key, number in store.find_numbers(conn, missing).items()}
    return numbers


def find_annotators(conn: Connection, raw_keys: Iterable[str]) -> dict[str, int]:
    """Return the number of each annotator that is on record, by the raw key."""
    naming = naming_of(conn)
    stored = {raw: naming.stored_keys(raw) for raw in raw_keys}
    numbers = store.find_numbers(conn, chain.from_iterable(stored.values()))
    # The first key that is on record counts.
    return {raw: numbers[key] for raw, keys in stored.items() for key in reversed(keys) if key in numbers}


def require_fitting_keys(conn: Connection) -> None:
    """Check, before a new annotator is added, that the keys on record are of the kind that this process stores.

    Raises RawKeysStoredError or PseudonymKeyMissingError.
    """
    naming = naming_of(conn)
    if naming.keys_fit.is_set():
        return
    require_pseudonym_key(conn)
    if naming.pseudonyms is not None and store.has_raw_keys(conn):
        raise RawKeysStoredError(
            "pseudonyms are on but annotators are on record under raw keys: run stable-arena annotators pseudonymise"
        )
    naming.keys_fit.set()  # checked once: from here on only a process with other settings could add other keys


def require_pseudonym_key(conn: Connection) -> None:
    """Check that the secret is set if all annotators on record are under pseudonyms.

    Raises PseudonymKeyMissingError.
    """
    naming = naming_of(conn)
    if naming.pseudonyms is not None or naming.raw_beside:
        return
    if store.has_only_pseudonyms(conn):
        raise PseudonymKeyMissingError(
            "annotators are on record under pseudonyms but STABLE_ARENA_PSEUDONYM_KEY is not set: annotators who voted "
            "would be taken for new ones, under raw keys; set STABLE_ARENA_ALLOW_RAW_KEYS=true if that is meant"
        )
