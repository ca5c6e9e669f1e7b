"""Every request of the client as data; what sends it, waiting or not, is the client's."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote
from uuid import UUID, uuid4

import httpx
from pydantic import BaseModel

from stable_arena_client import models

Answer = TypeVar("Answer", bound=BaseModel)
Method = Literal["am-elo", "m-elo", "m-elo-all", "elo"]
Reason = Literal["skip", "identity_leaked", "failed"]
Winner = Literal["model_a", "model_b", "tie", "tie (bothbad)", "both_bad", "bothbad"]
Side = Literal["left", "right", "tie", "bothbad", "both_bad"]
AnyVote = models.Vote | models.RankedVote
LARGEST_BATCH = 10_000


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """One request and the model of its answer.

    Attributes
    ----------
    repeatable : whether it may be sent again after a broken connection, when the service may have carried it out
    """

    method: str
    path: str
    answer: type[Answer]
    params: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True

    def request(self) -> dict[str, Any]:
        """Return the arguments of httpx' `request`."""
        given = {name: value for name, value in self.params.items() if value is not None}
        arguments: dict[str, Any] = {"params": given, "headers": dict(self.headers)}
        if self.content is not None:
            arguments["content"] = self.content
        elif self.body is not None:
            arguments["json"] = self.body
        return arguments

    def read(self, response: httpx.Response) -> Answer:
        """Return the answer as its model."""
        return self.answer.model_validate_json(response.content)


def post_vote(vote: AnyVote) -> Call[models.RecordedVoteAnswer]:
    """Record a vote, once however often it is sent."""
    return Call("POST", "/votes", models.RecordedVoteAnswer, body=_dump(vote), headers=_once())


def cast_vote(token: str, winner: Side, annotator: str | None) -> Call[models.RecordedVoteAnswer]:
    """Vote on a sealed battle; the token counts once."""
    body = models.SealedVoteBody(token=token, winner=winner, annotator=annotator)
    return Call("POST", "/votes", models.RecordedVoteAnswer, body=_dump(body))


def post_batch(votes: Sequence[AnyVote]) -> Call[models.BatchAnswer]:
    """Record votes, once however often the batch is sent."""
    body = {"votes": [_dump(vote) for vote in votes]}
    return Call("POST", "/votes/batch", models.BatchAnswer, body=body, headers=_once())


def post_battle(annotator: str, candidates: Sequence[str] | None, tags: Sequence[str]) -> Call[models.OfferedBattle]:
    """Draw a battle, the same one however often it is sent."""
    body: dict[str, Any] = {"annotator": annotator, "tags": list(tags)}
    if candidates is not None:
        body["candidates"] = list(candidates)
    return Call("POST", "/battles", models.OfferedBattle, body=body, headers=_once())


def skip_battle(battle_id: UUID | str, reason: Reason, token: str | None) -> Call[models.SkippedBattle]:
    """End a battle without a vote."""
    body = {"reason": reason} if token is None else {"reason": reason, "token": token}
    return Call("POST", f"/battles/{battle_id}/skip", models.SkippedBattle, body=body)


def get_leaderboard(params: Mapping[str, Any]) -> Call[models.Leaderboard]:
    """Read the leaderboard; lists among the parameters are joined by commas."""
    joined = {
        name: ",".join(value)
        if isinstance(value, (list, tuple))
        else value.isoformat()
        if isinstance(value, datetime)
        else value
        for name, value in params.items()
    }
    return Call("GET", "/leaderboard", models.Leaderboard, params=joined)


def get_confidence(k: int, tag: str | None) -> Call[models.LeaderboardConfidence]:
    """Ask whether the votes are enough to know the best k models."""
    return Call("GET", "/leaderboard/confidence", models.LeaderboardConfidence, params={"k": k, "tag": tag})


def get_policy() -> Call[models.PolicyVersion]:
    """Read the policy in force."""
    return Call("GET", "/policy", models.PolicyVersion)


def post_preview(settings: models.Policy) -> Call[models.PolicyPreview]:
    """Try a policy out."""
    body = {"settings": settings.model_dump(mode="json")}  # with nulls: a policy is whole
    return Call("POST", "/policy/preview", models.PolicyPreview, body=body)


def post_import(name: str, content: bytes, options: Mapping[str, Any]) -> Call[models.Import]:
    """Send a file of votes; the same file again is the same import."""
    media = {"Content-Type": "application/octet-stream"}
    return Call("POST", "/imports", models.Import, params={"filename": name, **options}, content=content, headers=media)


def get_import(import_id: UUID | str) -> Call[models.ImportDetails]:
    """Read how far an import is."""
    return Call("GET", f"/imports/{import_id}", models.ImportDetails)


def post_token(annotator: str | None, seconds: int) -> Call[models.MadeToken]:
    """Make a token for a page."""
    body = {"seconds": seconds} if annotator is None else {"seconds": seconds, "annotator": annotator}
    return Call("POST", "/keys/tokens", models.MadeToken, body=body)


def post_appeal(annotator: str, note: str) -> Call[models.Appeal]:
    """Pass an annotator's note on; sent twice it would be two appeals."""
    path = f"/annotators/{quote(annotator, safe='')}/appeals"
    return Call("POST", path, models.Appeal, body={"note": note}, repeatable=False)


def get_self(annotator: str) -> Call[models.OwnStanding]:
    """Read what an annotator may know of themselves."""
    return Call("GET", "/annotators/me", models.OwnStanding, params={"annotator": annotator})


PageAnswer = TypeVar("PageAnswer", models.MatchupPage, models.PageModel, models.PageOwnVote, models.PageSnapshot)


def get_page(
    path: str, page: type[PageAnswer], params: Mapping[str, Any], cursor: str | None = None
) -> Call[PageAnswer]:
    """Read one page of a list."""
    return Call("GET", path, page, params={**params, "limit": 100, "cursor": cursor})


def in_batches(votes: Iterable[AnyVote], size: int) -> Iterator[list[AnyVote]]:
    """Split votes into batches."""
    if not 1 <= size <= LARGEST_BATCH:
        raise ValueError(f"a batch has 1 to {LARGEST_BATCH:,} votes")
    waiting = iter(votes)
    while batch := list(islice(waiting, size)):
        yield batch


def _dump(body: BaseModel) -> dict[str, Any]:
    return body.model_dump(mode="json", exclude_none=True, exclude_unset=True)


def _once() -> dict[str, str]:
    return {"Idempotency-Key": uuid4().hex}
