"""What one process of the HTTP service holds while it runs.

The application builds one `Services` when it starts; endpoints receive it from `app.api.dependencies.get_services`.
The rooms are imported for their types only, so that every endpoint may use this module without importing upwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from starlette.requests import Request

if TYPE_CHECKING:
    import asyncio

    from app.api.kept_answers import KeptAnswers
    from app.auth.battle_tokens import BattleTokens
    from app.auth.callers import KnownCallers
    from app.auth.oidc.provider import OpenIdProvider
    from app.battles.queue import BattleQueue
    from app.database.engine import Database
    from app.guard.back_off import BackOff
    from app.guard.limits import RateLimits
    from app.leaderboard.newest import NewestState
    from app.monitoring.cache import FiguresCache, MetricsReaders
    from app.naming.known_names import KnownNames
    from app.review.impact.service import Impacts
    from app.review.previews import PolicyPreviews
    from app.settings import Settings
    from app.snapshots.events import SnapshotEvents
    from app.votes.service import VoteQueue


@dataclass(slots=True, kw_only=True)
class Services:
    """The database, the settings, and everything that is kept between requests."""

    settings: Settings
    database: Database
    schema_revision: str | None
    request_slots: asyncio.Semaphore
    rate_limits: RateLimits
    back_off: BackOff
    known_callers: KnownCallers
    known_names: KnownNames
    vote_queue: VoteQueue
    battle_queue: BattleQueue
    battle_tokens: BattleTokens
    newest_state: NewestState
    answers: KeptAnswers
    snapshot_events: SnapshotEvents
    impacts: Impacts
    previews: PolicyPreviews
    figures: FiguresCache
    metrics_readers: MetricsReaders
    oidc: OpenIdProvider | None
    batch_bytes: int = 0
    """Bytes of the vote batches that are being received or recorded now."""

    def end_open_answers(self) -> None:
        """End the answers that stay open or are kept back: a server that stops waits for them."""
        self.snapshot_events.stop()
        self.back_off.stop()

    async def close(self) -> None:
        """Record the votes and battles that wait and stop every process and thread."""
        self.end_open_answers()
        self.figures.close()
        self.previews.stop()
        self.impacts.stop()
        await self.battle_queue.close()
        await self.vote_queue.close()


def services_of(request: Request) -> Services:
    """Return what the process that answers this request holds."""
    return cast("Services", request.app.state.services)
