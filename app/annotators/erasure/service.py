"""A person's right to be forgotten: the votes stay and count as before, but nothing says any more whose they are."""

import json
import secrets
from datetime import datetime
from uuid import UUID

import structlog
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.annotators.erasure import queries as store
from app.annotators.queries import lock_annotator
from app.annotators.service import FoundAnnotator, find_annotator
from app.audit import service as audit
from app.naming.kept_texts import require_nameless
from app.naming.pseudonyms import base32

log = structlog.get_logger()


class Erasure(BaseModel):
    """What an annotator is known as from now on."""

    model_config = ConfigDict(frozen=True)

    id: UUID = Field(description="The annotator's id, as before.")
    annotator: str = Field(description="The random key that stands where the key stood.")
    erased_at: datetime = Field(description="When the link was cut; the first time, where it was done again.")


def erase_annotator(conn: Connection, reference: str, *, reason: str, erased_by: str) -> Erasure:
    """Cut the link between an annotator's votes and the person, for good; scores and standings stay as they are.

    The key is replaced by a random one, the votes' metadata and the annotator's notes are cleared, and so is every
    other place that could name the person: faults and failures of imports, tokens, messages to webhooks, finished
    exports. Whoever votes under the old key from then on is a new annotator. Done again, it clears what came in
    meanwhile.

    Raises
    ------
    NotFoundError
    BadInputError
        The reason, which the audit log keeps for ever, names the annotator.
    """
    found = find_annotator(conn, reference)
    lock_annotator(conn, found.annotator_id)
    found = find_annotator(conn, str(found.id))  # as an erasure before this one left it
    named = found.keys(reference)
    require_nameless(conn, reason, named, secret=True)
    if not found.erased_at:
        _forget(conn, found, named)
    store.clear_metadata_of_erased(conn)
    log.info("annotator_erased", annotator=str(found.id), erased_by=erased_by)
    audit.record(conn, actor=erased_by, action="annotator.erase", subject=str(found.id), detail={"reason": reason})
    erased = find_annotator(conn, str(found.id))
    assert erased.erased_at is not None  # noqa: S101  it has just been set
    return Erasure(id=erased.id, annotator=erased.annotator, erased_at=erased.erased_at)


def _forget(conn: Connection, found: FoundAnnotator, named: set[str]) -> None:
    replacement = f"erased_{base32(secrets.token_bytes(32))}"
    store.set_erased_key(conn, found.annotator_id, replacement)
    store.clear_appeals(conn, found.annotator_id)
    store.delete_import_faults(conn, found.annotator_id, sorted(named))
    store.clear_import_details(conn, sorted(named))
    store.delete_tokens(conn, sorted(named))
    for ascii_only in (True, False):
        in_json = json.dumps(found.annotator, ensure_ascii=ascii_only)
        store.replace_in_deliveries(conn, in_json, json.dumps(replacement))
    store.withdraw_exports(conn)
