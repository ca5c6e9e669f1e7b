"""What the downloads of leaderboards and matchups have in common."""

from fastapi import Response

from app.database.timestamps import Timestamp
from app.errors import BadInputError, FieldError
from app.leaderboard.schemas import LeaderboardFormat

MEDIA_TYPES: dict[LeaderboardFormat, str] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "arena-catalog": "application/json",
}


def refuse_two_choices(snapshot: str | None, as_of: Timestamp | None) -> None:
    """Check that at most one parameter chooses the snapshot.

    Raises
    ------
    BadInputError
    """
    if snapshot is not None and as_of is not None:
        raise BadInputError("give either snapshot or as_of", (FieldError("/as_of", "does not go with snapshot"),))


def respond(content: bytes, form: LeaderboardFormat, etag: str, if_none_match: str | None, name: str) -> Response:
    """Return the content with its entity tag, or 304 if the caller has it already; `name` is that of a Parquet file."""
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if if_none_match is not None and _names(if_none_match, etag):
        return Response(status_code=304, headers=headers)
    if form == "parquet":
        headers["Content-Disposition"] = f'attachment; filename="{name}.parquet"'
    return Response(content, media_type=MEDIA_TYPES[form], headers=headers)


def _names(if_none_match: str, etag: str) -> bool:
    """Whether an `If-None-Match` header names the tag. Proxies may have marked either as weak."""
    named = {part.strip().removeprefix("W/") for part in if_none_match.split(",")}
    return etag.removeprefix("W/") in named or "*" in named
