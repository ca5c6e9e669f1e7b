from datetime import timedelta
from functools import partial

from sqlalchemy import Connection

from app.auth import queries as store
from app.auth.callers import AnnotatorBinding, Caller, KnownCallers
from app.auth.keys import authenticate
from app.auth.schemas import LONGEST, MadeToken
from app.auth.secrets import check_secret, digest, make_secret
from app.database.engine import Database
from app.database.ids import new_id
from app.errors import BadInputError, FieldError
from app.naming.names import name_error
from app.state import ProcessState


def create_token(conn: Connection, caller: Caller, *, lifetime: timedelta, annotator: str | None = None) -> MadeToken:
    """Add a token of the caller's key and return it; it cannot be shown again.

    It may post votes, for at most an hour and no longer than its key works. A page in a browser may hold it: bound to
    an `annotator`, it can vote for this one only. Expired tokens are deleted at the same time.

    Raises BadInputError: the lifetime is out of range, or the annotator is not a name.
    """
    errors = []
    if not timedelta(0) < lifetime <= LONGEST:
        errors.append(FieldError("/seconds", f"must be between 1 and {int(LONGEST.total_seconds())}"))
    if annotator is not None and (error := name_error(annotator)) is not None:
        errors.append(FieldError("/annotator", error))
    if errors:
        raise BadInputError("the token is not valid", tuple(errors))
    while True:
        prefix, secret = make_secret("sat")
        values = {
            "id": new_id(),
            "api_key_id": caller.key_id,
            "prefix": prefix,
            "secret_hash": digest(secret),
            "annotator": AnnotatorBinding.to(annotator, secret).mac if annotator is not None else None,
        }
        row = store.add_token(conn, values, lifetime)
        if row is not None:
            return MadeToken(id=row["id"], token=secret, expires_at=row["expires_at"])


def authenticate_any(database: Database, secret: str) -> Caller:
    """Return the holder of this key or token. Raises NotAuthenticatedError."""
    with database.read() as conn:
        return authenticate_token(conn, secret) if is_token(secret) else authenticate(conn, secret)


def is_token(secret: str) -> bool:
    """Whether this has the form of a token, not of a key."""
    return secret.startswith("sat_")


def authenticate_token(conn: Connection, secret: str) -> Caller:
    """Return the holder of this token: its key, allowed to post votes only.

    Raises NotAuthenticatedError: it is not a token, or is mistyped, unknown or expired, or its key no longer works.
    """
    row = check_secret(secret, lambda prefix: store.find_valid_token(conn, prefix))
    binding = AnnotatorBinding(secret.encode(), row["annotator"]) if row["annotator"] is not None else None
    return Caller(
        key_id=row["api_key_id"],
        name=row["name"],
        scopes=frozenset({"ingest"}),
        requests_per_minute=row["requests_per_minute"],
        token_id=row["id"],
        binding=binding,
    )


def provide_known_callers(state: ProcessState) -> None:
    """Hold the callers that were authenticated lately."""
    state[KnownCallers] = KnownCallers(partial(authenticate_any, state[Database]))
