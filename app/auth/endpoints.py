from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from app.auth import service as keys
from app.auth.service import Caller, KeyRecord, Scope
from app.auth.tokens import service as tokens
from app.auth.tokens.service import create_token
from app.database.timestamps import Timestamp
from app.http.dependencies import ReadView, Transaction, require
from app.http.pagination import Page
from app.http.problems import problem_responses
from app.naming.names import MAX_NAME_LENGTH

router = APIRouter(prefix="/keys", tags=["keys"])

_LONGEST_OVERLAP = int(keys.MAX_OVERLAP.total_seconds())
_LONGEST_TOKEN = int(tokens.LONGEST.total_seconds())
_MAX_PER_MINUTE = 10**9


class Key(BaseModel):
    """An API key without its secret."""

    id: UUID
    name: str = Field(description="Whose key it is.")
    prefix: str = Field(description="Its first part, by which it can be told from others.")
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None = Field(description="When it stops working; null for never.")
    revoked_at: datetime | None
    replaced_by: UUID | None = Field(description="The key that took its place.")
    requests_per_minute: int | None = Field(description="Its own limit; null for the service's.")


class NewKey(BaseModel):
    """A key to make."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(
        min_length=1, max_length=MAX_NAME_LENGTH, description="Whose key it is; written beside what is done with it."
    )
    scopes: list[Scope] = Field(min_length=1, max_length=10, description="What it may do; admin: everything.")
    expires_at: Timestamp | None = Field(None, description="When it stops working, with its time zone.")
    requests_per_minute: int | None = Field(
        None, ge=1, le=_MAX_PER_MINUTE, description="A limit of its own in place of the service's."
    )


class MadeKey(Key):
    """A key that was just made; this is the only time that it is shown."""

    key: str = Field(description="What the caller shows: Authorization: Bearer …")


class Rotation(BaseModel):
    """How a key is replaced."""

    model_config = ConfigDict(extra="forbid")

    overlap_seconds: int = Field(
        3600, ge=0, le=_LONGEST_OVERLAP, description="How long the old key works beside the new one."
    )


class NewToken(BaseModel):
    """A token to make."""

    model_config = ConfigDict(extra="forbid")

    seconds: int = Field(900, ge=1, le=_LONGEST_TOKEN, description="How long it works.")
    annotator: str | None = Field(
        None, min_length=1, max_length=MAX_NAME_LENGTH, description="The only annotator whom it may vote for."
    )


class MadeToken(BaseModel):
    """A token that was just made; this is the only time that it is shown."""

    id: UUID
    token: str = Field(description="What the page shows: Authorization: Bearer …")
    expires_at: datetime


@router.get("", dependencies=[require("admin")], responses=problem_responses(401, 403, 503))
def list_keys(conn: ReadView) -> Page[Key]:
    """List API keys, revoked ones too, without their secrets.

    Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`.
    """
    return Page(items=[_public(record) for record in keys.list_keys(conn)], next_cursor=None)


@router.post("", status_code=201, responses=problem_responses(401, 403, 422, 503))
def post_key(body: NewKey, caller: Annotated[Caller, require("admin")], conn: Transaction, answer: Response) -> MadeKey:
    """Make an API key.

    The answer has the key, this once: it is stored as a hash. Needs scope `admin`. Asking twice makes two keys.
    Problems: `not-authenticated`, `scope-missing`; `invalid` for a name, scope or time that cannot be.
    """
    record, secret = keys.create_key(
        conn,
        body.name,
        body.scopes,
        expires_at=body.expires_at,
        requests_per_minute=body.requests_per_minute,
        actor=caller.name,
    )
    _keep_out_of_caches(answer)
    return MadeKey(**_public(record).model_dump(), key=secret)


@router.post("/tokens", status_code=201, responses=problem_responses(401, 403, 422, 503))
def post_token(
    caller: Annotated[Caller, require("ingest")], conn: Transaction, answer: Response, body: NewToken | None = None
) -> MadeToken:
    """Make a short-lived token for a page in a browser.

    It posts votes, singly and in batches, and is good for nothing else; it ends by itself, and with the key that it
    was made with. Its requests count towards that key's limit. The answer has the token, this once.

    Needs scope `ingest`; a token makes no tokens. Asking twice makes two. Problems: `not-authenticated`,
    `scope-missing`; `invalid` for a time or an annotator that cannot be.
    """
    wanted = body or NewToken()
    record, secret = create_token(conn, caller, lifetime=timedelta(seconds=wanted.seconds), annotator=wanted.annotator)
    _keep_out_of_caches(answer)
    return MadeToken(id=record.id, token=secret, expires_at=record.expires_at)


@router.post("/{key_id}/rotate", status_code=201, responses=problem_responses(401, 403, 404, 409, 422, 503))
def rotate_key(
    key_id: UUID,
    caller: Annotated[Caller, require("admin")],
    conn: Transaction,
    answer: Response,
    body: Rotation | None = None,
) -> MadeKey:
    """Replace an API key by a new one of the same name, scopes and limit.

    The old key works for `overlap_seconds` more, so that whoever uses it can change over; a key with a term is
    followed by one with a term of the same length. The answer has the new key, this once. Needs scope `admin`.
    Problems: `not-authenticated`, `scope-missing`, `not-found`; `conflict` for a key that is revoked, expired or
    replaced already; `invalid` for an overlap out of range.
    """
    overlap = timedelta(seconds=(body or Rotation()).overlap_seconds)
    record, secret = keys.rotate_key(conn, str(key_id), overlap=overlap, actor=caller.name)
    _keep_out_of_caches(answer)
    return MadeKey(**_public(record).model_dump(), key=secret)


@router.delete("/{key_id}", responses=problem_responses(401, 403, 404, 422, 503))
def delete_key(key_id: UUID, caller: Annotated[Caller, require("admin")], conn: Transaction) -> Key:
    """Revoke an API key and every token that was made with it.

    It stops working within 5 seconds and stays on record. Revoking it again changes nothing. Needs scope `admin`.
    Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    return _public(keys.revoke_key(conn, str(key_id), actor=caller.name))


def _public(record: KeyRecord) -> Key:
    return Key.model_validate(asdict(record))


def _keep_out_of_caches(answer: Response) -> None:
    answer.headers["Cache-Control"] = "no-store"
