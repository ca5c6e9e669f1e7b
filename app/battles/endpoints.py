from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic_core import to_json

from app.answers.rendered import Renderings
from app.api.dependencies import ReadView, Transaction, require
from app.api.idempotency import HEADER, documented_key, read_claim
from app.api.pagination import Cursor, Id, Name, Page, PageSize, paginate, read_single
from app.api.problems import invalid_input, problem_responses
from app.api.submissions import (
    WITHOUT_KEY,
    OptionalKey,
    direct_router,
    documented_body,
    refuse_anonymous,
    shown_token,
    verify_battle_token,
)
from app.auth.battle_tokens import BattleTokens
from app.auth.callers import Caller, ForeignAnnotatorError
from app.battles import service
from app.battles.exposure.schemas import Exposure
from app.battles.exposure.service import report_exposure
from app.battles.offering import BattleReceipt, Submission
from app.battles.queue import BattleQueue
from app.battles.schemas import (
    MAX_BATTLE_BYTES,
    Battle,
    BattleState,
    BattleWithCandidates,
    NewBattle,
    OfferedBattle,
    Skip,
    SkippedBattle,
    Undo,
    UndoneVote,
)
from app.database.timestamps import StorableTimestamp
from app.errors import FieldError, ScopeMissingError
from app.guard.admission import authorise, bearer_secret, key_dependency
from app.guard.bodies import parse_body, takes_body
from app.invitations.voters import Voter, admit_voter, is_voter_token
from app.state import state_of
from app.votes.schemas import parse_as

quick_router = direct_router("/battles", "battles")
router = APIRouter(prefix="/battles", tags=["battles"])
exposure_router = APIRouter(prefix="/exposure", tags=["battles"])


async def _admit_asker(request: Request) -> Caller | Voter:
    """Return who asks for a battle: a key, a token that is bound to its annotator, or a person who votes here."""
    secret = bearer_secret(request)
    if secret is not None and is_voter_token(secret):
        return await admit_voter(request.scope, secret)
    caller = await authorise(request, "ingest", tokens=True)
    if caller.token_id is not None and caller.binding is None:
        raise ScopeMissingError("an ingest token draws battles only if it is bound to the annotator")
    return caller


@quick_router.post(
    "",
    status_code=201,
    response_model=OfferedBattle,
    responses=problem_responses(409, 410),
    openapi_extra={**documented_body(NewBattle), "parameters": [documented_key()]},
)
@takes_body(lambda _: MAX_BATTLE_BYTES)
async def post_battle(
    asker: Annotated[Caller | Voter, key_dependency(_admit_asker, "ingest")], request: Request
) -> Response:
    """Draw the next battle for an annotator.

    The service chooses the pair and the sides. The arena's backend gets the models' names and a token. The browser gets
    the two answers and the token: `POST /votes` with the token casts the vote and reveals the models. The battle takes
    one vote, within the time of `STABLE_ARENA_BATTLES__TOKEN_SECONDS`.

    Where the answers lie here, the service chooses the prompt too: no annotator gets a prompt twice with the same pair.
    A browser may then ask itself, with the token of an invitation or an ingest token that is bound to the annotator. It
    gets HTML and no names, and may not choose candidates or tags.

    Asking again draws another battle; with an API key and an `Idempotency-Key`, the same request gets the first answer
    again. Needs scope `ingest`, or a token as above. Problems: `not-authenticated`, `not-invited`, `scope-missing`;
    `foreign-annotator` if the token is bound to another annotator; `malformed-body`, `media-type`, `body-too-large`;
    `invalid`, also for a candidate that is unknown or archived; `too-few-models` if the arena has fewer than two
    models; `nothing-left` and `votes-used-up` for answers that lie here; `idempotency-key-reused`,
    `idempotency-in-flight`. After `pair-taken`, `queue-full`, `shutting-down`, `database-unreachable` or
    `database-busy`, ask again later.
    """
    body = await request.body()
    battle = await parse_body(partial(parse_as, NewBattle), body)
    state = state_of(request.scope)
    queue = state[BattleQueue]
    if isinstance(asker, Voter) or asker.token_id is not None:
        receipt = await queue.submit(_submission_of_browser(battle, asker))
        assert receipt.shown is not None  # noqa: S101  it was asked for with answers
        texts = await state[Renderings].html_of(receipt.shown._asdict())
        return _respond(request, receipt, {**texts, "votes_left": receipt.votes_left})
    if battle.annotator is None:
        raise invalid_input((FieldError("/annotator", "is required"),))
    submission = Submission(battle, asker.key_id)
    if HEADER not in request.headers:
        return _respond_to_backend(request, await queue.submit(submission))
    return await queue.submit_once(submission, read_claim(request, asker, body), partial(_respond_to_backend, request))


def _submission_of_browser(battle: NewBattle, asker: Caller | Voter) -> Submission:
    """Return what a browser asks for. It has no say in what is drawn, and voters have none in who they are."""
    chosen = [name for name in ("candidates", "tags", "category") if getattr(battle, name)]
    if isinstance(asker, Voter):
        chosen += ["annotator"] if battle.annotator is not None else []
        drawn, submission = asker.category, partial(Submission, api_key_id=None, voter=asker, browser=True)
    else:
        if battle.annotator is None or not asker.may_vote_as(battle.annotator):
            raise ForeignAnnotatorError("this ingest token is bound to one annotator: state it as `annotator`")
        drawn, submission = None, partial(Submission, api_key_id=asker.key_id, browser=True)
    if chosen:
        raise invalid_input(tuple(FieldError(f"/{name}", "is not for a browser to choose") for name in chosen))
    return submission(battle.model_copy(update={"answers": True, "category": drawn}))


def _respond_to_backend(request: Request, receipt: BattleReceipt) -> Response:
    texts = {} if receipt.shown is None else {name: one.text for name, one in receipt.shown._asdict().items()}
    return _respond(request, receipt, {"left": receipt.left, "right": receipt.right, **texts})


def _respond(request: Request, receipt: BattleReceipt, more: dict[str, Any]) -> Response:
    # An instance of `OfferedBattle` would take several times as long.
    offered = {
        "battle_id": receipt.id,
        **{name: value for name, value in more.items() if value is not None},
        "token": state_of(request.scope)[BattleTokens].issue(receipt.id),
        "expires_at": receipt.expires_at,
    }
    return Response(to_json(offered), 201, media_type="application/json")


async def _token_battle(request: Request, caller: OptionalKey) -> UUID | None:
    """Require a key or a battle's token in the body; return the token's battle, if there is a token."""
    token = shown_token(await request.body())
    if isinstance(token, str):
        return verify_battle_token(request, token, caller)
    if caller is None:
        raise refuse_anonymous(request)
    return None


TokenBattle = Annotated[UUID | None, Depends(_token_battle)]


@router.post("/{battle_id}/skip", responses=problem_responses(404, 409, 410), openapi_extra=WITHOUT_KEY)
def skip_battle(battle_id: UUID, body: Skip, token_battle: TokenBattle, conn: Transaction) -> SkippedBattle:
    """End a battle without a vote.

    A skipped battle is on record and counts as exposure. Skipping it again changes nothing. The answer does not reveal
    the models. Needs scope `ingest` or, in the body, the battle's `token`. Problems: `not-authenticated`,
    `scope-missing`; `forged-token`, also for the token of another battle; `not-found`; `battle-voted`;
    `battle-expired`; `invalid` for an unknown reason.
    """
    if token_battle is not None:
        service.require_own_token(token_battle, battle_id)
    return service.skip_battle(conn, battle_id, body.reason)


@router.post("/{battle_id}/undo", responses=problem_responses(404, 409, 410), openapi_extra=WITHOUT_KEY)
def undo_vote(
    battle_id: UUID,
    body: Undo,  # noqa: ARG001  `TokenBattle` reads it
    token_battle: TokenBattle,
    conn: Transaction,
) -> UndoneVote:
    """Take a vote back within some seconds after it was cast with `reveal` false: a slip of the finger.

    The vote is retracted; the battle takes no other, and the vote counts towards the limit of an invitation. Taking it
    back again changes nothing. Needs scope `ingest` or, in the body, the battle's `token`. Problems:
    `not-authenticated`, `scope-missing`; `forged-token`, also for the token of another battle; `not-found`; `conflict`
    for a battle without a vote; `models-revealed` for a vote that has named the models; `undo-too-late`.
    """
    if token_battle is not None:
        service.require_own_token(token_battle, battle_id)
    return service.undo_vote(conn, battle_id)


@router.get("", dependencies=[require("review:read")], responses=problem_responses(404))
def list_battles(
    conn: ReadView,
    annotator: Annotated[str | None, Query(description="Only those of this annotator, by id or key.")] = None,
    state: Annotated[BattleState | None, Query(description="Only those in this state.")] = None,
    limit: PageSize = 50,
    cursor: Cursor = None,
) -> Page[Battle]:
    """List battles, the newest first.

    Needs scope `review:read`. Problems: `not-authenticated`, `scope-missing`; `not-found` for an unknown annotator;
    `invalid` for an unknown state or cursor.
    """
    items = service.list_battles(
        conn, limit=limit + 1, before=read_single(cursor, Id), annotator=annotator, state=state
    )
    return paginate(items, limit, lambda last: (last.battle_id,))


@router.get("/{battle_id}", dependencies=[require("review:read")], responses=problem_responses(404))
def get_battle(battle_id: UUID, conn: ReadView) -> BattleWithCandidates:
    """Show a battle: what was drawn, from which models, with which probability, and how it ended.

    Needs scope `review:read`. Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    return service.find_battle(conn, battle_id)


@exposure_router.get("", dependencies=[require("review:read")], responses=problem_responses(404))
def get_exposure(
    conn: ReadView,
    since: Annotated[StorableTimestamp | None, Query(description="Battles drawn at this time or later.")] = None,
    until: Annotated[StorableTimestamp | None, Query(description="Battles drawn before this time.")] = None,
    snapshot: Annotated[str | None, Query(description="Only battles drawn from it, by id or number.")] = None,
    tag: Annotated[Name | None, Query(description="Only battles with this tag.")] = None,
) -> Exposure:
    """Report which battles were offered, how they ended, and what the policy intended.

    By default the battles of the last day are counted; with a snapshot, those drawn from its tables. The report has
    them by model, organization, tag and day, and alarms. For an organization with several models it has the score of
    the best one once the choice is allowed for. Needs scope `review:read`. Problems: `not-authenticated`,
    `scope-missing`, `not-found`; `invalid` for a period that is empty or longer than a year.
    """
    return report_exposure(conn, since=since, until=until, snapshot=snapshot, tag=tag)
