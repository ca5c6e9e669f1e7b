from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Response

from app.auth.callers import Caller
from app.auth.tokens.schemas import MadeToken, NewToken
from app.auth.tokens.service import create_token
from app.http.dependencies import Transaction, require
from app.http.problems import problem_responses

router = APIRouter(prefix="/keys", tags=["keys"])


@router.post("/tokens", status_code=201, responses=problem_responses(401, 403, 422, 503))
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
    record, secret = create_token(conn, caller, lifetime=timedelta(seconds=wanted.seconds), annotator=wanted.annotator)
    answer.headers["Cache-Control"] = "no-store"
    return MadeToken(id=record.id, token=secret, expires_at=record.expires_at)
