from uuid import UUID

from sqlalchemy import Connection

from app.annotators import queries as store
from app.annotators.schemas import FoundAnnotator, PastEvidence, VotesSummary
from app.errors import NotFoundError
from app.naming.names import name_error
from app.naming.service import naming_of
from app.rating.settings import Standing


def list_annotators(
    conn: Connection,
    *,
    limit: int,
    standing: Standing | None = None,
    key: str | None = None,
    after: tuple[float, int] | None = None,
) -> list[FoundAnnotator]:
    """Return annotators, the lowest ability first, those without any ability last.

    Parameters
    ----------
    key : picks one annotator, by the raw key or by the key that is shown
    after : `position` of the last annotator of the page before
    """
    if key is not None and name_error(key) is not None:
        return []
    keys = None if key is None else naming_of(conn).matching_keys(key)
    rows = store.list_annotators(conn, standing=standing, keys=keys, limit=limit, after=after)
    return [FoundAnnotator.model_validate(dict(row)) for row in rows]


def find_annotator(conn: Connection, reference: str) -> FoundAnnotator:
    """Return the annotator with this public id or key; the key may be raw or as it is shown.

    Raises
    ------
    NotFoundError
    """
    row = None
    if name_error(reference) is None:
        keys = naming_of(conn).matching_keys(reference)
        row = store.find_annotator(conn, public_id=_uuid(reference), keys=keys)
    if row is None:
        # The message leaves the reference out: it may be a raw key, and errors are logged.
        raise NotFoundError("there is no annotator with this id or key")
    return FoundAnnotator.model_validate(dict(row))


def summarise_votes(conn: Connection, annotator: FoundAnnotator) -> VotesSummary:
    """Count the annotator's votes so far."""
    return VotesSummary.model_validate(dict(store.summarise_votes(conn, annotator.annotator_id)))


def list_history(
    conn: Connection, annotator: FoundAnnotator, *, limit: int, before: int | None = None
) -> list[PastEvidence]:
    """Return the annotator's figures in past snapshots, the newest first, those with a number below `before`."""
    rows = store.list_history(conn, annotator.annotator_id, limit=limit, before=before)
    return [PastEvidence.model_validate(dict(row)) for row in rows]


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
