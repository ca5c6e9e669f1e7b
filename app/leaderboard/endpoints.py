from typing import Annotated, Any, cast, get_args
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import AfterValidator, BaseModel, TypeAdapter
from sqlalchemy import Connection

from app.api.dependencies import OptionalReader, ReadView, require
from app.api.fragments import Fragment, FragmentedResponse
from app.api.kept_answers import PublicRoute, revalidated
from app.api.pagination import Cursor, Number, PageSize, paginate, read_cursor
from app.api.problems import problem_responses
from app.auth.callers import Caller
from app.database.timestamps import Timestamp
from app.errors import BadInputError, FieldError
from app.leaderboard import matchups
from app.leaderboard.categories import CategoryTable, tabulate_categories
from app.leaderboard.confidence import LeaderboardConfidence, describe_confidence
from app.leaderboard.criteria import CriteriaAgreement, compare_criteria
from app.leaderboard.formats import MOST_MODELS, make_catalog, read_fields, render
from app.leaderboard.matchups import MatchupPage
from app.leaderboard.model_page import ModelDetail, describe_model
from app.leaderboard.newest import Newest, States
from app.leaderboard.schemas import TAG, ArenaCatalog, Leaderboard, LeaderboardFormat, PublishedLeaderboard
from app.leaderboard.service import SnapshotState, read_published
from app.models.service import find_contestant
from app.rating.settings import MOST_RANKS
from app.snapshots.schemas import AskedMethod, Freshness, LeaderboardMethod, Snapshot
from app.snapshots.service import find_snapshot

_PROBLEMS_OR_UNCHANGED: dict[int | str, dict[str, Any]] = {
    304: {"description": "The answer is still the one that `If-None-Match` names."},
    **problem_responses(404),
}
router = APIRouter(
    tags=["leaderboard"], route_class=PublicRoute, dependencies=[revalidated], responses=_PROBLEMS_OR_UNCHANGED
)
models_router = APIRouter(tags=["models"])

_MEDIA_TYPES: dict[LeaderboardFormat, str] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
_AS_FILES: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "text/csv": {"schema": {"type": "string"}},
            "application/vnd.apache.parquet": {"schema": {"type": "string", "format": "binary"}},
        }
    }
}
_Position = TypeAdapter(tuple[UUID, Number, Number])

_METHODS = ", ".join(get_args(LeaderboardMethod))


def _known_methods(value: str) -> str:
    if not set(value.split(",")) <= set(get_args(LeaderboardMethod)):
        raise ValueError(f"must be one or more of {_METHODS}, separated by commas")
    return value


def _known_fields(value: str) -> str:
    read_fields(value)
    return value


_Snapshot = Annotated[str | None, Query(description="Id or number of a snapshot; the newest by default.")]
_AsOf = Annotated[Timestamp | None, Query(description="The newest snapshot at this time.")]


@router.get("/leaderboard", response_model=Leaderboard, responses=_AS_FILES)
def get_leaderboard(
    _reader: OptionalReader,
    conn: ReadView,
    newest: Newest,
    states: States,
    snapshot: _Snapshot = None,
    as_of: _AsOf = None,
    method: Annotated[AskedMethod, Query(description="Which of the snapshot's leaderboards.")] = "am-elo",
    tag: Annotated[str | None, Query(description=TAG)] = None,
    compare: Annotated[
        Annotated[str, AfterValidator(_known_methods)] | None,
        Query(
            description=f"Other methods, separated by commas, whose ranks and scores to show beside: {_METHODS}.",
            examples=["m-elo,m-elo-all"],
        ),
    ] = None,
    limit: Annotated[int | None, Query(ge=1, le=MOST_MODELS, description="Only the first so many models.")] = None,
    fields: Annotated[
        Annotated[str, AfterValidator(_known_fields)] | None,
        Query(
            description="Only these fields of the models, separated by commas; `model` is always there, and "
            "`diagnostics` only where it is named.",
            examples=["model,rank,score"],
        ),
    ] = None,
    format: Annotated[LeaderboardFormat, Query()] = "json",  # noqa: A002  the parameter's public name
) -> Response:
    """Show the leaderboard.

    By default the newest one, by am-elo, of all votes. `snapshot` or `as_of` choose an earlier one. The `ETag` changes
    with the content, but not with `age_seconds` alone; a request whose `If-None-Match` names it is answered 304.

    With `method=style` each model is `compared` with am-elo, and `diagnostics.style` says what the features are worth.

    Public, unless the service is set to require scope `read`. Problems: `no-snapshot` before the first publication;
    `not-found` for an unknown snapshot; `no-such-board` where the snapshot has no leaderboard of the method or tag;
    `invalid` for an unknown method, field or time, or for both `snapshot` and `as_of`.
    """
    _refuse_two_choices(snapshot, as_of)
    compare = compare or ("am-elo" if method == "style" else None)
    others = cast("tuple[LeaderboardMethod, ...]", tuple(compare.split(","))) if compare else ()
    state = states.choose(conn, newest, snapshot, as_of)
    published = read_published(conn, state.snapshot, method, tag, others)
    content = render(published, format, limit, read_fields(fields))
    if format != "json":
        return _respond(content, format, _file_name(published))
    freshness = _freshness(state, newest or state)
    return _respond(freshness.mark.encode() + content[1:], "json", "", freshness)


@router.get("/leaderboard/arena-catalog", response_model=ArenaCatalog)
def get_arena_catalog(
    _reader: OptionalReader,
    conn: ReadView,
    snapshot: _Snapshot = None,
    as_of: _AsOf = None,
    method: Annotated[AskedMethod, Query(description="Which of the snapshot's leaderboards.")] = "am-elo",
    tag: Annotated[str | None, Query(description="Only the category of this tag.")] = None,
) -> Response:
    """Show the leaderboard as an arena-catalog: category to model to rating.

    The category `full` is all votes, and each tag is a category.

    Public, unless the service is set to require scope `read`. Problems: `no-snapshot` before the first publication;
    `not-found` for an unknown snapshot; `no-such-board` where the snapshot has no leaderboard of the method or tag;
    `invalid` for an unknown method or time, or for both `snapshot` and `as_of`.
    """
    return _respond(make_catalog(conn, _choose(conn, snapshot, as_of), method, tag))


@router.get("/leaderboard/confidence", response_model=LeaderboardConfidence)
def get_confidence(
    _reader: OptionalReader,
    conn: ReadView,
    snapshot: _Snapshot = None,
    as_of: _AsOf = None,
    tag: Annotated[str | None, Query(description=TAG)] = None,
    k: Annotated[int, Query(ge=1, le=MOST_RANKS, description="How many models are asked for: the best k.")] = 1,
) -> Response:
    """Say whether the votes are enough: which models are the best k, how sure that is, and how many votes are missing.

    The verdict may be looked at after every refit: over all refits together it is wrongly `decided` with a probability
    of at most 1 − `confidence`. `sentence` is the verdict in words. The models' probabilities are from their joint
    errors, and are for one look. A request whose `If-None-Match` names the current `ETag` is answered 304.

    Public, unless the service is set to require scope `read`. Problems: `no-snapshot` before the first publication;
    `not-found` for an unknown snapshot; `no-such-board` where the snapshot has no leaderboard of the tag;
    `no-confidence` where it does not say how sure its order is; `invalid` for a k that is not below the number of
    models, an unknown time, or for both `snapshot` and `as_of`.
    """
    return _respond(describe_confidence(conn, _choose(conn, snapshot, as_of), k=k, tag=tag or None))


@router.get("/leaderboard/criteria", response_model=CriteriaAgreement)
def get_criteria(_reader: OptionalReader, conn: ReadView, snapshot: _Snapshot = None, as_of: _AsOf = None) -> Response:
    """Say how the criteria of votes agree: how many pairs of models each two put into the same order.

    The main leaderboard is `overall`; that of another criterion is in `GET /leaderboard?tag=criterion=NAME`.

    Public, unless the service is set to require scope `read`. Problems: `no-snapshot` before the first publication;
    `not-found` for an unknown snapshot; `invalid` for an unknown time, or for both `snapshot` and `as_of`.
    """
    return _respond(compare_criteria(conn, _choose(conn, snapshot, as_of)))


@router.get("/leaderboard/categories", response_model=CategoryTable)
def get_categories(
    _reader: OptionalReader, conn: ReadView, snapshot: _Snapshot = None, as_of: _AsOf = None
) -> Response:
    """Show the scores of all models in all categories, and which stand out.

    The leaderboard of a category is in `GET /leaderboard?tag=language=fr`.

    Public, unless the service is set to require scope `read`. Problems: `no-snapshot` before the first publication;
    `not-found` for an unknown snapshot; `invalid` for an unknown time, or for both `snapshot` and `as_of`.
    """
    return _respond(tabulate_categories(conn, _choose(conn, snapshot, as_of)))


@router.get("/matchups", response_model=MatchupPage, responses=_AS_FILES)
def list_matchups(
    _reader: OptionalReader,
    conn: ReadView,
    snapshot: _Snapshot = None,
    as_of: _AsOf = None,
    model: Annotated[str | None, Query(description="Only pairs with this model, as model_a.")] = None,
    format: Annotated[LeaderboardFormat, Query()] = "json",  # noqa: A002  the parameter's public name
    limit: PageSize = 50,
    cursor: Cursor = None,
) -> Response:
    """List pairs of models: wins, ties, votes, observed and predicted win rate.

    The votes are those that a snapshot counted. The list has every pair with votes; a leaderboard that is not too large
    also has every pair with a prediction. JSON comes in pages, all from one snapshot. CSV and Parquet are whole and
    ignore `limit` and `cursor`. A request whose `If-None-Match` names the current `ETag` is answered 304.

    Public, unless the service is set to require scope `read`. Problems: `no-snapshot` before the first publication;
    `not-found` for an unknown snapshot or model; `no-matchups` where the snapshot's pairs were deleted; `invalid` for
    an unknown cursor or time, or for both `snapshot` and `as_of`.
    """
    _refuse_two_choices(snapshot, as_of)
    position = read_cursor(cursor, _Position) if format == "json" else None
    paged = position is not None and snapshot is None  # the first page chose the snapshot
    chosen = find_snapshot(conn, str(position[0]) if paged and position else snapshot, None if paged else as_of)
    if position is not None and position[0] != chosen.id:
        raise BadInputError("the cursor is from another list", (FieldError("/cursor", "is from another snapshot"),))
    model_id = None if model is None else find_contestant(conn, model, public=True).model_id
    if format == "json":
        found = matchups.list_matchups(
            conn, chosen, model_id=model_id, after=position and position[1:], limit=limit + 1
        )
        page = paginate(found, limit, lambda last: (chosen.id, *last[1]))
        items = [one for one, _ in page.items]
        return _respond(MatchupPage(snapshot=chosen, items=items, next_cursor=page.next_cursor))
    content = matchups.write_matchups(conn, chosen, format, model_id=model_id)
    return _respond(content, format, f"matchups-{chosen.number}")


# Names may hold slashes, as in meta-llama/Llama-3: `path` takes them.
@models_router.get("/models/{name:path}", responses=problem_responses(404))
def get_model(
    name: str,
    caller: Annotated[Caller, require("read")],
    conn: ReadView,
    method: Annotated[
        AskedMethod, Query(description="Which leaderboard `newest`, `history` and `chart` are from.")
    ] = "am-elo",
) -> ModelDetail:
    """Show a model: scores, history, results against each other model, other names.

    `name` is its name, an alias, or the name of a model that was merged into it. The answer has the model's place on
    every leaderboard of the newest snapshot, its earlier places, its results against each other model in the votes that
    this snapshot counts, and how few votes would swap it with its neighbours. An unreleased model is found
    with scope `review:read` too. Needs scope `read`. Problems: `not-authenticated`, `scope-missing`, `not-found`;
    `invalid` for an unknown method.
    """
    return describe_model(conn, find_contestant(conn, name, public=not caller.may("review:read")), method)


def _file_name(published: PublishedLeaderboard) -> str:
    """Return a file name for a download, with the characters of the tag that are safe in a header."""
    tag = "".join(c if c.isascii() and c.isalnum() else "-" for c in published.tag or "")[:50]
    return f"leaderboard-{published.snapshot.number}-{published.method}{tag and '-'}{tag}"


def _refuse_two_choices(snapshot: str | None, as_of: Timestamp | None) -> None:
    """Check that at most one parameter chooses the snapshot. Raises BadInputError."""
    if snapshot is not None and as_of is not None:
        raise BadInputError("give either snapshot or as_of", (FieldError("/as_of", "does not go with snapshot"),))


def _choose(conn: Connection, snapshot: str | None, as_of: Timestamp | None) -> Snapshot:
    _refuse_two_choices(snapshot, as_of)
    return find_snapshot(conn, snapshot, as_of)


def _freshness(state: SnapshotState, newest: SnapshotState) -> Fragment:
    """Return the beginning of a JSON leaderboard: how fresh it is is another thing for each reader."""
    between = state.freshness.votes_not_in_board - newest.freshness.votes_not_in_board

    def freshness(now: SnapshotState) -> Freshness:
        return now.freshness_of(state, between)

    return Fragment(
        lambda now: freshness(now).model_dump_json()[:-1] + ",",
        lambda now: repr(freshness(now).model_dump(exclude={"age_seconds"})),
    )


def _respond(
    content: bytes | BaseModel, form: LeaderboardFormat = "json", name: str = "", *fragments: Fragment
) -> Response:
    """Return the content; `name` is that of a Parquet file."""
    if isinstance(content, BaseModel):
        content = content.model_dump_json().encode()
    headers = {"Cache-Control": "no-cache"}
    if form == "parquet":
        headers["Content-Disposition"] = f'attachment; filename="{name}.parquet"'
    return FragmentedResponse(content, fragments, media_type=_MEDIA_TYPES[form], headers=headers)
