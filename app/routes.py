"""Every route of the HTTP interface: a new router is one line here."""

from fastapi import Depends, FastAPI

from app.annotators import endpoints as annotators
from app.audit import endpoints as audit
from app.auth.keys import endpoints as keys
from app.auth.tokens import endpoints as tokens
from app.exports import endpoints as exports
from app.http.dependencies import require_json
from app.http.paths import PREFIX
from app.imports import endpoints as imports
from app.leaderboard import endpoints as leaderboard
from app.leaderboard.diff import endpoints as diff
from app.leaderboard.matchups import endpoints as matchups
from app.leaderboard.model_page import endpoints as model_page
from app.models import endpoints as models
from app.monitoring.health import endpoints as health
from app.monitoring.metrics import endpoints as metrics
from app.pages import endpoints as pages
from app.policy import endpoints as policy
from app.refits import endpoints as refits
from app.review import endpoints as review
from app.snapshots import endpoints as snapshots
from app.votes import endpoints as votes
from app.votes.retractions import endpoints as retractions
from app.votes.schemas import Vote, VoteBatch
from app.webhooks import endpoints as webhooks

BODIES = (Vote, VoteBatch)
"""Bodies that their endpoints parse themselves: FastAPI does not see them."""


def install_routes(app: FastAPI) -> None:
    """Give the application its routes."""
    # Directly: FastAPI takes twice as long to find a route of an included router, and votes come thousands a second.
    app.router.routes.extend(votes.router.routes)
    for part in (
        retractions,
        refits,
        leaderboard,
        matchups,
        models,
        model_page,
        snapshots,
        diff,
        annotators,
        review,  # after annotators: keys may hold slashes, and its GET /annotators/{annotator} matches all of theirs
        audit,
        policy,
        keys,
        tokens,
        exports,
        webhooks,
    ):
        app.include_router(part.router, prefix=PREFIX, dependencies=[Depends(require_json)])
    app.include_router(review.policy_router, prefix=PREFIX, dependencies=[Depends(require_json)])
    app.include_router(imports.router, prefix=PREFIX)  # bodies of every kind
    app.include_router(health.router)
    app.include_router(metrics.router)
    app.include_router(pages.router)
