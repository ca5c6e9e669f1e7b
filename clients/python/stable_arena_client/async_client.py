import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import httpx

from stable_arena_client import calls, models
from stable_arena_client.calls import Answer, Call, PageAnswer
from stable_arena_client.client import ENDED, EVENTS, PREFIX, QUIET, SECONDS, authorization, number_of
from stable_arena_client.errors import ArenaUnreachableError, ProblemError
from stable_arena_client.retries import Retries


class AsyncStableArena:
    """The client for asyncio: the methods of `StableArena`, awaited; lists are asynchronous iterators.

    Parameters
    ----------
    url : address of the service, such as `http://127.0.0.1:8000`
    key : an API key or an ingest token; what is public needs none
    retries : when a request is sent again
    transport : of httpx, for proxies and tests
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        retries: Retries | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._retries = retries or Retries()
        self._sleep = sleep
        self._http = httpx.AsyncClient(
            base_url=url.rstrip("/") + PREFIX, headers=authorization(key), timeout=SECONDS, transport=transport
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def vote(self, vote: calls.AnyVote) -> models.RecordedVoteAnswer:
        """Record a vote on two models, or a ranking; needs a key with scope `ingest`, or an ingest token."""
        return await self._send(calls.post_vote(vote))

    async def vote_many(self, votes: Iterable[calls.AnyVote], *, batch: int = 1000) -> AsyncIterator[models.VoteResult]:
        """Record votes in batches; yield the result of each, in order. Nothing is sent until the results are read."""
        done = 0
        for part in calls.in_batches(votes, batch):
            for result in (await self._send(calls.post_batch(part))).results:
                yield result.model_copy(update={"index": done + result.index})
            done += len(part)

    async def battle(
        self, annotator: str, *, candidates: Sequence[str] | None = None, tags: Sequence[str] = ()
    ) -> models.OfferedBattle:
        """Draw the next battle for an annotator; needs scope `ingest`."""
        return await self._send(calls.post_battle(annotator, candidates, tags))

    async def cast(self, token: str, winner: calls.Side, *, annotator: str | None = None) -> models.RecordedVoteAnswer:
        """Vote on a battle by its token; needs no key."""
        return await self._send(calls.cast_vote(token, winner, annotator))

    async def skip(
        self, battle_id: UUID | str, reason: calls.Reason = "skip", *, token: str | None = None
    ) -> models.SkippedBattle:
        """End a battle without a vote, by its token or with a key."""
        return await self._send(calls.skip_battle(battle_id, reason, token))

    async def leaderboard(self, *, method: calls.Method = "am-elo", **choice: Any) -> models.Leaderboard:
        """Read the leaderboard; `snapshot`, `as_of`, `tag`, `compare`, `limit`, `fields` as the reference has them."""
        return await self._send(calls.get_leaderboard({"method": method, **choice}))

    async def confidence(self, k: int = 1, *, tag: str | None = None) -> models.LeaderboardConfidence:
        """Ask whether the votes are enough to know the best k models."""
        return await self._send(calls.get_confidence(k, tag))

    def list_matchups(self, *, model: str | None = None) -> AsyncIterator[models.Matchup]:
        """Read the results of all pairs of models, or of those with one model."""
        return self._list("/matchups", models.MatchupPage, {"model": model})

    def list_snapshots(self) -> AsyncIterator[models.Snapshot]:
        """Read what was published, the newest first."""
        return self._list("/snapshots", models.PageSnapshot, {})

    def list_models(self) -> AsyncIterator[models.Model]:
        """Read the models by name; needs scope `read`."""
        return self._list("/models", models.PageModel, {})

    async def follow(self, *, after: int = 0) -> AsyncIterator[int]:
        """Yield the newest snapshot's number, if it is above `after`, and each that is published, for ever."""
        attempt = 0
        while True:
            try:
                async with self._http.stream(
                    "GET", EVENTS, headers={"Last-Event-ID": str(after)}, timeout=QUIET
                ) as answer:
                    if answer.is_error:
                        await answer.aread()
                        raise ProblemError(answer)
                    async for line in answer.aiter_lines():
                        if line.startswith("data:"):
                            after, attempt = number_of(line), 0
                            yield after
            except httpx.TransportError as error:
                attempt += 1
                wait = self._retries.wait_after_break(attempt)
                if wait is None:
                    raise ArenaUnreachableError(str(error) or type(error).__name__) from error
                await self._sleep(wait)

    async def policy(self) -> models.PolicyVersion:
        """Read the policy in force; needs scope `read`."""
        return await self._send(calls.get_policy())

    async def preview(self, settings: models.Policy) -> models.PolicyPreview:
        """Try a policy out on the votes on record; needs scope `admin`."""
        return await self._send(calls.post_preview(settings))

    async def import_file(self, path: str | Path, **options: Any) -> models.Import:
        """Send a file of votes; `schema`, `dry_run` and so on as the reference has them; needs scope `ingest`."""
        file = Path(path)
        return await self._send(calls.post_import(file.name, await asyncio.to_thread(file.read_bytes), options))

    async def wait_for_import(
        self, import_id: UUID | str, *, every: float = 1.0, seconds: float = 600.0
    ) -> models.ImportDetails:
        """Return an import that has ended. Raises TimeoutError if it takes longer."""
        ends = time.monotonic() + seconds
        while (found := await self._send(calls.get_import(import_id))).state not in ENDED:
            if time.monotonic() > ends:
                raise TimeoutError(f"the import is {found.state} after {seconds:.0f} seconds")
            await self._sleep(every)
        return found

    async def token(self, *, annotator: str | None = None, seconds: int = 900) -> models.MadeToken:
        """Make an ingest token for a page, best for one annotator; needs scope `ingest`."""
        return await self._send(calls.post_token(annotator, seconds))

    async def appeal(self, annotator: str, note: str) -> models.Appeal:
        """Pass an annotator's note on to the reviewers; needs scope `ingest`."""
        return await self._send(calls.post_appeal(annotator, note))

    async def me(self, annotator: str) -> models.OwnStanding:
        """Read an annotator's own standing; the client's key is a token that is bound to the annotator."""
        return await self._send(calls.get_self(annotator))

    def my_votes(self, annotator: str) -> AsyncIterator[models.OwnVote]:
        """Read an annotator's own votes, the newest first; as for `me`."""
        return self._list("/annotators/me/votes", models.PageOwnVote, {"annotator": annotator})

    async def _list(self, path: str, page: type[PageAnswer], params: dict[str, Any]) -> AsyncIterator[Any]:
        cursor = None
        while True:
            found = await self._send(calls.get_page(path, page, params, cursor))
            for item in found.items:
                yield item
            cursor = found.next_cursor
            if cursor is None:
                return

    async def _send(self, call: Call[Answer]) -> Answer:
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await self._http.request(call.method, call.path, **call.request())
            except httpx.TransportError as error:
                again = call.repeatable or isinstance(error, httpx.ConnectError)
                wait = self._retries.wait_after_break(attempt) if again else None
                if wait is None:
                    raise ArenaUnreachableError(str(error) or type(error).__name__) from error
            else:
                if response.is_success:
                    return call.read(response)
                wait = self._retries.wait_after(response, attempt)
                if wait is None:
                    raise ProblemError(response)
            await self._sleep(wait)
