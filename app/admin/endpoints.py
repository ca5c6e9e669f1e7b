"""API keys and the audit log over HTTP, for admins and reviewers."""

from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import TypeAdapter

from app.api.dependencies import ReadView, Transaction, require
from app.api.pagination import BigNumber, Cursor, Name, Page, PageSize, paginate, read_single
from app.api.problems import problem_responses
from app.audit import service as audit
from app.audit.service import AuditEntry
from app.auth import keys
from app.auth.callers import Caller
from app.auth.schemas import Key, MadeKey, MadeToken, NewKey, NewToken, Rotation
from app.auth.tokens import create_token

keys_router = APIRouter(prefix="/keys", tags=["keys"])
audit_router = APIRouter(tags=["annotators"])

_Position = TypeAdapter(tuple[BigNumber])


@keys_router.get("", dependencies=[require("admin")])
def list_keys(conn: ReadView) -> Page[Key]:
    """List API keys, revoked ones too, without their secrets.

    Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`.
    """
    return Page(items=keys.list_keys(conn), next_cursor=None)


@keys_router.post("", status_code=201)
def post_key(body: NewKey, caller: Annotated[Caller, require("admin")], conn: Transaction, answer: Response) -> MadeKey:
    """Make an API key.

    The answer has the key. It is shown this once, because only its hash is stored. Needs scope `admin`. Posting twice
    makes two keys. Problems: `not-authenticated`, `scope-missing`; `invalid` for a wrong name, scope, time or limit.
    """
    record, secret = keys.create_key(
        conn,
        body.name,
        body.scopes,
        expires_at=body.expires_at,
        requests_per_minute=body.requests_per_minute,
        actor=caller.name,
    )
    answer.headers["Cache-Control"] = "no-store"
    return MadeKey(**record.model_dump(), key=secret)


@keys_router.post("/{key_id}/rotate", status_code=201, responses=problem_responses(404, 409))
def rotate_key(
    key_id: UUID,
    caller: Annotated[Caller, require("admin")],
    conn: Transaction,
    answer: Response,
    body: Rotation | None = None,
) -> MadeKey:
    """Replace an API key by a new one of the same name, scopes and limit.

    The old key works for `overlap_seconds` more, so that its users have time to change. A key with a lifetime is
    replaced by one with the same lifetime. The answer has the new key, which is shown this once. Needs scope `admin`.
    Problems: `not-authenticated`, `scope-missing`, `not-found`; `conflict` for a key that is revoked, expired or
    replaced already; `invalid` for an overlap out of range.
    """
    overlap = timedelta(seconds=(body or Rotation()).overlap_seconds)
    record, secret = keys.rotate_key(conn, str(key_id), overlap=overlap, actor=caller.name)
    answer.headers["Cache-Control"] = "no-store"
    return MadeKey(**record.model_dump(), key=secret)


@keys_router.delete("/{key_id}", responses=problem_responses(404))
def delete_key(key_id: UUID, caller: Annotated[Caller, require("admin")], conn: Transaction) -> Key:
    """Revoke an API key and every token that was made with it.

    It stops working within 5 seconds and stays on record. Revoking it again changes nothing. Needs scope `admin`.
    Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    return keys.revoke_key(conn, str(key_id), actor=caller.name)


@keys_router.post("/tokens", status_code=201)
def post_token(
    caller: Annotated[Caller, require("ingest")], conn: Transaction, answer: Response, body: NewToken | None = None
) -> MadeToken:
    """Make a short-lived token for a page in a browser.

    It may post votes, single or in batches, and nothing else. It expires by itself, and with the key that made it. Its
    requests count towards that key's limit. The answer has the token, which is shown this once.

    Needs scope `ingest`; a token cannot make tokens. Posting twice makes two. Problems: `not-authenticated`,
    `scope-missing`; `invalid` for a wrong time or annotator.
    """
    wanted = body or NewToken()
    answer.headers["Cache-Control"] = "no-store"
    return create_token(conn, caller, lifetime=timedelta(seconds=wanted.seconds), annotator=wanted.annotator)


@audit_router.get("/audit", dependencies=[require("review:read")])
def list_audit(
    conn: ReadView,
    limit: PageSize = 50,
    cursor: Cursor = None,
    action: Annotated[
        Name | None, Query(description="Only this action, or all that begin with it: decision, decision.exclude.")
    ] = None,
    actor: Annotated[Name | None, Query(description="Only what this key did, by its name.")] = None,
    subject: Annotated[
        Name | None, Query(description="Only what was done to this: an id, a name or a version.")
    ] = None,
) -> Page[AuditEntry]:
    """List what admins and reviewers did, the newest first: decisions, policies, keys, models, webhooks and more.

    The hash of each entry covers the entry before. `stable-arena audit verify` checks all of them. Needs scope
    `review:read`. Problems: `not-authenticated`, `scope-missing`; `invalid` for an unknown cursor.
    """
    before = read_single(cursor, _Position)
    items = audit.list_entries(conn, limit=limit + 1, before=before, action=action, actor=actor, subject=subject)
    return paginate(items, limit, lambda last: (last.number,))
