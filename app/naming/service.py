"""How a process takes the names it is given: decided once, where the database is opened, and found on each connection.

Carried by the connection, not handed from function to function: a path that forgot it would store raw keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Literal, Self, cast

from sqlalchemy import Connection, text

from app.errors import UnavailableError
from app.naming.pseudonyms import MADE, STORED, Pseudonyms

OPTION = "stable_arena_naming"

_ANY_RAW_KEY = text("SELECT EXISTS (SELECT FROM annotators WHERE key !~ :stored)")
# Nobody can bring this about from outside by calling himself like a pseudonym: one raw key says that there are none.
_ONLY_PSEUDONYMS = text(
    "SELECT NOT EXISTS (SELECT FROM annotators WHERE key !~ :stored) "
    "AND EXISTS (SELECT FROM annotators WHERE key ~ :made)"
)

UnknownModels = Literal["create", "refuse"]


class RawKeysStoredError(UnavailableError):
    """Pseudonyms are on, annotators on record under raw keys: who voted before would be taken for somebody new."""

    code = "raw-keys-stored"
    title = "Annotators are on record under raw keys"


class PseudonymKeyMissingError(UnavailableError):
    """Annotators are on record under pseudonyms, and the secret that makes them is not set."""

    code = "pseudonym-key-missing"
    title = "Annotators are on record under pseudonyms"


@dataclass(frozen=True)
class Naming:
    """What becomes of a model's name that nobody knows, and of annotators' raw keys.

    Attributes
    ----------
    unknown_models : add the model, or leave it without a number
    pseudonyms : what stands for raw keys; None where keys are stored as they come
    raw_beside : store keys as they come even where those on record are pseudonyms
    keys_fit : whether the keys on record were found to be such as this process makes
    """

    unknown_models: UnknownModels = "create"
    pseudonyms: Pseudonyms | None = None
    raw_beside: bool = False
    keys_fit: Event = field(default_factory=Event, init=False, repr=False, compare=False)

    @classmethod
    def chosen(
        cls,
        unknown_models: UnknownModels,
        pseudonym_secrets: Mapping[int, bytes],
        version: int,
        *,
        raw_beside: bool = False,
    ) -> Self:
        """Return what the settings ask for: pseudonyms where there is any secret, new ones by that of `version`."""
        pseudonyms = Pseudonyms(version, dict(pseudonym_secrets)) if pseudonym_secrets else None
        return cls(unknown_models, pseudonyms, raw_beside)

    def stored_keys(self, raw: str) -> tuple[str, ...]:
        """Return the keys under which an annotator may be on record; a new one gets the first."""
        return (raw,) if self.pseudonyms is None else self.pseudonyms.of(raw)

    def matching_keys(self, reference: str) -> tuple[str, ...]:
        """Return what a caller may mean who looks somebody up: a raw key, or a key as it is stored and shown."""
        return (*self.stored_keys(reference), reference)


def naming_of(conn: Connection) -> Naming:
    """Return how the process that opened this connection takes names."""
    return cast("Naming", conn.get_execution_options()[OPTION])


def require_fitting_keys(conn: Connection) -> None:
    """Check, at the start and before somebody new is put on record, that the keys there are such as this process makes.

    Raises
    ------
    RawKeysStoredError, PseudonymKeyMissingError
    """
    naming = naming_of(conn)
    if naming.keys_fit.is_set():
        return
    require_pseudonym_key(conn)
    if naming.pseudonyms is not None and conn.execute(_ANY_RAW_KEY, {"stored": STORED}).scalar_one():
        raise RawKeysStoredError(
            "pseudonyms are on but annotators are on record under raw keys: run stable-arena annotators pseudonymise"
        )
    naming.keys_fit.set()  # asked once: only a process with other settings could make it untrue from here on


def require_pseudonym_key(conn: Connection) -> None:
    """Check that the secret is set where everybody on record is under a pseudonym.

    Raises
    ------
    PseudonymKeyMissingError
    """
    naming = naming_of(conn)
    if naming.pseudonyms is not None or naming.raw_beside:
        return
    if conn.execute(_ONLY_PSEUDONYMS, {"stored": STORED, "made": MADE}).scalar_one():
        raise PseudonymKeyMissingError(
            "annotators are on record under pseudonyms but STABLE_ARENA_PSEUDONYM_KEY is not set: whoever voted would "
            "be taken for somebody new, under the raw key; STABLE_ARENA_ALLOW_RAW_KEYS=true if that is meant"
        )
